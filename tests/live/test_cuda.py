"""tcemu.live.cuda with a fake GPU: what is returned, and what is rejected."""

import numpy as np
import pytest

from tcemu import live
from tcemu.errors import OperandError
from tcemu.live.runner import cuda


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_arrays_come_back_unless_they_are_read_only(card):
    x = np.arange(6).reshape(2, 3).T
    fixed = np.ones(3)
    fixed.flags.writeable = False
    live.cuda("", "twice", (1, 2), 32, x, fixed, np.float32(1))
    assert x.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert fixed.tolist() == [1, 1, 1]


ARGUMENTS = [
    ((1, 1, 2.0), {}, r"argument 0: 2\.0 does not say its C type; write np\.float32"),
    ((1, 1, 2), {}, r"argument 0: 2 does not say its C type; write np\.int32"),
    ((1, 1, "x"), {}, "expected a numpy array or a numpy scalar; got str"),
    ((1, 1, np.array([None])), {}, "an array of object has no C type"),
    ((0, 1), {}, "grid must be a positive int or a tuple of up to three; got 0"),
    ((1, (1, 1, 1, 1)), {}, "block must be a positive int or a tuple of up to three"),
    ((1, 1), {"shared": 1 << 30}, "shared= must be 0 to 232448 bytes on Emulated GPU"),
    ((1, 1), {"seconds": 0}, "seconds= must be more than 0"),
    ((1, 1), {"launches": 0}, "launches= must be at least 1; got 0"),
    ((1, 1), {"options": ["-G"]}, "options must be -IFOLDER, -DNAME"),
]


@pytest.mark.parametrize(("given", "named", "message"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_wrong_arguments_of_cuda(card, given, named, message):
    with pytest.raises(OperandError, match=message):
        live.cuda("", "f", *given, **named)


def test_a_kernel_that_is_not_there_and_a_header_that_is_not():
    log = '__nv_name_map(2): error: identifier "g" is undefined'
    assert cuda.explained("", "g", log).startswith("the source compiles, but has no kernel 'g'")
    log = 'kernel.cu(1): catastrophic error: cannot open source file "mma.h"'
    assert "CUDA's headers come with" in cuda.explained("#include <mma.h>", "g", log)

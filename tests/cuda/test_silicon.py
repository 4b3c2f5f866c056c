"""The kernels of corpus/ on the machine, against what an H200 answered: every byte of every array."""

import hashlib
import json
import lzma
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cases import CASES

from tcemu import assembly, simt

GOLDEN = Path(__file__).parents[1] / "golden" / "sm_90a-cuda.json.xz"


@cache
def golden():
    return json.loads(lzma.decompress(GOLDEN.read_bytes()))


@cache
def module(file):
    return assembly.parse(golden()["ptx"][file], file)


def _digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_byte_is_the_h200s(case):
    args, kernel = case.args(), simt.Kernel(module(case.file), case.kernel)
    arrays = [each for each in args if isinstance(each, np.ndarray)]
    kernel.launch(case.grid, case.block, *args, shared=case.shared, sanitizer="off")
    assert [_digest(each) for each in arrays] == golden()["sha256"][str(case)]

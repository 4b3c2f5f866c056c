"""Objects that are not arrays, whatever their __array__ raises: a tcemu error names the operand."""

from itertools import product

import numpy as np
import pytest
from quick import some
from rows import rows

import tcemu
from tcemu import OperandError, formats, microscaling, sparse, wmma
from tcemu.errors import FormatError, TcemuError
from tcemu.formats.arrays import as_array
from tcemu.layouts.descriptor import Descriptor
from tcemu.layouts.tiles import copy_tile
from tcemu.show.widgets import flip_one_bit

HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
SPARSE = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
MXF8 = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16"
X1 = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
A, B, C = (np.zeros((32, n), np.uint32) for n in (4, 2, 4))
S, D, BYTES = np.zeros(32, np.uint32), np.zeros((128, 4), np.uint32), np.zeros(4096, np.uint8)


class Failing:
    """An array-like that fails."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error

    __index__ = __float__ = __repr__ = __array__


#: Who is asked for an array, and what the error names.
CALLS = {
    "registers": (lambda x: tcemu.run(HMMA, A, x, C), "operand b"),
    "metadata": (lambda x: tcemu.run(SPARSE, B, B, C, x, 0), "metadata"),
    "scales": (lambda x: tcemu.run(MXF8, A, B, C, x, (0, 0), S, (0, 0), target="sm_120a"), "scale_a"),
    "a matrix descriptor": (lambda x: tcemu.run(WGMMA, D, np.uint64(0), x, True, 1, 1, 0, 0, shared=BYTES), ": b "),
    "a descriptor or registers": (lambda x: tcemu.run(WGMMA, D, x, np.uint64(0), True, 1, 1, 0, shared=BYTES), ": a "),
    "a predicate": (lambda x: tcemu.run(WGMMA, D, D, np.uint64(0), x, 1, 1, 0, shared=BYTES), "scale_d"),
    "addresses": (lambda x: tcemu.run(X1, x, shared=BYTES), "addresses"),
    "a pointer": (lambda x: tcemu.run(LOAD, x, shared=BYTES), "pointer"),
    "a stride": (lambda x: tcemu.run(LOAD, 0, x, shared=BYTES), "stride"),
    "a matrix of a product": (lambda x: tcemu.matmul(x, np.zeros((16, 8)), instruction=HMMA), "A of mma"),
    "a matrix to pack": (tcemu.parse(HMMA).fragments["a"].pack, "a of f16"),
    "registers to unpack": (tcemu.parse(HMMA).fragments["a"].unpack, "operand a"),
    "numbers to encode": (lambda x: formats.lookup("e4m3").encode(x), "values for e4m3"),
    "patterns to decode": (lambda x: formats.lookup("e4m3").decode(x), "patterns of e4m3"),
    "addresses of an access": (lambda x: tcemu.wavefronts(x, "ld.shared.b32"), "addresses"),
    "a tile": (lambda x: copy_tile(x, BYTES, Descriptor(0, 128, 256)), "tile"),
    "a matrix to prune": (lambda x: sparse.prune(x, "2:4"), "the matrix to prune"),
    "a matrix to scale": (lambda x: microscaling.quantise(x, "mxfp4"), "values for f64"),
    "numbers of C++": (wmma.float_to_tf32, "float_to_tf32"),
    "a number of C++": (lambda x: wmma.half.number(x, "fill_fragment"), "fill_fragment"),
    "steps of a pointer": (lambda x: wmma.pointer(np.zeros(8, np.float32)) + x, "a pointer moves"),
    "registers in a widget": (lambda x: flip_one_bit(tcemu.parse(HMMA), A, x, C), "operand b"),
}


#: What an `__array__` may raise.
ERRORS = [KeyError("k"), ZeroDivisionError("z"), RuntimeError("r"), TypeError("t"), OSError()]


@rows("what, error", some(product(CALLS, ERRORS), 12), lambda what, error: f"{what}: {error!r}")
def test_what_is_no_array_is_told(what, error):
    call, named = CALLS[what]
    with pytest.raises(TcemuError, match=named):
        call(Failing(error))


def test_what_is_raised_is_told():
    with pytest.raises(FormatError, match="the third: no camera"):
        as_array(Failing(OSError("no camera")), "the third", FormatError)


def test_an_error_of_ours_stays_what_it_is():
    with pytest.raises(OperandError, match=r"^never written$"):
        as_array(Failing(OperandError("never written")), "the third", FormatError)


def test_an_array_is_not_copied():
    array = np.zeros(3)
    assert as_array(array, "x") is array

"""tcemu.matmul: whole matrices equal the loop over tiles, and wrong ones are explained."""

import math
import tracemalloc

import numpy as np
import pytest
from quick import some
from rows import rows

import tcemu
from tcemu.errors import OperandError, TcemuError
from tcemu.instructions import FAMILIES, TARGETS
from tcemu.vectors import elements

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#: The dense products of the first family, once for each combination of types and shape (layouts do not matter here).
FORMS = {
    (str(i.shape), *(i.types[role].name for role in "dabc"), i.qualifiers): i
    for family in FAMILIES
    if family.name in ("mma", "wmma.mma")
    for _, i in family.variants
    if len(i.fragments["a"].shape) == 2
}
TARGET_NAMES = ("sm_70", "sm_80", "sm_90a", "sm_120a")


def matrix(form, kind, key, shape, accumulator=False):
    """A matrix of the format with inputs of a class of the golden files."""
    patterns = elements(form, kind if form.kind == "float" else "bits", key, math.prod(shape), accumulator)
    return form.matrix(patterns.reshape(shape).astype(form.storage))


def by_tiles(form, target, a, b, c):
    """The same by tcemu.run, tile by tile, K upward."""
    m, n, k = form.shape
    here = tcemu.parse(form, target)
    d = np.empty(c.shape, form.types["d"].dtype)
    for row in range(0, len(a), m):
        for column in range(0, b.shape[1], n):
            rows, columns = slice(row, row + m), slice(column, column + n)
            running = here.fragments["c"].pack(c[rows, columns])
            for start in range(0, a.shape[1], k):
                ks = slice(start, start + k)
                parts = here.fragments["a"].pack(a[rows, ks]), here.fragments["b"].pack(b[ks, columns])
                running = tcemu.run(form, *parts, running, target=target)
            d[rows, columns] = here.fragments["d"].unpack(running)
    return d


def bits(form, array):
    return form.patterns(np.ascontiguousarray(array))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGET_NAMES)
@rows("form", some(FORMS.values(), 14))
def test_it_is_the_loop_over_tiles(target, form):
    if not form.gate.admits(TARGETS[target]):
        return
    if target == "sm_70" and form.family == "wmma.mma" and str(form.shape) != "m16n16k16":
        with pytest.raises(tcemu.ArithmeticUnknown, match="have not been published"):
            tcemu.parse(form, target).fragments["a"]
        return
    m, n, k = form.shape
    steps = 3 if form.types["d"] == form.types["c"] else 1
    sizes = {"a": (2 * m, steps * k), "b": (steps * k, 3 * n), "c": (2 * m, 3 * n)}
    for kind in ("near", "specials", "wide") if form.types["a"].kind == "float" else ("bits",):
        a, b, c = (matrix(form.types[r], kind, f"{form}{kind}{r}", sizes[r], r == "c") for r in "abc")
        got = tcemu.matmul(a, b, c, instruction=form, target=target)
        assert np.array_equal(bits(form.types["d"], got), bits(form.types["d"], by_tiles(form, target, a, b, c)))


def test_without_c_it_starts_from_zero():
    a = np.ones((16, 32), np.float16)
    assert (tcemu.matmul(a, np.ones((32, 8), np.float16), instruction=F16) == 32).all()


#: A form for each kind of arithmetic.
KINDS = {
    "f16": (F16, "sm_90a"),
    "e4m3": ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90a"),
    "f16 of sm_70": ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", "sm_70"),
    "f64": ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "sm_90a"),
    "s8": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "sm_90a"),
    "s4": ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", "sm_80"),
    "b1": ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "sm_80"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_no_more_memory_than_four_times_its_matrices(kind):
    form, target = KINDS[kind]
    types, shape = tcemu.parse(form, target).types, (768, 768)
    a, b = (matrix(types[role], "near", role, shape) for role in "ab")
    tcemu.matmul(a, b, instruction=form, target=target)  # what is kept for later calls
    tracemalloc.start()
    try:
        d = tcemu.matmul(a, b, instruction=form, target=target)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= 4 * (a.nbytes + b.nbytes + d.nbytes)


def test_no_k_leaves_c():
    c = np.full((16, 8), 3, np.float32)
    empty = np.zeros((16, 0), np.float16), np.zeros((0, 8), np.float16)
    assert np.array_equal(tcemu.matmul(*empty, c, instruction=F16), c)


H = np.zeros((32, 32), np.float16)


@pytest.mark.parametrize(
    ("operands", "instruction", "says"),
    [
        ((H.astype(float), H), F16, r"dtype float16 \(or its bits as uint16\), got dtype float64"),
        ((H, H, H), F16, "C of .* dtype float32"),
        ((H[:30], H), F16, r"M = 30 \(rows of A\) is not a multiple of 16. Pad M to 32"),
        ((H, H[:, :9]), F16, r"N = 9 \(columns of B\) is not a multiple of 8. Pad N to 16"),
        ((H[:, :20], H[:20]), F16, r"K = 20 \(columns of A\) is not a multiple of 16. Pad K to 32"),
        ((H[:30, :20], H[:20]), F16, "M = 30 .* and K = 20 .*Pad .* with zeros, which change no sum"),
        ((H, H[:16]), F16, "A has 32 columns and B 16 rows; both are K"),
        ((H[0], H), F16, "two axes"),
        ((H, H, np.zeros((8, 8), np.float32)), F16, "C of .* must be 32 x 32"),
        ((H, H), "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16", "K must be 4"),
        ((H, H), "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "takes the dense forms of mma, wmma.mma and wgmma"),
        ((H, H), "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "cannot multiply whole matrices by itself"),
    ],
)
def test_wrong_matrices_are_explained(operands, instruction, says):
    with pytest.raises(OperandError, match=says):
        tcemu.matmul(*operands, instruction=instruction)


def test_an_instruction_that_the_target_lacks():
    with pytest.raises(TcemuError, match="does not exist on sm_75"):
        tcemu.matmul(H, H, instruction=F16, target="sm_75")

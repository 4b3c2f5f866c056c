"""nvcuda::wmma in Python: what exists, what it computes, and the elements that lanes hold."""

import doctest
import itertools
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from quick import some
from rows import rows

import tcemu
from tcemu import IllegalInstruction, TargetError, wmma
from tcemu.wmma.names import TYPES

A, B, C = wmma.matrix_a, wmma.matrix_b, wmma.accumulator
ROW, COL, MEM_ROW, MEM_COL = wmma.row_major, wmma.col_major, wmma.mem_row_major, wmma.mem_col_major
TF32, EXPERIMENTAL = wmma.precision.tf32, wmma.experimental.precision
SMALL, TALL, WIDE = (16, 16, 16), (32, 8, 16), (8, 32, 16)

# The table of CUDA 13.0's crt/mma.h: num_elements of A, B and the accumulator, and the first architecture.
# shape, type of A and B: (elements of A, of B, stored ones), {accumulator: elements}, since, layouts of A, of B
HEADER = {
    (SMALL, "half"): ((16, 16), {"half": 8, "float": 8}, 70),
    (TALL, "half"): ((16, 16), {"half": 8, "float": 8}, 70),
    (WIDE, "half"): ((16, 16), {"half": 8, "float": 8}, 70),
    (SMALL, "signed char"): ((8, 8), {"int": 8}, 72),
    (TALL, "signed char"): ((16, 4), {"int": 8}, 72),
    (WIDE, "signed char"): ((4, 16), {"int": 8}, 72),
    (SMALL, "unsigned char"): ((8, 8), {"int": 8}, 72),
    (TALL, "unsigned char"): ((16, 4), {"int": 8}, 72),
    (WIDE, "unsigned char"): ((4, 16), {"int": 8}, 72),
    (SMALL, "__nv_bfloat16"): ((8, 8), {"float": 8}, 80),
    (TALL, "__nv_bfloat16"): ((16, 4), {"float": 8}, 80),
    (WIDE, "__nv_bfloat16"): ((4, 16), {"float": 8}, 80),
    ((16, 16, 8), "precision::tf32"): ((4, 4), {"float": 8}, 80),
    ((8, 8, 4), "double"): ((1, 1), {"double": 2}, 80),
    ((8, 8, 32), "experimental::precision::u4"): ((8, 8), {"int": 2}, 75),
    ((8, 8, 32), "experimental::precision::s4"): ((8, 8), {"int": 2}, 75),
    ((8, 8, 128), "experimental::precision::b1"): ((32, 32), {"int": 2}, 75),
}
PACKED = {"experimental::precision::u4": 8, "experimental::precision::s4": 8, "experimental::precision::b1": 32}
X_DTYPES = {
    "half": np.float16, "__nv_bfloat16": ml_dtypes.bfloat16, "float": np.float32, "double": np.float64, "int": np.int32,
    "signed char": np.int8, "unsigned char": np.uint8, "precision::tf32": np.float32,
    "experimental::precision::u4": np.uint32, "experimental::precision::s4": np.int32,
    "experimental::precision::b1": np.uint32,
}  # fmt: skip


def fragments_of_the_header():
    """(use, shape, type, layout) -> (elements, stored elements, first architecture)."""
    found = {}
    for (shape, name), (sizes, accumulators, since) in HEADER.items():
        pack = PACKED.get(name, 1)
        for use, size, fixed in ((A, sizes[0], ROW), (B, sizes[1], COL)):
            for layout in (fixed,) if pack > 1 else (ROW, COL):
                found[use, shape, name, layout] = size, size // pack, since
        for accumulator, size in accumulators.items():
            key = (C, shape, accumulator, None)
            found[key] = size, size, min(since, found.get(key, (0, 0, since))[2])
    return found


FRAGMENTS = fragments_of_the_header()


def trio(shape, operand, accumulator, a_layout=ROW, b_layout=COL):
    """Fragments of A, B and the accumulator."""
    operands = wmma.fragment(A, *shape, operand, a_layout), wmma.fragment(B, *shape, operand, b_layout)
    return *operands, wmma.fragment(C, *shape, accumulator)


# What exists ----------------------------------------------------------------------------------------------------------


@rows("key", FRAGMENTS, ids=lambda key: "-".join(map(str, key)))
def test_fragments_have_the_sizes_of_the_header(key):
    use, shape, name, layout = key
    elements, stored, since = FRAGMENTS[key]
    fragment = wmma.fragment(use, *shape, name, layout)
    assert (fragment.num_elements, fragment.num_storage_elements) == (elements, stored)
    assert fragment.x.shape == (32, stored)
    assert fragment.x.dtype == X_DTYPES[name]
    assert (fragment.use, fragment.shape, fragment.layout, fragment.target) == (use, shape, layout, "sm_90a")
    for target in (70, 72, 75, 80, 90):
        if target >= since:
            assert wmma.fragment(use, *shape, name, layout, target=f"sm_{target}").num_elements == elements
        else:
            with pytest.raises(IllegalInstruction, match=f"not exist on sm_{target}: .* for sm_{since} or later"):
                wmma.fragment(use, *shape, name, layout, target=f"sm_{target}")


def test_nothing_else_exists():
    shapes = {shape for shape, _ in HEADER} | {(16, 8, 16), (16, 16, 32), (4, 4, 4)}
    names = [each.name.removeprefix("wmma::") for each in TYPES]
    for use, shape, name, layout in itertools.product((A, B, C), shapes, names, (None, ROW, COL)):
        if (use, shape, name, layout) not in FRAGMENTS:
            spelt = r"wmma::fragment<wmma::\w+, \d+, \d+, \d+, [\w: ]+(, wmma::\w+)?>"
            with pytest.raises(IllegalInstruction, match=spelt):
                wmma.fragment(use, *shape, name, layout)


def test_types_go_by_the_names_of_cuda_numpy_and_python():
    def same(*types):
        return len({wmma.fragment(C, *SMALL, each).element_type for each in types}) == 1

    assert same(wmma.half, wmma.float16, "half", "__half", "f16", np.float16, np.dtype(np.float16))
    assert same(float, "float", np.float32)  # C++'s float
    assert same(int, "int", np.int32)
    signed, brain = (wmma.signed_char, "signed char", np.int8), (wmma.bfloat16, "__nv_bfloat16", ml_dtypes.bfloat16)
    for names in (signed, brain):
        assert len({wmma.fragment(A, *SMALL, each, ROW).element_type for each in names}) == 1
    by_name = wmma.fragment("matrix_a", 16, 16, 8, "nvcuda::wmma::precision::tf32", "wmma::row_major")
    assert by_name.kind == wmma.fragment(A, 16, 16, 8, TF32, ROW).kind
    assert repr(by_name) == (
        "<wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> on sm_90a: "
        "4 elements a lane, empty>"
    )
    wmma.fill_fragment(by_name, 1)
    assert repr(by_name).endswith("4 elements a lane, x (32, 4) float32>")
    with pytest.raises(AttributeError, match=r"experimental::precision has no tf32: .* tf32 is in wmma::precision"):
        _ = EXPERIMENTAL.tf32


def test_targets_are_chosen_for_one_fragment_or_for_a_while():
    with wmma.target("sm_70"):
        inside = wmma.fragment(C, *SMALL, float)
        with wmma.target("sm_80"):
            assert wmma.fragment(C, *SMALL, float).target == "sm_80"
        assert wmma.fragment(C, *SMALL, float, target="sm_75").target == "sm_75"
    assert inside.target == "sm_70"
    assert wmma.fragment(C, *SMALL, float).target == wmma.DEFAULT_TARGET == "sm_90a"
    with pytest.raises(TargetError, match="no target is called 'sm_71'"), wmma.target("sm_71"):
        pass


def test_importing_tcemu_does_not_load_it():
    script = (
        "import sys, tcemu; assert 'tcemu.wmma' not in sys.modules; "
        "from tcemu import wmma; assert 'ml_dtypes' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_docstring_is_true():
    outcome = doctest.testmod(wmma)
    assert outcome.attempted > 5
    assert outcome.failed == 0


# What it computes -----------------------------------------------------------------------------------------------------


def small_numbers(name, shape, rng):
    unsigned = {"unsigned char": (0, 9), "experimental::precision::u4": (0, 16), "experimental::precision::b1": (0, 2)}
    low, high = unsigned.get(name, (-8, 8))
    return rng.integers(low, high, shape)


def in_memory(matrix, name, by_rows, ldm, at):
    """An array that holds `matrix` with lines `ldm` elements apart, the first at element `at`; the rest is not zero."""
    lines = matrix if by_rows else matrix.T
    count, length = lines.shape
    room = np.ones((at // ldm + 1 + count) * ldm, np.int64)
    for i, line in enumerate(lines):
        room[at + i * ldm : at + i * ldm + length] = line
    if name == "experimental::precision::b1":
        return np.packbits(room.astype(np.uint8), bitorder="little")
    if name in PACKED:
        return (room[::2] & 15 | (room[1::2] & 15) << 4).astype(np.uint8)
    return room.astype(X_DTYPES[name])


def pointer_to(matrix, name, layout, ldm, at):
    array = in_memory(matrix, name, layout.word == "row", ldm, at)
    return wmma.pointer(array) + at // {1: 1, 8: 2, 32: 8}[PACKED.get(name, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("target", some(["sm_70", "sm_75", "sm_90a", "sm_120"], 2))
@rows("what", HEADER, ids=lambda what: f"{'x'.join(map(str, what[0]))}-{what[1]}")
def test_loads_products_and_stores_are_exact(what, target):
    """Small whole numbers: every sum is exact, so plain integers tell the result, whatever the layouts and strides."""
    shape, name = what
    _, accumulators, since = HEADER[what]
    number = int(target.removeprefix("sm_").removesuffix("a"))
    if number < since or (number < 75 and shape != SMALL):
        return  # not there, or nobody knows its fragments
    rng = np.random.default_rng(7)
    m, n, k = shape
    a, b = small_numbers(name, (m, k), rng), small_numbers(name, (k, n), rng)
    c = rng.integers(-100, 100, (m, n))
    product = (a[:, :, None] ^ b).sum(1) if name.endswith("b1") else a @ b
    layouts = [(ROW, COL)] if name in PACKED else list(itertools.product((ROW, COL), (ROW, COL)))
    unit = 16 * PACKED[name] // 4 if name in PACKED else 16 // np.dtype(X_DTYPES[name]).itemsize  # 16 bytes
    with wmma.target(target):
        for (la, lb), (lc, ld), accumulator, wide in itertools.product(
            layouts, itertools.product((MEM_ROW, MEM_COL), repeat=2), accumulators, (0, 1, 4)
        ):
            fa, fb = wmma.fragment(A, *shape, name, la), wmma.fragment(B, *shape, name, lb)
            acc = wmma.fragment(C, *shape, accumulator)
            for fragment, matrix, layout in ((fa, a, la), (fb, b, lb)):
                ldm = -(-matrix.shape[layout is ROW] // unit) * unit + wide * unit
                wmma.load_matrix_sync(fragment, pointer_to(matrix, name, layout, ldm, 256 * wide), ldm)
            step = 16 // np.dtype(X_DTYPES[accumulator]).itemsize
            ldm = 32 + step * wide
            wmma.load_matrix_sync(acc, pointer_to(c, accumulator, lc, ldm, 64 * wide), ldm, lc)
            if name.endswith("b1"):
                wmma.bmma_sync(acc, fa, fb, acc, wmma.experimental.bmmaBitOpXOR)
            else:
                wmma.mma_sync(acc, fa, fb, acc)
            lines = (m, n) if ld is MEM_ROW else (n, m)
            out = np.full((lines[0], lines[1] + step * (1 + wide)), 77).astype(X_DTYPES[accumulator])
            untouched = out[:, lines[1] :].copy()
            wmma.store_matrix_sync(wmma.pointer(out), acc, out.shape[1], ld)
            stored = out[:, : lines[1]].astype(np.int64)
            assert np.array_equal(stored if ld is MEM_ROW else stored.T, product + c)
            assert np.array_equal(out[:, lines[1] :], untouched)


@pytest.mark.parametrize("target", ["sm_70", "sm_75", "sm_90a"])
@pytest.mark.parametrize("name", ["half", "float", "int", "double"])
def test_accumulators_come_back_from_memory_as_they_went(target, name):
    rng = np.random.default_rng(3)
    for shape in sorted(shape for use, shape, each, _ in FRAGMENTS if use is C and each == name):
        since = FRAGMENTS[C, shape, name, None][2]
        if int(target[3:5]) < since or (target == "sm_70" and shape != SMALL):
            continue
        source = np.frombuffer(rng.bytes(2 * 32 * 32 * 8), X_DTYPES[name]).copy()  # any bits: NaNs keep their payloads
        for here, there in itertools.product((MEM_ROW, MEM_COL), repeat=2):
            frag = wmma.fragment(C, *shape, name, target=target)
            wmma.load_matrix_sync(frag, wmma.pointer(source) + 64, 40, here)
            out = np.zeros((32, 32), X_DTYPES[name])
            wmma.store_matrix_sync(wmma.pointer(out), frag, 32, there)
            bits = np.dtype(f"u{source.itemsize}")
            lines = [source.view(bits)[64 + 40 * i :] for i in range(32)]
            m, n, _ = shape
            matrix = np.array([[lines[i][j] if here is MEM_ROW else lines[j][i] for j in range(n)] for i in range(m)])
            stored = out.view(bits)[:m, :n] if there is MEM_ROW else out.view(bits)[:n, :m].T
            assert np.array_equal(stored, matrix)


@pytest.mark.parametrize("types", [("half", "float"), ("half", "half"), ("bfloat16", "float")])
def test_a_product_is_that_of_mma(types):
    """On sm_90 wmma's m16n16k16 is two m16n8k16 in the same order of K, to the last bit, whatever the numbers."""
    operand, accumulator = types
    rng = np.random.default_rng(11)
    dtype = {"half": np.float16, "bfloat16": ml_dtypes.bfloat16}[operand]
    sizes = (48, 80), (80, 32)
    left, right = ((rng.standard_normal(size) * 2.0 ** rng.integers(-9, 9, size)).astype(dtype) for size in sizes)
    start = rng.standard_normal((48, 32)).astype(X_DTYPES[accumulator])
    c = start.copy()
    pointers = [wmma.pointer(array) for array in (left, right, c)]
    for row, column in itertools.product(range(0, 48, 16), range(0, 32, 16)):
        a, b = wmma.fragment(A, *SMALL, operand, ROW), wmma.fragment(B, *SMALL, operand, ROW)
        acc = wmma.fragment(C, *SMALL, accumulator)
        wmma.load_matrix_sync(acc, pointers[2] + row * 32 + column, 32, MEM_ROW)
        for k in range(0, 80, 16):
            wmma.load_matrix_sync(a, pointers[0] + row * 80 + k, 80)
            wmma.load_matrix_sync(b, pointers[1] + k * 32 + column, 32)
            wmma.mma_sync(acc, a, b, acc)
        wmma.store_matrix_sync(pointers[2] + row * 32 + column, acc, 32, MEM_ROW)
    short = {"float": "f32", "half": "f16", "bfloat16": "bf16"}
    d, x = short[accumulator], short[operand]
    opcode = f"mma.sync.aligned.m16n8k16.row.col.{d}.{x}.{x}.{d}"
    bits = np.dtype(f"u{c.itemsize}")
    assert np.array_equal(c.view(bits), tcemu.matmul(left, right, start, instruction=opcode).view(bits))


def test_many_warps_are_one_call():
    rng = np.random.default_rng(5)
    left, right = (rng.integers(-4, 5, shape).astype(np.int8) for shape in ((64, 32), (32, 96)))
    out = np.zeros((64, 96), np.int32)
    rows, columns = np.arange(0, 64, 16)[:, None], np.arange(0, 96, 16)
    a, b, acc = trio(SMALL, np.int8, int, b_layout=ROW)
    wmma.fill_fragment(acc, 0)
    for k in (0, 16):
        wmma.load_matrix_sync(a, wmma.pointer(left) + (rows * 32 + k), 32)
        wmma.load_matrix_sync(b, wmma.pointer(right) + (k * 96 + columns), 96)
        wmma.mma_sync(acc, a, b, acc)
    assert a.x.shape == (4, 1, 32, 8)
    assert acc.x.shape == (4, 6, 32, 8)
    wmma.store_matrix_sync(wmma.pointer(out) + rows * 96 + columns, acc, 96, MEM_ROW)
    assert np.array_equal(out, left.astype(int) @ right.astype(int))


def test_satf_clamps_and_its_absence_wraps():
    a, b, acc = trio(SMALL, np.int8, int)
    for fragment, value in ((a, 1), (b, 1), (acc, 2**31 - 1)):
        wmma.fill_fragment(fragment, value)
    for satf, expected in ((True, 2**31 - 1), (False, -(2**31) + 15)):
        d = wmma.fragment(C, *SMALL, int)
        wmma.mma_sync(d, a, b, acc, satf)
        assert (np.asarray(d.x) == expected).all()


def test_bits_are_xored_or_anded():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 2, (8, 128)), rng.integers(0, 2, (8, 128))
    a, b, acc = trio((8, 8, 128), "b1", int)
    for fragment, matrix in ((a, x), (b, y)):
        wmma.load_matrix_sync(fragment, wmma.pointer(np.packbits(matrix.astype(bool), axis=1, bitorder="little")), 128)
    out = np.zeros((8, 8), np.int32)
    xor, conjunction = wmma.experimental.bmmaBitOpXOR, wmma.experimental.bmmaBitOpAND
    for op, combine in ((xor, np.bitwise_xor), (conjunction, np.bitwise_and)):
        wmma.fill_fragment(acc, 5)
        wmma.bmma_sync(acc, a, b, acc, op, wmma.experimental.bmmaAccumulateOpPOPC)
        wmma.store_matrix_sync(wmma.pointer(out), acc, 8, MEM_ROW)
        assert np.array_equal(out, combine(x[:, None], y).sum(-1) + 5)


def test_filling_takes_the_low_bits_of_what_is_packed():
    def filled(*arguments, value):
        fragment = wmma.fragment(*arguments)
        wmma.fill_fragment(fragment, value)
        return {x.item() for x in np.asarray(fragment.x).ravel()}

    assert filled(A, *SMALL, wmma.half, ROW, value=0.1) == {float(np.float16(0.1))}
    assert filled(C, *SMALL, int, value=-7) == {-7}
    assert filled(A, 8, 8, 32, EXPERIMENTAL.u4, ROW, value=0x13) == {0x33333333}
    assert filled(B, 8, 8, 32, EXPERIMENTAL.s4, COL, value=-1) == {-1}
    assert filled(A, 8, 8, 128, EXPERIMENTAL.b1, ROW, value=3) == {0xFFFFFFFF}
    assert filled(A, 8, 8, 128, EXPERIMENTAL.b1, ROW, value=2) == {0}
    assert filled(A, 16, 16, 8, TF32, ROW, value=1 + 2**-20) == {1 + 2**-20}  # a float; nothing rounds it


# x --------------------------------------------------------------------------------------------------------------------


def test_tf32_is_truncated_unless_it_was_rounded():
    """1 + 2^-11 lies halfway between two tf32 numbers: __float_to_tf32 takes the upper, the multiplier the lower."""
    source = np.full((16, 16), 1 + 2**-11, np.float32)
    a, b, acc = trio((16, 16, 8), TF32, float, b_layout=ROW)
    wmma.load_matrix_sync(a, wmma.pointer(source), 16)
    wmma.fill_fragment(b, 1)

    def product():
        wmma.fill_fragment(acc, 0)
        wmma.mma_sync(acc, a, b, acc)
        return {x.item() for x in np.asarray(acc.x).ravel()}

    assert product() == {8.0}
    a.x = wmma.float_to_tf32(a.x)
    assert product() == {8 * (1 + 2**-10)}


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(0x3F800000, 0x3F800000), (0x3F800FFF, 0x3F800000), (0x3F801000, 0x3F802000), (0xBF801000, 0xBF802000),
     (0x3F803000, 0x3F804000), (0x7F7FFFFF, 0x7F800000), (0xFF800000, 0xFF800000), (0x00000FFF, 0x00000000),
     (0x00001000, 0x00002000), (0x80000001, 0x80000000)],
)  # fmt: skip
def test_float_to_tf32_rounds_to_nearest_and_ties_away_from_zero(number, rounded):
    value = np.array(number, np.uint32).view(np.float32)
    assert wmma.float_to_tf32(value).view(np.uint32) == rounded
    assert wmma.float_to_tf32(np.full((2, 3), value)).view(np.uint32).tolist() == [[rounded] * 3] * 2
    assert np.isnan(wmma.float_to_tf32(float("nan")))
    assert wmma.float_to_tf32(1e39) == np.inf


def test_elements_are_computed_with_like_arrays():
    acc, other = wmma.fragment(C, *SMALL, float), wmma.fragment(C, *SMALL, float)
    wmma.fill_fragment(acc, 3)
    wmma.fill_fragment(other, 1)
    acc.x = 2 * acc.x + other.x / 2
    acc.x += 1
    acc.x[:, 1] = 100
    assert np.asarray(acc.x)[7].tolist() == [7.5, 100, 7.5, 7.5, 7.5, 7.5, 7.5, 7.5]
    assert np.maximum(acc.x, 50)[0, :2].tolist() == [50, 100]
    assert (acc.x > 50).astype(int)[:].sum() == 32
    assert np.add.reduce(acc.x, axis=1).shape == (32,)
    assert np.sum(acc.x) == 32 * 152.5
    assert len(acc.x) == 32
    assert [lane[1] for lane in acc.x] == [100] * 32
    assert np.divmod(acc.x, 5)[1][0, 0] == 2.5
    twin = acc.copy()
    acc.x[...] = other.x
    assert twin.x[0, 1] == 100
    assert acc.x[0, 1] == 1
    by_hand = wmma.fragment(C, *SMALL, float)
    for i in range(by_hand.num_elements):
        by_hand.x[:, i] = i
    assert by_hand.x[31].tolist() == list(range(8))
    assert repr(by_hand.x).startswith("<x of wmma::fragment<wmma::accumulator, 16, 16, 16, float>:\narray([[0.")
    empty = wmma.fragment(C, *SMALL, float)
    empty.x[0, :2] = 1
    assert repr(empty.x) == "<x of wmma::fragment<wmma::accumulator, 16, 16, 16, float>: 2 of 256 elements written>"


def test_what_is_read_is_a_copy_and_what_is_written_is_not_kept():
    acc = wmma.fragment(C, *SMALL, float)
    values = np.ones((32, 8), np.float32)
    acc.x = values
    values[:] = 2
    acc.x[0][:] = 3
    np.asarray(acc.x)[:] = 4
    assert (np.asarray(acc.x) == 1).all()

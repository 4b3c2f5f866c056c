"""The metadata of CUTLASS and torch, beside their sources: reorder_meta, torch's bits of a chunk, CuTe's layouts."""

from itertools import product

import numpy as np
import pytest

from tcemu import TcemuError, sparse

SP = "mma.sp::ordered_metadata.sync.aligned.{}.row.col.{}"
#: Opcodes, the bits of an element, and elements of a chunk.
MMA = {
    SP.format("m16n8k32", "f32.f16.f16.f32"): (16, 4),
    SP.format("m16n8k16", "f32.bf16.bf16.f32"): (16, 4),
    SP.format("m16n8k16", "f32.tf32.tf32.f32"): (32, 2),
    SP.format("m16n8k8", "f32.tf32.tf32.f32"): (32, 2),
    SP.format("m16n8k64", "s32.s8.s8.s32"): (8, 4),
    SP.format("m16n8k32", "s32.u8.u8.s32"): (8, 4),
    SP.format("m16n8k64", "f32.e4m3.e4m3.f32"): (8, 4),
}
WGMMA = "wgmma.mma_async.sp.sync.aligned.m64n8{}"
WIDE = {
    WGMMA.format("k32.f32.f16.f16"): (16, 4),
    WGMMA.format("k16.f32.tf32.tf32"): (32, 2),
    WGMMA.format("k64.f32.e4m3.e4m3"): (8, 4),
}


def matrix(opcode, rows, columns):
    """A that is pruned as an opcode needs it, with exactly half of its elements not zero."""
    form = sparse.parse(opcode).types["a"]
    rng = np.random.default_rng(0)
    return sparse.prune(rng.integers(1, 7, (rows, columns)).astype(form.dtype), opcode)


def codes(A, chunk):
    """Four bits of each chunk: the indices of the two elements that stay, or 0100 and 1110 for one of two."""
    rows, columns = A.shape
    busy = (A.reshape(rows, columns // chunk, chunk).astype(float) != 0).tolist()
    one = {0: 0b0100, 1: 0b1110}
    found = [[[at for at in range(chunk) if each[at]] for each in row] for row in busy]
    return np.array([[one[at[0]] if chunk == 2 else at[0] | at[1] << 2 for at in row] for row in found], np.uint32)


def reordered(meta):
    """CUTLASS's reorder_meta, then ColumnMajorInterleaved<2>, as torch's scatter offsets have them, in loops."""
    rows, columns = meta.shape
    group, interweave = (32, 4) if meta.dtype.itemsize == 2 else (16, 2)
    out = np.zeros(rows * columns, meta.dtype)
    for m, k in product(range(rows), range(columns)):
        row, column = m // group * group + m % 8 * interweave + m % group // 8, k
        if row % 2 == 0 and column % 2 == 1:
            row, column = row + 1, column - 1
        elif row % 2 == 1 and column % 2 == 0:
            row, column = row - 1, column + 1
        out[column // 2 * rows * 2 + row * 2 + column % 2] = meta[m, k]
    return out.reshape(rows, columns)


def torchs(A, bits, chunk):
    """What torch.sparse's sparse_semi_structured_from_dense_cutlass returns as the metadata."""
    per, dtype = (4, np.uint16) if bits >= 16 else (8, np.uint32)
    found = codes(A, chunk)
    plain = sum(found.reshape(len(A), -1, per)[..., at] << np.uint32(4 * at) for at in range(per))
    return reordered(plain.astype(dtype))


@pytest.mark.parametrize("opcode", MMA)
def test_torchs_and_back(opcode):
    bits, chunk = MMA[opcode]
    A = matrix(opcode, 64, 256)
    selectors = sparse.parse(opcode).fragments["e"].shape[0]
    for chosen in range(selectors):
        _, registers = sparse.compress(sparse.tiles(A, opcode), opcode, chosen)
        wanted = torchs(A, bits, chunk)
        assert np.array_equal(sparse.to_cutlass(registers, opcode, chosen), wanted)
        signed = wanted.view(f"i{wanted.itemsize}")
        assert np.array_equal(sparse.from_cutlass(signed, opcode, chosen), registers)
    values, _ = sparse.compress(sparse.tiles(A, opcode), opcode)
    tiled = sparse.decompress(values, sparse.from_cutlass(wanted, opcode), opcode)
    assert np.array_equal(tiled.swapaxes(1, 2).reshape(A.shape), A)


def test_a_published_block_of_torch():
    """All chunks keep elements 0 and 2, but row 9: CUTLASS has it where row 9 // 8 + 9 % 8 * 4 = 5 goes."""
    meta = np.full((32, 4), 0x8888, np.uint16)
    meta[9, 0] = 0x4444
    assert np.argwhere(reordered(meta).ravel() == 0x4444).tolist() == [[9]]  # row 5, column 0: row 4, column 1
    opcode = next(iter(MMA))
    registers = sparse.from_cutlass(reordered(meta), opcode)
    assert hex(registers[0, 0, 4]) == "0x44448888"  # lane 4: rows 1 and 9, four chunks each


def compact(shape, order):
    """CuTe's make_ordered_layout: the strides of a flat shape, the mode with the smallest order first."""
    strides, size = [0] * len(shape), 1
    for mode in sorted(range(len(shape)), key=order.__getitem__):
        strides[mode], size = size, size * shape[mode]
    return strides


def by_cute(found, bits, chunk, tile_k):
    """Sm90GemmSparseConfig's TensorEAtom in elements of A, atoms along m first, then along k."""
    rows, chunks = found.shape
    basic = 512 // bits
    if bits == 8:
        shape, order = (64, tile_k), (1, 0)
    else:
        shape, order = (8, 2, 4, basic // 2, 2, tile_k // basic), (3, 1, 5, 0, 4, 2)
    strides, count = compact(shape, order), 1 if bits == 8 else 3
    out = np.zeros(rows * chunks, np.uint32)
    for m, c in product(range(rows), range(chunks)):
        k = c * chunk
        offset = m // 64 * 64 * tile_k + k // tile_k * rows * tile_k
        for at, digits in ((m % 64, range(count)), (k % tile_k, range(count, len(shape)))):
            for mode in digits:
                offset += at % shape[mode] * strides[mode]
                at //= shape[mode]  # noqa: PLW2901 - the next digit
        out[offset // chunk] = found[m, c]
    return (out[::2] | out[1::2] << 4).astype(np.uint8)


@pytest.mark.parametrize("opcode", [*MMA, *WIDE])
def test_cutlass_3_and_back(opcode):
    bits, chunk = (MMA | WIDE)[opcode]
    A = matrix(opcode, 128, 256)
    _, registers = sparse.compress(sparse.tiles(A, opcode), opcode)
    for tile_k in (64, 128):
        held = sparse.to_cutlass(registers, opcode, order="sm90", tile_k=tile_k)
        assert np.array_equal(held, by_cute(codes(A, chunk), bits, chunk, tile_k))
        back = sparse.from_cutlass(held, opcode, shape=A.shape, order="sm90", tile_k=tile_k)
        assert np.array_equal(back, registers)


def test_the_bytes_of_cutlass_3_are_the_registers_of_wgmma():
    """Four bytes of a 16-bit atom are one register: warp, half of the columns, row and instruction give the lane."""
    opcode = WGMMA.format("k32.f32.f16.f16")
    _, registers = sparse.compress(sparse.tiles(matrix(opcode, 64, 128), opcode), opcode)
    words = sparse.to_cutlass(registers, opcode, order="sm90").view("<u4").reshape(4, 2, 8, 4)
    for warp, half, row, number in product(range(4), range(2), range(8), range(4)):
        assert words[warp, half, row, number] == registers[0, number, 32 * warp + 4 * row + half]


def test_what_an_order_cannot_hold_is_told(row):
    f16, s4 = next(iter(MMA)), SP.format("m16n8k64", "s32.s4.s4.s32")
    for call, says in (
        (lambda: sparse.to_cutlass(np.zeros((1, 1, 32), np.uint32), f16), "rows are a multiple of 32 and"),
        (lambda: sparse.to_cutlass(np.zeros(32, np.uint32), f16), r"registers of all tiles, \(M / 16, K / 32, 32\)"),
        (lambda: sparse.from_cutlass(np.zeros((32, 3), np.int16), f16), "columns are one of 32; got 32 by 48"),
        (lambda: sparse.from_cutlass(np.zeros((32, 4), np.int32), f16), r"\(M, columns\) of 16 bits; got dtype int32"),
        (lambda: sparse.from_cutlass(np.zeros((32, 4)), f16), "must be integers; got dtype float64"),
        (lambda: sparse.from_cutlass(np.zeros(1024, np.uint8), f16, order="sm90"), r"needs shape=\(M, K\)"),
        (
            lambda: sparse.from_cutlass(np.zeros(10, np.uint8), f16, shape=(64, 128), order="sm90"),
            "the metadata of 64 by 128 elements has 1024 bytes; got 10",
        ),
        (lambda: sparse.to_cutlass(np.zeros((2, 2, 32), np.uint32), f16, order="sm100"), "order must be 'sm80'"),
        (lambda: sparse.to_cutlass(np.zeros((4, 4, 32), np.uint32), f16, order="sm90", tile_k=48), "of 32; got f16"),
        (lambda: sparse.to_cutlass(np.zeros((4, 4, 32), np.uint32), s4, order="sm90"), "elements of 8, 16 or 32 bits"),
    ):
        with row(says), pytest.raises(TcemuError, match=says):
            call()

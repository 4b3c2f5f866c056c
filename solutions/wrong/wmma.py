"""Wrong answers of notebook 03 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu
from tcemu import wmma

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


# ---------------------------------------------------------------------------------------------- pointers and strides


def row_major(i, j):
    """As if B were row-major."""
    return 16 * i * 64 + 16 * j, 64


def stride_of_the_tile(i, j):
    """The length of a column of the tile."""
    return 48 * 16 * j + 16 * i, 16


def stride_of_a_row(i, j):
    """The number of columns."""
    return 48 * 16 * j + 16 * i, 64


def in_bytes(i, j):
    """Two bytes an element."""
    return 2 * (48 * 16 * j + 16 * i), 96


def sixteen_elements(columns, bits):
    """16 elements in place of 16 bytes."""
    return -(-columns // 16) * 16


def rounded_down(columns, bits):
    """Too short."""
    return columns // (128 // bits) * (128 // bits)


def one_more(columns, bits):
    """A full row is padded, too."""
    return (columns // (128 // bits) + 1) * (128 // bits)


def stride_in_bytes(columns, bits):
    """Not in elements."""
    return -(-columns * bits // 8 // 16) * 16


# ---------------------------------------------------------------------------------------------- the map of a sum


def on_turing(row, column):
    """The map of sm_75."""
    return 4 * row + column // 2 % 4, 2 * (column // 8) + column % 2


def without_the_parity(row, column):
    """Both rows of a pair in one place."""
    return 4 * (column % 8) + row // 2, 2 * (column // 8)


def one_block(row, column):
    """Only the first eight columns."""
    return 4 * (column % 8) + row // 2, row % 2


# ---------------------------------------------------------------------------------------------- products


def tile(A, B, b_layout=wmma.col_major, a_layout=wmma.row_major, stored=wmma.mem_row_major):
    """One tile, with layouts to choose from."""
    C = np.zeros((16, 16), np.float32)
    a = wmma.fragment(wmma.matrix_a, 16, 16, 16, wmma.half, a_layout)
    b = wmma.fragment(wmma.matrix_b, 16, 16, 16, wmma.half, b_layout)
    acc = wmma.fragment(wmma.accumulator, 16, 16, 16, float)
    wmma.fill_fragment(acc, 0)
    wmma.load_matrix_sync(a, wmma.pointer(A), 16)
    wmma.load_matrix_sync(b, wmma.pointer(B), 16)
    wmma.mma_sync(acc, a, b, acc)
    wmma.store_matrix_sync(wmma.pointer(C), acc, 16, stored)
    return C


def b_row_major(A, B_columns):
    """B as in the notebook's first cell."""
    return tile(A, B_columns, wmma.row_major)


def stored_by_columns(A, B_columns):
    """The sum stored column-major."""
    return tile(A, B_columns, stored=wmma.mem_col_major)


def a_by_columns(A, B_columns):
    """A loaded column-major."""
    return tile(A, B_columns, a_layout=wmma.col_major)


def by_numpy(A, B_columns):
    """No tensor core."""
    return A.astype(np.float32) @ B_columns.T.astype(np.float32)


def halves(a, b, c, of_b=((0, 1), (2, 3)), of_c=(0, 4)):
    """Two products, with registers to choose from."""
    return np.hstack([tcemu.run(MMA, a[:, :4], b[:, list(pair)], c[:, at : at + 4])
                      for pair, at in zip(of_b, of_c, strict=True)])  # fmt: skip


def b_exchanged(a, b, c):
    """Columns 8 to 15 first."""
    return halves(a, b, c, of_b=((2, 3), (0, 1)))


def every_second(a, b, c):
    """Registers of B interleaved."""
    return halves(a, b, c, of_b=((0, 2), (1, 3)))


def the_copy(a, b, c):
    """The second copy of the first half."""
    return halves(a, b, c, of_b=((0, 1), (4, 5)))


def same_c(a, b, c):
    """C's first half twice."""
    return halves(a, b, c, of_c=(0, 0))


# ---------------------------------------------------------------------------------------------- wmma_gemm


def gemm(warp, a, b, c, layout="col", chained=True, place=lambda x, y, w: (2 * y + w // 2, 2 * x + w % 2)):
    """The kernel, with mistakes to choose from."""
    row, column = (16 * each for each in place(*warp.ctaid[:2], warp.warpid))
    acc = warp.registers(8, fill=0)
    for k in range(0, 48, 16):
        held_a = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a.at(row, k), 48)
        held_b = warp.run(f"wmma.load.b.sync.aligned.{layout}.m16n16k16.global.f16", b.at(column, k), 48)
        acc = acc if chained else warp.registers(8, fill=0)
        acc = warp.run(f"wmma.mma.sync.aligned.row.{layout}.m16n16k16.f32.f32", held_a, held_b, acc)
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", c.at(row, column), acc, 64)


def last_step(warp, a, b, c):
    """The accumulator begins afresh."""
    gemm(warp, a, b, c, chained=False)


def not_transposed(warp, a, b, c):
    """B loaded row-major."""
    gemm(warp, a, b, c, layout="row")


def one_warp(warp, a, b, c):
    """All warps compute the first tile of the block."""
    if warp.warpid == 0:
        gemm(warp, a, b, c)


def one_tile(warp, a, b, c):
    """All warps store to the same place."""
    gemm(warp, a, b, c, place=lambda x, y, _: (2 * y, 2 * x))


# ---------------------------------------------------------------------------------------------- ragged_product


def padded(A, B):
    """What is right."""
    m, n = len(A), B.shape[1]
    whole = [np.pad(each, [(0, -size % 16) for size in each.shape]) for each in (A, B)]
    return tcemu.matmul(*whole, instruction="wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32")[:m, :n]


def whole_steps(A, B):
    """The rest along K is left out."""
    depth = len(B) // 16 * 16
    return padded(A[:, :depth], B[:depth])


def whole_tiles(A, B):
    """The rest of rows and columns is left out."""
    C = np.zeros((len(A), B.shape[1]), np.float32)
    m, n = (size // 16 * 16 for size in C.shape)
    C[:m, :n] = padded(A, B)[:m, :n]
    return C


def numpy_product(A, B):
    """No tensor core."""
    return A.astype(np.float32) @ B.astype(np.float32)


def steps_by_numpy(A, B):
    """The steps are added by numpy."""
    return sum(padded(A[:, k : k + 16], B[k : k + 16]) for k in range(0, len(B), 16))


def b_as_a(warp, a, b, d):
    held_a = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a, 16)
    held_b = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", b, 16)
    zeros = warp.registers(8, fill=0)
    held_d = warp.run("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32", held_a, held_b, zeros)
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", d, held_d, 16)


def b_as_c(warp, a, b, d):
    held_a = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a, 16)
    held_b = warp.run("wmma.load.b.sync.aligned.col.m16n16k16.global.f16", b, 16)
    zeros = warp.registers(8, fill=0)
    held_d = warp.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", held_a, held_b, zeros)
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", d, held_d, 16)


def b_times_a(warp, a, b, d):
    held_a = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", b, 16)
    held_b = warp.run("wmma.load.b.sync.aligned.row.m16n16k16.global.f16", a, 16)
    zeros = warp.registers(8, fill=0)
    held_d = warp.run("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32", held_a, held_b, zeros)
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", d, held_d, 16)


WRONG = {
    "tile_pointer": [
        (row_major, "pointer into a row-major B"),
        (stride_of_the_tile, "the stride is the tile's"),
        (stride_of_a_row, "the stride is the length of a row"),
        (in_bytes, "You count bytes"),
    ],
    "wmma_tile": [
        (b_row_major, "A times B transposed"),
        (stored_by_columns, "stored as mem_col_major"),
        (a_by_columns, "A is loaded as col_major"),
        (by_numpy, "numpy's product"),
    ],
    "smallest_stride": [
        (sixteen_elements, "16 bytes are not 16 elements"),
        (rounded_down, "rounded down"),
        (one_more, "You always add 16 bytes"),
        (stride_in_bytes, "stride in bytes"),
    ],
    "where_of_sum": [
        (on_turing, "map of sm_75"),
        (without_the_parity, "does not depend on row % 2"),
        (one_block, "does not depend on column // 8"),
    ],
    "wmma_by_halves": [
        (b_exchanged, "halves of B are swapped"),
        (every_second, "every second register"),
        (the_copy, "same half of B"),
        (same_c, "same half of C"),
    ],
    "wmma_gemm": [
        (last_step, "Only the last step along K"),
        (not_transposed, "B as row-major"),
        (one_warp, "Each block computes only one tile"),
        (one_tile, "a race in global memory"),
    ],
    "ragged_product": [
        (whole_steps, "last, incomplete step"),
        (whole_tiles, "incomplete tiles"),
        (numpy_product, "numpy's product"),
        (steps_by_numpy, "added the steps with numpy"),
    ],
    "repair_fragments": [
        (b_as_a, "Load the fragment with the wmma.load that matches"),
        (b_as_c, "column-major"),
        (b_times_a, "A and B are swapped"),
    ],
}

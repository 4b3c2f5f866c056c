"""A kernel of CUDA C++ as an article printed it, on several warps and blocks, and what becomes of its mistakes."""

import itertools

import numpy as np
import pytest

import tcemu
from tcemu import IllegalInstruction, OperandError, wmma

A, B, C = wmma.matrix_a, wmma.matrix_b, wmma.accumulator
ROW, COL, MEM_ROW, MEM_COL = wmma.row_major, wmma.col_major, wmma.mem_row_major, wmma.mem_col_major
# The article --------------------------------------------------------------------------------------------------------

WARP_SIZE, WARPS_X, BLOCK_TILE_M, BLOCK_TILE_N = 32, 2, 64, 32  # 8 warps: 4 rows and 2 columns of tiles


def wmma_matmul(a_ptr, b_ptr, c_ptr, m, n, k, block, thread, *, guard=True, depth=None, b_layout=ROW):
    """The article's kernel as one warp runs it, with template arguments and k filled in; the rest is unchanged."""
    warp_id = thread // WARP_SIZE
    c_row = block[1] * BLOCK_TILE_M + warp_id // WARPS_X * 16
    c_col = block[0] * BLOCK_TILE_N + warp_id % WARPS_X * 16
    if c_row >= m or c_col >= n:
        return
    a_frag = wmma.fragment(A, 16, 16, 16, wmma.half, ROW)
    b_frag = wmma.fragment(B, 16, 16, 16, wmma.half, b_layout)
    acc_frag = wmma.fragment(C, 16, 16, 16, float)
    wmma.fill_fragment(acc_frag, 0.0)
    for step in range(0, k if depth is None else depth, 16):
        if not guard or (c_row < m and step < k and c_col < n):
            wmma.load_matrix_sync(a_frag, a_ptr + c_row * k + step, k)
            wmma.load_matrix_sync(b_frag, b_ptr + step * n + c_col, n)
            wmma.mma_sync(acc_frag, a_frag, b_frag, acc_frag)
    wmma.store_matrix_sync(c_ptr + c_row * n + c_col, acc_frag, n, MEM_ROW)


def padded_matmul(a, b, c, m, n, k, block, thread):
    """The kernel for any m, n and k: tiles over the edge are copied into tiles of zeros, as into shared memory."""
    warp_id = thread // WARP_SIZE
    c_row = block[1] * BLOCK_TILE_M + warp_id // WARPS_X * 16
    c_col = block[0] * BLOCK_TILE_N + warp_id % WARPS_X * 16
    if c_row >= m or c_col >= n:
        return
    a_tile, b_tile, c_tile = (np.zeros((16, 16), dtype) for dtype in (np.float16, np.float16, np.float32))
    a_frag, b_frag = wmma.fragment(A, 16, 16, 16, wmma.half, ROW), wmma.fragment(B, 16, 16, 16, wmma.half, ROW)
    acc_frag = wmma.fragment(C, 16, 16, 16, float)
    wmma.fill_fragment(acc_frag, 0)
    for step in range(0, k, 16):
        for tile, matrix, row, column in ((a_tile, a, c_row, step), (b_tile, b, step, c_col)):
            inside = matrix[row : row + 16, column : column + 16]
            tile[:] = 0
            tile[: inside.shape[0], : inside.shape[1]] = inside
        wmma.load_matrix_sync(a_frag, wmma.pointer(a_tile), 16)
        wmma.load_matrix_sync(b_frag, wmma.pointer(b_tile), 16)
        wmma.mma_sync(acc_frag, a_frag, b_frag, acc_frag)
    wmma.store_matrix_sync(wmma.pointer(c_tile), acc_frag, 16, MEM_ROW)
    inside = c[c_row : c_row + 16, c_col : c_col + 16]
    inside[:] = c_tile[: inside.shape[0], : inside.shape[1]]


def launch(kernel, a, b, c, **options):
    """Every warp of every block, one after the other: warps of this kernel do not talk to each other."""
    (m, k), n = a.shape, b.shape[1]
    arguments = (a, b, c) if kernel is padded_matmul else tuple(wmma.pointer(array) for array in (a, b, c))
    for block in itertools.product(range(-(-n // BLOCK_TILE_N)), range(-(-m // BLOCK_TILE_M))):
        for thread in range(0, 256, WARP_SIZE):
            kernel(*arguments, m, n, k, block, thread, **options)


def matrices(m, n, k, seed=1):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    return a, b, np.full((m, n), 7, np.float32)


HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


@pytest.mark.parametrize("target", ["sm_70", "sm_80", "sm_90a"])
def test_the_articles_kernel_multiplies_on_several_warps_and_blocks(target):
    a, b, c = matrices(128, 96, 48)
    with wmma.target(target):
        launch(wmma_matmul, a, b, c)
    # each architecture as its own mma: sm_70 has no m16n8k16, so there wmma itself tells the whole product
    opcode = HMMA if target != "sm_70" else "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32"
    assert np.array_equal(c, tcemu.matmul(a, b, instruction=opcode, target=target))


def test_the_kernel_with_padded_tiles_multiplies_any_matrices():
    a, b, c = matrices(72, 40, 24)
    launch(padded_matmul, a, b, c)
    whole_a, whole_b = np.zeros((80, 32), np.float16), np.zeros((32, 48), np.float16)
    whole_a[:72, :24], whole_b[:24, :40] = a, b
    assert np.array_equal(c, tcemu.matmul(whole_a, whole_b, instruction=HMMA)[:72, :40])


def test_article_fragments_without_template_arguments():
    """`wmma::fragment aFrag;` does not compile, and neither does anything less than the whole list."""
    for arguments, missing in (((), "Use, m, n, k and T are missing"), ((A, 16, 16, 16), "T is missing")):
        with pytest.raises(IllegalInstruction, match=missing) as error:
            wmma.fragment(*arguments)
        assert "wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>" in str(error.value)


def test_article_an_accumulator_is_loaded_without_a_layout():
    """`wmma::load_matrix_sync(frag_c, c, 16);` has no overload: the fourth argument is missing."""
    with pytest.raises(OperandError, match=r"the layout is missing.*wmma::mem_row_major or wmma::mem_col_major"):
        wmma.load_matrix_sync(wmma.fragment(C, 16, 16, 16, float), wmma.pointer(np.zeros(256, np.float32)), 16)


def test_article_the_loop_runs_to_another_k():
    """It runs to K, which nothing declares. A macro K that is not k sums too little, or reads beyond the matrices."""
    a, b, c = matrices(64, 32, 64)
    launch(wmma_matmul, a, b, c, depth=32)
    assert np.array_equal(c, tcemu.matmul(a[:, :32].copy(), b[:32], instruction=HMMA))  # half of the sum, and no error
    launch(wmma_matmul, a, b, c, depth=128)
    assert np.array_equal(c, tcemu.matmul(a, b, instruction=HMMA))  # the guard inside the loop saves it
    with pytest.raises(OperandError, match="row 0 of the tile's 16 reaches outside the array of 2048 elements"):
        launch(wmma_matmul, a, b, c, depth=128, guard=False)
    with pytest.raises(IllegalInstruction, match="the sizes of one warp's tile, not M, N and K of the matrices"):
        wmma.fragment(A, 16, 16, 64, wmma.half, ROW)


def test_article_edges_are_not_checked_row_by_row():
    """`aRow < m` checks the first row of a tile. If m is not a multiple of 16, the others are outside the matrix."""
    said = r"element 3072: row 8 of the tile's 16 reaches outside the array of 3456 elements.*pad the matrix"
    with pytest.raises(OperandError, match=said):
        launch(wmma_matmul, *matrices(72, 32, 48))


def test_article_edges_of_k_and_n_read_the_next_row():
    """Columns beyond the edge are the next row's first: inside the array, so nothing says a word until the end."""
    a, b, c = matrices(64, 32, 24)
    with pytest.raises(OperandError, match="row 8 of the tile's 16 reaches outside the array of 768 elements"):
        launch(wmma_matmul, a, b, c)  # rows 24 to 31 of B do not exist
    padded = np.zeros((32, 32), np.float16)
    padded[:24] = b
    pointers = wmma.pointer(a), wmma.pointer(padded), wmma.pointer(c)
    wmma_matmul(*pointers, 64, 32, 24, (0, 0), 0)
    whole = tcemu.matmul(a_with_zeros(a), padded, instruction=HMMA)
    assert np.array_equal(c[:16, :16], whole[:16, :16])  # zeros of B cover for A
    a[1, 0] = np.inf  # what A's row 0 reads beyond its end; 0 * Inf is NaN
    wmma_matmul(*pointers, 64, 32, 24, (0, 0), 0)
    assert np.isnan(c[0, :16]).all()
    a, b, c = matrices(16, 24, 16)
    with pytest.raises(OperandError, match=r"load_matrix_sync .* row 15 of the tile's 16 reaches outside"):
        wmma_matmul(*map(wmma.pointer, (a, b, c)), 16, 24, 16, (0, 0), 32)


def a_with_zeros(a):
    whole = np.zeros((64, 32), np.float16)
    whole[:, :24] = a
    return whole


def test_article_stores_run_over_the_edge_of_n():
    _, _, c = matrices(32, 24, 16)
    acc = wmma.fragment(C, 16, 16, 16, float)
    wmma.fill_fragment(acc, 1)
    wmma.store_matrix_sync(wmma.pointer(c) + 16, acc, 24, MEM_ROW)
    assert (c[1:17, :8] == 1).all()  # sixteen columns from column 16 of 24: the last eight went to the next row
    with pytest.raises(OperandError, match=r"store_matrix_sync .* row 15 of the tile's 16 reaches outside"):
        wmma.store_matrix_sync(wmma.pointer(c) + 16 * 24 + 16, acc, 24, MEM_ROW)


def test_article_the_layout_of_b_changes_between_its_listings():
    """The first listing loads B as col_major, the kernel's strides are row_major's: no error, all tiles transposed."""
    a, b, c = matrices(64, 32, 32)
    launch(wmma_matmul, a, b, c, b_layout=COL)
    tiles = b.reshape(2, 16, 2, 16).swapaxes(1, 3).reshape(32, 32)  # each tile of B transposed
    assert np.array_equal(c, tcemu.matmul(a, tiles, instruction=HMMA))


def test_article_a_wrong_tile_size_is_no_error_on_a_gpu():
    """The article promises an error where a tile is not all there; a GPU reads whatever follows."""
    small = np.zeros((8, 16), np.float16)
    with pytest.raises(OperandError, match=r"row 8 .* outside .* A GPU would access whatever is there"):
        wmma.load_matrix_sync(wmma.fragment(A, 16, 16, 16, wmma.half, ROW), wmma.pointer(small), 16)

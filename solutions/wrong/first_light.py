"""Wrong answers of notebook 00 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
TILES = [(row, column) for row in range(0, 48, 16) for column in range(0, 24, 8)]


# ---------------------------------------------------------------------------------------------- first_product


def numpy_product(A, B, C):
    """What one writes without a tensor core."""
    return A.astype(np.float32) @ B.astype(np.float32) + C


def without_c(A, B, C):
    """C is passed as zeros."""
    return product(A, B, np.zeros_like(C))


def c_afterwards(A, B, C):
    """C is added by numpy."""
    return product(A, B, np.zeros_like(C)) + C


def reshaped(A, B, C):
    """The registers are taken for the matrix."""
    return MMA.fragments["d"].pack(product(A, B, C)).view(np.float32).reshape(16, 8)


def product(A, B, C):
    """What is right."""
    a, b, c = (MMA.fragments[role].pack(matrix) for role, matrix in {"a": A, "b": B, "c": C}.items())
    return MMA.fragments["d"].unpack(tcemu.run(MMA, a, b, c))


# ---------------------------------------------------------------------------------------------- changed_row


def upper_half_only(lane, register):
    """a1 and a3 are not told from a0 and a2."""
    return lane // 4


def by_the_wrong_bit(lane, register):
    """The registers are counted along the rows first."""
    return lane // 4 + 8 * (register // 2)


def place_in_group(lane, register):
    """Quotient and remainder are swapped."""
    return lane % 4 + 8 * (register % 2)


# ---------------------------------------------------------------------------------------------- whole_product


def numpy_whole(A, B):
    """Without a tensor core."""
    return A.astype(np.float32) @ B.astype(np.float32)


def columns_continue(A, B):
    """Zero only in the first tile of a row of tiles."""
    D = np.zeros((48, 24), np.float32)
    for row in range(0, 48, 16):
        c = np.zeros((16, 8), np.float32)
        for column in range(0, 24, 8):
            c = D[row : row + 16, column : column + 8] = tcemu.matmul(
                A[row : row + 16], B[:, column : column + 8], c, instruction=MMA
            )
    return D


def steps_added(A, B):
    """The steps are added by numpy."""
    D = np.zeros((48, 24), np.float32)
    for k in range(0, 64, 16):
        D += tcemu.matmul(A[:, k : k + 16], B[k : k + 16], instruction=MMA)
    return D


def last_step(A, B):
    """Each step begins with zeros."""
    return tcemu.matmul(A[:, 48:], B[48:], instruction=MMA)


def from_the_end(A, B):
    """The steps go from the last to the first."""
    D = np.zeros((48, 24), np.float32)
    for k in (48, 32, 16, 0):
        D = tcemu.matmul(A[:, k : k + 16], B[k : k + 16], D, instruction=MMA)
    return D


def tile_after_tile(A, B):
    """The accumulator is cleared once, and not for each tile."""
    D, tile = np.zeros((48, 24), np.float32), np.zeros((16, 8), np.float32)
    for row in range(0, 48, 16):
        for column in range(0, 24, 8):
            tile = tcemu.matmul(A[row : row + 16], B[:, column : column + 8], tile, instruction=MMA)
            D[row : row + 16, column : column + 8] = tile
    return D


WRONG = {
    "first_product": [
        (numpy_product, "numpy's product"),
        (without_c, "C is missing"),
        (c_afterwards, "C after the instruction"),
        (reshaped, "use unpack"),
    ],
    "changed_row": [
        (upper_half_only, "Eight rows below"),
        (by_the_wrong_bit, "register % 2"),
        (place_in_group, "group of four lanes"),
    ],
    "whole_product": [
        (numpy_whole, "numpy's product"),
        (steps_added, "added the steps with numpy"),
        (last_step, "Only the last step"),
        (from_the_end, "descending order"),
        (columns_continue, "c must be zero at the beginning of every tile"),
        (tile_after_tile, "c must be zero at the beginning of every tile"),
    ],
}

"""Wrong answers of notebook 02 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


# ---------------------------------------------------------------------------------------------- where_of_a


def transposed(row, column):
    """The map of the transposed matrix."""
    return 4 * (column % 8) + row // 2 % 4, 2 * (row // 8) + column // 8


def without_the_lower_half(row, column):
    """The eight rows below are in other registers, which is easily forgotten."""
    return 4 * (row % 8) + column // 2 % 4, 2 * (column // 8)


def as_in_memory(row, column):
    """Registers counted along the row first, as a matrix is stored."""
    return 4 * (row % 8) + column // 2 % 4, 2 * (row // 8) + column // 8


def eight_columns(row, column):
    """The lane from a column of 0 to 15 without its remainder."""
    return 4 * (row % 8) + column // 2, 2 * (column // 8) + row // 8


def elements(row, column):
    """Elements counted, and not registers."""
    return 4 * (row % 8) + column // 2 % 4, 4 * (column // 8) + 2 * (row // 8) + column % 2


# ---------------------------------------------------------------------------------------------- what_is_in_a


def exchanged(lane, register):
    """Row and column swapped."""
    return 2 * (lane % 4) + 8 * (register // 2), lane // 4 + 8 * (register % 2)


def row_by_c(lane, register):
    """The register's two digits swapped."""
    return lane // 4 + 8 * (register // 2), 2 * (lane % 4) + 8 * (register % 2)


def line_and_place(lane, register):
    """Eight lanes to a line, so that t is large and g is small."""
    return lane % 8 + 8 * (register % 2), 2 * (lane // 8) + 8 * (register // 2)


# ---------------------------------------------------------------------------------------------- where_of_b, bytes


def as_a(row, column):
    """B as if it were A: the row in the lane's high digits."""
    return 4 * (row % 8) + column // 2, row // 8


def halves_forgotten(row, column):
    """Both halves of B in one register."""
    return 4 * column + row // 2 % 4, 0


def elements_of_b(row, column):
    """Elements counted, and not registers."""
    return 4 * column + row // 2 % 4, 2 * (row // 8) + row % 2


def as_f16(row, column):
    """Two neighbours in place of four."""
    return 4 * (row % 8) + column // 2 % 4, 2 * (column // 8) + row // 8, column % 2


def bytes_as_in_memory(row, column):
    """Registers counted along the row first."""
    return 4 * (row % 8) + column // 4 % 4, 2 * (row // 8) + column // 16, column % 4


def upper_rows(row, column):
    """The lower half forgotten."""
    return 4 * (row % 8) + column // 4 % 4, 2 * (column // 16), column % 4


# ---------------------------------------------------------------------------------------------- who_answers


def rows_of(probe, counts):
    """The rows of a probe that count, in the order in which their sums are in D."""
    A = tcemu.parse(MMA).fragments["a"].unpack(probe)
    return sorted(np.flatnonzero(counts(A)), key=lambda row: (row % 8, row))


def first_filled(probes):
    """The first row with elements, whether or not they cancel."""
    first = [rows_of(probe, lambda A: A.any(axis=1))[0] for probe in probes]
    return np.array([(4 * (row % 8), 2 * (row // 8)) for row in first])


def first_of_a(probes):
    """Where A is not zero, not D."""
    return [np.argwhere(probe)[0] for probe in probes]


def always_d0(probes):
    """Not told from the upper half."""
    return [(4 * (rows_of(probe, lambda A: A.sum(axis=1))[0] % 8), 0) for probe in probes]


def group_for_lane(probes):
    """The group for its first lane."""
    first = [rows_of(probe, lambda A: A.sum(axis=1))[0] for probe in probes]
    return [(row % 8, 2 * (row // 8)) for row in first]


# ---------------------------------------------------------------------------------------------- fragment_by_hand


def place(lane, register):
    """Row and column of the first element of a register: what is right."""
    return lane // 4 + 8 * (register % 2), 2 * (lane % 4) + 8 * (register // 2)


def fragment(A, bits=None, where=place, swap=False):
    """The registers, with mistakes to choose from."""
    bits = A.view(np.uint16).astype(np.uint32) if bits is None else bits
    registers = np.zeros((32, 4), np.uint32)
    for lane, register in np.ndindex(32, 4):
        row, column = where(lane, register)
        low, high = bits[row, column], bits[row, column + 1]
        registers[lane, register] = high | low << 16 if swap else low | high << 16
    return registers


def halves_swapped(A):
    """The first element in the high half."""
    return fragment(A, swap=True)


def of_the_transpose(A):
    """The matrix transposed first."""
    return fragment(np.ascontiguousarray(A.T))


def whole_numbers(A):
    """astype in place of view."""
    return fragment(A, bits=A.astype(np.uint32))


def registers_along_the_row(A):
    """Register digits swapped."""
    return fragment(A, where=row_by_c)


def registers_along_the_row_and_halves_lost(A):
    """Register digits swapped, and a uint16 shifted by 16."""
    return registers_along_the_row(A) & np.uint32(0xFFFF)


WRONG = {
    "where_of_a": [
        (transposed, "transposed map"),
        (without_the_lower_half, "the register does not depend on row // 8"),
        (as_in_memory, "In the register, you swapped column // 8 and row // 8"),
        (elements, "counted elements instead of registers"),
    ],
    "what_is_in_a": [
        (exchanged, "transposed map"),
        (row_by_c, "You swapped register // 2 and register % 2"),
        (line_and_place, "You swapped lane // 4 and lane % 4"),
    ],
    "where_of_b": [
        (as_a, "the map of A"),
        (halves_forgotten, "the register does not depend on row // 8"),
        (elements_of_b, "counted elements instead of registers"),
    ],
    "where_of_bytes": [
        (as_f16, "four elements here, not two"),
        (bytes_as_in_memory, "In the register, you swapped column // 16 and row // 8"),
        (upper_rows, "the register does not depend on row // 8"),
    ],
    "who_answers": [
        (first_filled, "Elements of a row may cancel"),
        (first_of_a, "the first register of A that is not zero"),
        (always_d0, "the lower half of the rows"),
        (group_for_lane, "its first lane is 4 g"),
    ],
    "fragment_by_hand": [
        (halves_swapped, "halves of each register are swapped"),
        (of_the_transpose, "transposed map"),
        (whole_numbers, "use .view, not astype"),
        (registers_along_the_row, "you swapped column // 8 and row // 8"),
        (registers_along_the_row_and_halves_lost, "upper half of every wrong value is 0"),
    ],
}

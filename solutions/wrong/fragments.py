"""Wrong answers of notebook 02 that people give, with words that the diagnosis contains."""


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


WRONG = {
    "where_of_a": [
        (transposed, "transposed map"),
        (without_the_lower_half, "the register does not depend on row // 8"),
        (as_in_memory, "In the register, you exchanged column // 8 and row // 8"),
        (elements, "counted elements instead of registers"),
    ],
}

"""Wrong answers of notebook 05 about the addresses of rows, with words that the diagnosis contains."""

# ---------------------------------------------------------------------------------------------- addresses


def own_element(lane: int) -> int:
    return 128 * (lane // 4) + 4 * (lane % 4)


def right_before_down(lane: int) -> int:
    return 128 * (lane % 8 + 8 * (lane // 16)) + 16 * (lane // 8 % 2)


def in_elements(lane: int) -> int:
    return 64 * (lane % 16) + 8 * (lane // 16)


def one_row_after_the_other(lane: int) -> int:
    return 16 * lane


def thirty_two_rows(lane: int) -> int:
    return 128 * lane


def first_matrix_only(lane: int) -> int:
    return 128 * (lane % 8)


def a_for_b(lane: int) -> int:
    """The addresses of A, for a column-major B."""
    return 128 * (lane % 16) + 16 * (lane // 16)


def columns_in_elements(lane: int) -> int:
    return 64 * (lane % 8 + 8 * (lane // 16)) + 8 * (lane // 8 % 2)


def same_tile_twice(lane: int) -> int:
    return 128 * (lane % 8) + 16 * (lane // 8 % 2)


def without_trans(lane: int) -> int:
    """The addresses of a column-major B, for a row-major one."""
    return 128 * (lane % 8 + 8 * (lane // 16)) + 16 * (lane // 8 % 2)


WRONG = {
    "rows_of_a": [
        (own_element, "A lane gives the address of a row of 16 bytes"),
        (right_before_down, "Matrices 1 and 2 are swapped"),
        (in_elements, "You counted elements"),
        (one_row_after_the_other, "128 bytes apart here, not 16"),
        (thirty_two_rows, "32 rows of one column of units"),
        (first_matrix_only, "All four matrices have the same address"),
    ],
    "rows_of_b": [
        (a_for_b, "Matrices 1 and 2 are swapped"),
        (columns_in_elements, "You counted elements"),
        (own_element, "A lane gives the address of a row of 16 bytes"),
        (same_tile_twice, "Matrices 2 and 3 are those of lanes 0 to 15 again"),
    ],
    "rows_of_b_by_rows": [
        (without_trans, "Matrices 1 and 2 are swapped"),
        (in_elements, "You counted elements"),
        (own_element, "A lane gives the address of a row of 16 bytes"),
        (thirty_two_rows, "32 rows of one column of units"),
    ],
}

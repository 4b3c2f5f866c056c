"""Wrong answers of notebook 17 that people give, with words that the diagnosis contains."""


def power(needed):
    return max(32, 1 << (needed - 1).bit_length())


WRONG = {
    "parity_of_stored": [
        (lambda tile, accumulators: tile // accumulators % 2, "hangs"),
        (lambda tile, accumulators: (tile + 1) % 2, "once for each use"),
        (lambda tile, accumulators: (tile % accumulators + 1) % 2, "How often was it used before"),
        (lambda tile, accumulators: tile // accumulators + 1, "mod 2"),
    ],
    "bytes_of_a_pair": [
        (lambda columns: 128 * (128 + columns // 2), "one of the blocks"),
        (lambda columns: 128 * (256 + 2 * columns), "half of B"),
        (lambda columns: 128 * (128 + columns), "a block alone"),
        (lambda columns: 256 * (256 + columns), "128 elements of f16"),
    ],
    "columns_with_scales": [
        (lambda n, accumulators: power(n * accumulators), "The scales need columns"),
        (lambda n, accumulators: power(n * accumulators + 1 + -(-n // 128)), "all four quarters"),
        (lambda n, accumulators: power(n * accumulators + 16 + -(-n // 8)), "four bytes of one cell"),
        (lambda n, accumulators: max(32, n * accumulators + 4 + -(-n // 32)), "power of two"),
        (lambda n, accumulators: n * accumulators + 4 + -(-n // 32), "power of two"),
    ],
}

"""Wrong answers of notebook 16 that people give, with words that the diagnosis contains."""


def power(number):
    return 1 << (number - 1).bit_length()


WRONG = {
    "columns_to_allocate": [
        (lambda n, accumulators: max(32, n * accumulators), "power of two"),
        (lambda n, accumulators: n * accumulators, "power of two"),
        (lambda n, accumulators: -(-n * accumulators // 32) * 32, "power of two"),
        (lambda n, accumulators: max(32, power(n)) * accumulators, "Round once"),
        (lambda n, accumulators: power(n * accumulators), "At least 32"),
        (lambda n, accumulators: max(32, power(n)), "one accumulator"),
    ],
    "cell_of_a_register": [
        (lambda thread, register: (thread, register), "a lane of its own"),
        (
            lambda thread, register: (thread // 4, 2 * (thread % 4) + register % 2 + 8 * (register // 2)),
            "8 lanes further down",
        ),
        (
            lambda thread, register: (
                thread // 4 + 8 * (register % 2),
                2 * (thread % 4) + register // 2 % 2 + 8 * (register // 4),
            ),
            "registers 2 and 3 of every four",
        ),
    ],
    "cell_of_16x64b": [
        (lambda thread, register: (thread, register), "a lane of its own"),
        (lambda thread, register: (thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)), "16x128b"),
        (lambda thread, register: (thread // 4 + 8 * (thread // 2 % 2), thread % 2 + 2 * register), "lanes 8 apart"),
    ],
    "blocks_that_fit": [
        (lambda n, accumulators: 512 // (n * accumulators), "power of two"),
        (lambda n, accumulators: 512 // (-(-n * accumulators // 32) * 32), "power of two"),
        (lambda n, accumulators: 512 // max(32, power(n)), "one accumulator"),
        (lambda n, accumulators: 128 // max(32, power(n * accumulators)), "number of its lanes"),
    ],
}

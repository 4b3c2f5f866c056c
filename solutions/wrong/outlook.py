"""Wrong answers of notebook 14 that people give, with words that the diagnosis contains."""

from tcemu.layouts import instruction_descriptor


def two_bytes(value):
    return value << 16


def moved_swizzle(descriptor):
    return descriptor & ~(3 << 62) | 1 << 46 | descriptor >> 62 << 61


def unchanged(descriptor):
    return descriptor


def constant_at_the_other_end(descriptor):
    return descriptor | 1 << 48


def without_n_shifted(m, n, form):
    return (instruction_descriptor(m, n, a=form, b=form) & 0xFFFF | n << 17 | m // 16 << 24) & 0xFFFFFFFF


def d_of_f16(m, n, form):
    return instruction_descriptor(m, n, d="f16", a=form, b=form)


def m_by_eights(m, n, form):
    return instruction_descriptor(m, n, a=form, b=form) & 0xFFFF | n // 8 << 17 | m // 8 << 24


WRONG = {
    "tensor_memory_cell": [
        (lambda lane, column: column << 16 | lane, "the lane is in the upper half"),
        (lambda lane, column: 512 * lane + column, "bits 31 to 16"),
        (lambda lane, column: two_bytes(lane) + 4 * column, "one cell of 32 bits"),
    ],
    "described_for_tcgen05": [
        (unchanged, "always 0b001"),
        (constant_at_the_other_end, "lowest bit is 46"),
        (moved_swizzle, "not shifted"),
    ],
    "row_of_the_accumulator": [
        (lambda row, column: (row // 32, row << 16 | column), "same for all lanes"),
        (lambda row, column: (row // 16 % 4, row // 16 * 16 << 16 | column), "not 16 as in wgmma"),
        (lambda row, column: (row // 32, column), "counts all 128"),
        (lambda row, column: (row % 4, row % 4 * 32 << 16 | column), "Rows do not go round the warps"),
        (lambda row, column: (row % 4, row << 16 | column), "Rows do not go round the warps"),
        (lambda row, column: (row // 32, row // 32 << 16 | column), "the warp's first one, not the warp"),
    ],
    "instruction_bits": [
        (without_n_shifted, "N / 8"),
        (d_of_f16, "bits 5 to 4 are 1"),
        (m_by_eights, "M / 16"),
    ],
    "bytes_with_multicast": [
        (lambda along_m, along_n: along_m * along_n * 49152, "without multicast"),
        (lambda along_m, along_n: along_m * along_n * 24576, "without multicast, and you counted elements"),
        (lambda along_m, along_n: along_n * 16384 + along_m * 32768, "swapped"),
        (lambda along_m, along_n: along_m * 8192 + along_n * 16384, "two bytes"),
    ],
}

"""Wrong answers of notebook 10 about descriptors, with words that the diagnosis contains."""

from tcemu.layouts import Descriptor

CODES = {0: 0, 32: 3, 64: 2, 128: 1}

# ---------------------------------------------------------------------------------------------- descriptors


def in_bytes(start, lbo, sbo, swizzle):
    return start & 0x3FFF | (lbo & 0x3FFF) << 16 | (sbo & 0x3FFF) << 32 | CODES[swizzle] << 62


def in_bytes_without_a_mask(start, lbo, sbo, swizzle):
    """As people write it: a large start runs into LBO's field."""
    return start | lbo << 16 | sbo << 32 | CODES[swizzle] << 62


def swizzle_of_tcgen05(start, lbo, sbo, swizzle):
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | CODES[swizzle] << 61


def exchanged(start, lbo, sbo, swizzle):
    return start >> 4 | sbo >> 4 << 16 | lbo >> 4 << 32 | CODES[swizzle] << 62


def codes_by_size(start, lbo, sbo, swizzle):
    return start >> 4 | lbo >> 4 << 16 | sbo >> 4 << 32 | {0: 0, 32: 1, 64: 2, 128: 3}[swizzle] << 62


def start_in_bytes(start, lbo, sbo, swizzle):
    return start & 0x3FFF | lbo >> 4 << 16 | sbo >> 4 << 32 | CODES[swizzle] << 62


def plain_exchanged(start, rows):
    return Descriptor(start, lbo=128, sbo=16 * rows)


def plain_one_core_matrix(start, rows):
    return Descriptor(start, lbo=128, sbo=128)


def plain_as_with_the_swizzle(start, rows):
    return Descriptor(start, lbo=16, sbo=1024)


def plain_rows(start, rows):
    return Descriptor(start, lbo=16 * rows, sbo=16)


def box_of_rows(start, rows):
    return Descriptor(start, lbo=16, sbo=128, swizzle=128)


def box_without_swizzle(start, rows):
    return Descriptor(start, lbo=16, sbo=1024)


def box_by_size(start, rows):
    return start >> 4 | 1 << 16 | 64 << 32 | 3 << 62


def columns_exchanged(start, depth):
    return Descriptor(start, lbo=1024, sbo=128 * depth, swizzle=128)


def columns_without_lbo(start, depth):
    return Descriptor(start, lbo=16, sbo=1024, swizzle=128)


def columns_of_eight_rows(start, depth):
    return Descriptor(start, lbo=1024, sbo=1024, swizzle=128)


WRONG = {
    "encode_descriptor": [
        (in_bytes, "bytes >> 4"),
        (in_bytes_without_a_mask, "bytes >> 4"),
        (swizzle_of_tcgen05, "where tcgen05 has it"),
        (exchanged, "swapped LBO and SBO"),
        (codes_by_size, "do not rise with their size"),
        (start_in_bytes, "the start address is in bytes"),
    ],
    "descriptor_without_swizzle": [
        (plain_exchanged, "swapped LBO and SBO"),
        (plain_as_with_the_swizzle, "as with the 128-byte swizzle"),
        (plain_one_core_matrix, "rows // 8 core matrices in between"),
        (plain_rows, "one group of eight rows to the next"),
    ],
    "descriptor_of_a_box": [
        (box_of_rows, "one group of eight rows to the next"),
        (box_without_swizzle, "swizzle is missing"),
        (box_by_size, "do not rise with their size"),
    ],
    "descriptor_mn_major": [
        (columns_exchanged, "swapped LBO and SBO"),
        (columns_without_lbo, "LBO leads to the next 64 columns: it is used"),
        (columns_of_eight_rows, "size of a box"),
    ],
}

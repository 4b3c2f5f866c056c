"""The conversions of printf, compared with the C library of this machine."""

import ctypes
import itertools
import struct
import sys

import pytest

from tcemu.simt.conversions import converted, passed

FLAGS = ["", "-", "0", "+", " ", "#", "#0", "-#", "+0"]
WIDTHS, DIGITS = [0, 5, 12, -12], [None, 0, 1, 8, -2]
INTEGERS = [0, 1, -1, 255, 70000, 2**31 - 1]
REALS = [0.0, -0.0, 3.14159, -2.5, 0.1, 1e300, 5e-324, float("inf"), float("-inf"), 1.96875, 123456.789]
#: Kinds with their lengths, and what is printed.
KINDS = {
    **dict.fromkeys(["d", "i", "o", "x", "X", "u", "hd", "hhd", "hx", "ld", "llu", "zu"], INTEGERS),
    **dict.fromkeys("eEfFgGaA", REALS),
    "p": [0, 255],
    "s": ["hello"],
    "c": [65],
}


@pytest.mark.skipif(sys.platform != "linux", reason="a GPU's printf formats as glibc does")
def test_conversions_print_what_c_prints():
    printed = ctypes.create_string_buffer(512)
    snprintf = ctypes.CDLL(None).snprintf
    number = 0
    for flags, width, digits, (kind, values) in itertools.product(FLAGS, WIDTHS, DIGITS, KINDS.items()):
        if kind[-1] in "csp" and (flags not in ("", "-") or (kind != "s" and digits is not None)):
            continue  # C does not say
        if "0" in flags and width < 0:
            continue  # glibc pads with zeros on the right
        value = values[(number := number + 1) % len(values)]
        size = passed(kind[:-1], kind[-1])
        if isinstance(value, float):
            raw, given = struct.pack("<d", value), ctypes.c_double(value)
        elif kind == "s":
            raw, given = bytes(8), ctypes.c_char_p(value.encode())
        else:
            raw, given = (value % (1 << 8 * size)).to_bytes(size, "little"), ctypes.c_int64(value)
        form = f"%{flags}*{'' if digits is None else '.*'}{kind}"
        snprintf(
            printed, 512, form.encode(), *(ctypes.c_int(each) for each in (width, digits) if each is not None), given
        )
        got = converted(flags, width, digits, kind[:-1], kind[-1], raw, lambda _: "hello")
        assert got == printed.value.decode(), (form, width, digits, value)

"""The conversions of printf, as C's standard has them and glibc, which formats what a GPU's kernels print."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

#: A conversion: flags, width, digits, length, kind.
CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")
_REALS = "eEfFgGaA"
#: Bytes of an integer, by its length; others have 4.
_LENGTHS = {"hh": 1, "h": 2, "l": 8, "ll": 8, "j": 8, "z": 8, "t": 8}
_BASES = {"o": "o", "x": "x", "X": "X", "p": "x"}


def passed(length: str, kind: str) -> int:
    """The bytes of the argument that a conversion takes: what is shorter than an int is passed as one."""
    return 8 if kind in f"{_REALS}sp" else max(4, _LENGTHS.get(length, 4))


def converted(
    flags: str, width: int, digits: int | None, length: str, kind: str, raw: bytes, text: Callable[[int], str]
) -> str:
    """What a conversion prints; `raw` is its argument, `text` gives the string at an address.

    A negative width, which only * can have, stands for the flag -, and negative digits for none.

    >>> import struct
    >>> from tcemu.simt.conversions import converted
    >>> converted("#0", 8, None, "", "x", (255).to_bytes(4, "little"), str)
    '0x0000ff'
    >>> converted("", -6, 2, "", "a", struct.pack("<d", 3.14159), str)
    '0x1.92p+1'
    """
    if width < 0:
        flags, width = f"{flags}-", -width
    if digits is not None and digits < 0:
        digits = None
    if kind in "cs":
        body = chr(raw[0]) if kind == "c" else text(int.from_bytes(raw, "little"))[: digits if kind == "s" else None]
        return _padded("", body, flags.replace("0", ""), width)
    if kind in _REALS:
        return _padded(*_real(flags, digits, kind, *struct.unpack("<d", raw)), width)
    address = int.from_bytes(raw, "little")
    if kind == "p":
        return _padded(*(("", "(nil)") if not address else ("0x", f"{address:x}")), flags.replace("0", ""), width)
    value = int.from_bytes(raw[: _LENGTHS.get(length, 4)], "little", signed=kind in "di")
    body = format(abs(value), _BASES.get(kind, "d"))
    if digits is not None:
        flags, body = flags.replace("0", ""), "" if digits == value == 0 else body.rjust(digits, "0")
    if "#" in flags and kind == "o" and not body.startswith("0"):
        body = f"0{body}"
    base = f"0{kind}" if "#" in flags and kind in "xX" and value else ""
    return _padded(_sign(value < 0, flags) if kind in "di" else base, body, flags, width)


def _real(flags: str, digits: int | None, kind: str, value: float) -> tuple[str, str, str]:
    """Of a floating-point number: its sign and the like, the rest, and the flags that then count."""
    sign = _sign(math.copysign(1, value) < 0, flags)
    if not math.isfinite(value):
        body = "nan" if math.isnan(value) else "inf"
        return sign, body.upper() if kind.isupper() else body, flags.replace("0", "")
    if kind in "aA":
        body = _hexadecimal(abs(value), digits, point="#" in flags)
        return sign + f"0{kind.replace('a', 'x').replace('A', 'X')}", body.upper() if kind == "A" else body, flags
    body = f"%{'#' if '#' in flags else ''}.{6 if digits is None else digits}{kind}" % abs(value)
    return sign, body, flags


def _hexadecimal(value: float, digits: int | None, *, point: bool) -> str:
    """A number in hexadecimal digits, rounded to so many behind the point: 1.92p+1."""
    whole, fraction, exponent = re.fullmatch(r"0x([01])\.?(\w*)p([-+]\d+)", value.hex()).groups()  # type: ignore[union-attr]
    fraction = fraction.rstrip("0")
    if digits is not None:
        left = 4 * max(len(fraction) - digits, 0)
        scaled = int(f"{whole}{fraction}", 16)
        rounded = (scaled + (1 << left >> 1)) >> left
        if left and scaled & ((1 << left) - 1) == 1 << left - 1:
            rounded -= rounded & 1
        shown = f"{rounded:x}".rjust(1 + min(digits, len(fraction)), "0")
        whole, fraction = shown[:1], shown[1:].ljust(digits, "0")
    return f"{whole}{'.' if fraction or point else ''}{fraction}p{exponent}"


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _padded(before: str, body: str, flags: str, width: int) -> str:
    """Spaces, or zeros between the sign and the digits, up to the width."""
    if "-" in flags:
        return f"{before}{body}".ljust(width)
    return before + body.rjust(width - len(before), "0") if "0" in flags else f"{before}{body}".rjust(width)

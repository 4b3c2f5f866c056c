"""Numbers as text, for labels and descriptions."""

from __future__ import annotations

import math

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def value(number: float, digits: int = 9) -> str:
    """A number as people write it by hand: exact if `digits` digits are enough, otherwise with '≈' in front."""
    if isinstance(number, int):
        return str(number).replace("-", "−")
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "−∞" if number < 0 else "+∞"
    short = f"{number:.{digits}g}"
    exact = float(short) == number
    mantissa, e, exponent = short.partition("e")
    plain = f"{mantissa} × 10{superscript(int(exponent))}" if e else short
    return ("" if exact else "≈ ") + plain.replace("-", "−", 1 if plain.startswith("-") else 0)


def cut(text: str, most: int) -> str:
    """A text in at most so many characters.

    >>> from tcemu.show.words import cut
    >>> cut("a_long_name", 8)
    'a_long_…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def neat(number: float, digits: int = 9) -> str:
    """A number in little space: a power of two with many decimal digits is written as a power."""
    mantissa, exponent = math.frexp(abs(number))
    if mantissa == 0.5 and len(f"{abs(number):.17g}") > 7:
        return ("−" if number < 0 else "") + power(exponent - 1)
    return value(number, digits)


def compact(number: float, width: int = 8) -> str:
    """A number in at most `width` characters, rounded as far as necessary."""
    if not math.isfinite(number):
        return value(number)
    whole = [f"{number:.0f}"] if 1e3 <= abs(number) < 1e7 else []
    texts = [*whole, *(f"{number:.{digits}g}" for digits in (4, 3, 2, 1))]
    shown = next((text for text in texts if len(text) <= width), texts[-1])
    return shown.replace("-", "−")


def superscript(exponent: int) -> str:
    """An exponent in superscript digits."""
    return str(exponent).translate(_SUPERSCRIPTS)


def power(exponent: int) -> str:
    """2 to the power of `exponent`, with a superscript."""
    return f"2{superscript(exponent)}"


def hexadecimal(pattern: int, bits: int) -> str:
    """A pattern with a digit for every four of its bits.

    >>> from tcemu.show.words import hexadecimal
    >>> hexadecimal(7, 16)
    '0x0007'
    """
    return f"{pattern:#0{2 + -(-bits // 4)}x}"

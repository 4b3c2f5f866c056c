"""The bits of one number: a box for every bit, the fields, the formula and the value."""

from __future__ import annotations

from typing import NamedTuple

from tcemu.arguments import explained
from tcemu.errors import FormatError, counted, whole
from tcemu.formats import Format
from tcemu.show import svg
from tcemu.show.given import format_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid, bit
from tcemu.show.words import power, superscript, value


class _Field(NamedTuple):
    """A bit field: its name, how many bits, how they are drawn and what they mean."""

    name: str
    bits: int
    style: str
    meaning: str


@explained
def number_bits(form: Format | str, pattern: int) -> Picture:
    """The picture of one `pattern` (an unsigned integer, right-aligned in its container) of a format.

    Raises FormatError if the pattern has more bits than the format's container.

    >>> tcemu.show.number_bits("e4m3", 0x38).title
    'e4m3 pattern 0x38 is 1'
    """
    form = format_of(form)
    pattern = whole(pattern, "a pattern", FormatError)
    if not 0 <= pattern < 1 << form.container:
        top = (1 << form.container) - 1
        raise FormatError(f"pattern {pattern:#x}: {form.name} patterns have {form.container} bits, 0 to {top:#x}")
    pattern = int(pattern)
    fields = _fields(form, pattern)
    wide = 64.0 if form.container <= 4 else max(12.5, min(48.0, 800 / form.container))
    grid = Grid(16, 24, wide, 34, 1, form.container)
    shown, formula, why = reading(form, pattern)
    body = [*_boxes(grid, pattern, fields), *_braces(grid, fields)]
    body += [svg.text(grid.left, 146, formula), svg.text(grid.left, 168, why, "s")]
    title = f"{form.name} pattern {pattern:#0{2 + -(-form.container // 4)}x} is {shown}"
    parts = "; ".join(f"{field.name} {_digits(pattern, form, fields, field)}, {field.meaning}" for field in fields)
    return picture(title, f"Bits from the highest: {parts}. {formula}. {why}.", max(grid.right + 16, 640), 180, body)


def reading(form: Format, pattern: int) -> tuple[str, str, str]:
    """A pattern's value, the formula that gives it, and the reason why that formula applies, as text."""
    number = form.decode(pattern).item()
    shown = value(number)
    if form.kind != "float":
        formula = _integer_formula(form, pattern)
        return shown, f"value = {formula} = {shown}" if formula else f"value = {shown}", _integer_rule(form)
    kind = form.classify(pattern)
    sign, exponent, mantissa = form.fields(pattern)
    front = "value = " + (f"(−1){superscript(sign)} × " if form.signed else "")
    scale = 1 << form.mantissa
    if kind in ("infinity", "nan"):
        return shown, f"value = {shown}", _special_rule(form, kind)
    if kind in ("zero", "subnormal"):
        why = f"{kind}: the exponent field is 0, so there is no leading 1 and the exponent stays at {value(form.emin)}"
        return shown, f"{front}{power(form.emin)} × (0 + {mantissa}/{scale}) {_equals(shown)}", why
    significand = f" × (1 + {mantissa}/{scale})" if form.mantissa else ""
    formula = f"{front}2{superscript(exponent)}{superscript(-form.bias)}{significand} {_equals(shown)}"
    return shown, formula, _normal_rule(form, exponent)


def _equals(shown: str) -> str:
    return shown if shown.startswith("≈") else f"= {shown}"


def _normal_rule(form: Format, exponent: int) -> str:
    if not form.zero:
        return f"normal: a power of two; {form.name} has no sign, no mantissa, no zero"
    if exponent == (1 << form.exponent) - 1:
        lost = "neither infinity nor NaN" if not form.has_nan else "no infinity"
        return f"normal: {form.name} has {lost}, so an exponent field of all ones means numbers too"
    return "normal: the exponent field is not 0, so there is an implicit leading 1"


def _special_rule(form: Format, kind: str) -> str:
    if form.nan == "all ones":
        return f"NaN: every exponent and mantissa bit is 1, the only pattern that {form.name} uses for it"
    rest = "a mantissa of 0" if kind == "infinity" else "a mantissa that is not 0"
    return f"{'infinity' if kind == 'infinity' else 'NaN'}: an exponent field of all ones with {rest}"


def _integer_formula(form: Format, pattern: int) -> str:
    """The sum of the weights of the bits that are set; "" if there are fewer than two."""
    code = pattern & form.code_mask
    powers = [bit for bit in reversed(range(form.bits)) if code >> bit & 1]
    terms = [f"{'−' if form.signed and bit == form.bits - 1 else ''}{1 << bit}" for bit in powers]
    if len(terms) < 2:
        return ""
    return " + ".join(terms) if len(terms) <= 8 else f"{terms[0]} + … + {terms[-1]}"


def _integer_rule(form: Format) -> str:
    if form.kind == "bit":
        return "one bit: 0 or 1"
    if form.signed:
        span = f"from {value(form.lowest)} to {(1 << form.mantissa) - 1}"
        return f"two's complement: the highest bit has the weight −{power(form.bits - 1)}; {span}"
    return f"unsigned: from 0 to {(1 << form.bits) - 1}"


def _fields(form: Format, pattern: int) -> list[_Field]:
    sign, exponent, mantissa = form.fields(pattern)
    unused = form.container - form.bits - form.padding
    fields = [_Field("unused", unused, "p", "not part of the number"), _Field("sign", form.signed, "f", "+−"[sign])]
    if form.kind == "float":
        number = form.classify(pattern) not in ("infinity", "nan")
        weight = f" → {power(_exponent(form, exponent))}" if number else ""
        fields.append(_Field("exponent", form.exponent, "fb", f"{exponent}{weight}"))
        share = f" of {1 << form.mantissa}" if number else ""
        fields.append(_Field("mantissa", form.mantissa, "fo", f"{mantissa}{share}"))
    else:
        fields.append(_Field("bit" if form.kind == "bit" else "whole number", form.mantissa, "fo", f"{mantissa}"))
    fields.append(_Field("padding", form.padding, "p", "ignored by the hardware"))
    return [field for field in fields if field.bits]


def _exponent(form: Format, field: int) -> int:
    return field - form.bias if field or not form.zero else form.emin


def _digits(pattern: int, form: Format, fields: list[_Field], field: _Field) -> str:
    """The bits of one field as text."""
    start = sum(other.bits for other in fields[: fields.index(field)])
    return f"{pattern:0{form.container}b}"[start : start + field.bits]


def _boxes(grid: Grid, pattern: int, fields: list[_Field]) -> list[str]:
    elements = list[str]()
    for place, style in enumerate(field.style for field in fields for _ in range(field.bits)):
        number = grid.columns - 1 - place
        numbered = grid.wide >= 20 or number % 8 == 0 or not place
        hatch = "g" if style == "p" else ""
        elements += bit(grid.at(0, place), number, pattern >> number & 1, style, hatch, numbered=numbered)
    return elements


def _braces(grid: Grid, fields: list[_Field]) -> list[str]:
    elements, start = list[str](), 0
    for field in fields:
        box = grid.block(0, start, 1, field.bits)
        elements += [box.bracket(2), box.below(field.name, "b", 26), box.below(_fitting(field, box.wide), "", 43)]
        start += field.bits
    return elements


def _fitting(field: _Field, span: float) -> str:
    """The field's meaning if it fits under its boxes, else the number of bits."""
    if len(field.meaning) * 7 <= span + 12:
        return field.meaning
    return counted(field.bits, "bit") if span > 40 else ""

"""Bits: of one number, of a register, of a descriptor, and of two words that are counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tcemu.arguments import explained
from tcemu.errors import FormatError, OperandError, counted, span, whole
from tcemu.formats import Container, Format
from tcemu.layouts import Descriptor
from tcemu.layouts.descriptor import FIELDS, RESERVED, Field, as_bits
from tcemu.layouts.tensor_memory import TCGEN05_FIELDS, TCGEN05_SWIZZLES, tcgen05_descriptor
from tcemu.show import svg
from tcemu.show.inputs import format_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid, row_of_bits
from tcemu.show.svg import Drawing
from tcemu.show.words import compact, hexadecimal, power, superscript, value


class _Field(NamedTuple):
    """A bit field: its name, how many bits, how they are drawn and what they mean."""

    name: str
    bits: int
    tone: str
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
    labels, parts, start = [], [], 0
    for field in fields:
        box = grid.block(0, start, 1, field.bits)
        meaning = field.meaning  # or the number of bits, if it does not fit under its boxes
        if len(meaning) * 7 > box.wide + 12:
            meaning = counted(field.bits, "bit") if box.wide > 40 else ""
        labels.append([box.bracket(2), box.below(field.name, "b", 26), box.below(meaning, "", 43)])
        digits = f"{pattern:0{form.container}b}"[start : start + field.bits]
        parts.append(f"{field.name} {digits}, {field.meaning}")
        start += field.bits
    row = row_of_bits(grid, pattern, [field.tone for field in fields for _ in range(field.bits)])
    body = row, labels, svg.text(grid.left, 146, formula), svg.text(grid.left, 168, why, "s")
    title = f"{form.name} pattern {hexadecimal(pattern, form.container)} is {shown}"
    words = f"Bits from the highest: {'; '.join(parts)}. {formula}. {why}."
    return picture(title, words, max(grid.right + 16, 640), 180, body)


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
    scale, equals = 1 << form.mantissa, shown if shown.startswith("≈") else f"= {shown}"
    if kind in ("infinity", "nan"):
        rest = "a mantissa of 0" if kind == "infinity" else "a mantissa that is not 0"
        why = f"{'infinity' if kind == 'infinity' else 'NaN'}: an exponent field of all ones with {rest}"
        if form.nan == "all ones":
            why = f"NaN: every exponent and mantissa bit is 1, the only pattern that {form.name} uses for it"
        return shown, f"value = {shown}", why
    if kind in ("zero", "subnormal"):
        why = f"{kind}: the exponent field is 0, so there is no leading 1 and the exponent stays at {value(form.emin)}"
        return shown, f"{front}{power(form.emin)} × (0 + {mantissa}/{scale}) {equals}", why
    significand = f" × (1 + {mantissa}/{scale})" if form.mantissa else ""
    formula = f"{front}2{superscript(exponent)}{superscript(-form.bias)}{significand} {equals}"
    return shown, formula, _normal_rule(form, exponent)


def _normal_rule(form: Format, exponent: int) -> str:
    if not form.zero:
        return f"normal: a power of two; {form.name} has no sign, no mantissa, no zero"
    if exponent == (1 << form.exponent) - 1:
        lost = "neither infinity nor NaN" if not form.has_nan else "no infinity"
        return f"normal: {form.name} has {lost}, so an exponent field of all ones means numbers too"
    return "normal: the exponent field is not 0, so there is an implicit leading 1"


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
        weight = exponent - form.bias if exponent or not form.zero else form.emin
        meaning = f"{exponent} → {power(weight)}" if number else f"{exponent}"
        fields.append(_Field("exponent", form.exponent, "fb", meaning))
        share = f" of {1 << form.mantissa}" if number else ""
        fields.append(_Field("mantissa", form.mantissa, "fo", f"{mantissa}{share}"))
    else:
        fields.append(_Field("bit" if form.kind == "bit" else "whole number", form.mantissa, "fo", f"{mantissa}"))
    fields.append(_Field("padding", form.padding, "p", "ignored by the hardware"))
    return [field for field in fields if field.bits]


@explained
def register_bits(container: Container, register: int, where: str = "") -> Picture:
    """The picture of one `register` (an unsigned integer) that holds elements in `container`s; `where` names it.

    Raises FormatError if the register has more bits than the container's registers.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> tcemu.show.register_bits(mma.fragments["a"].container, 0x40003C00, "register 0 of lane 5").description
    'Elements from the lowest bits: 1, 2. Each element is in bits 15 to 0 of its 16.'
    """
    bits, elements, width, form = container.register_bits, container.elements, container.width, container.form
    register = whole(register, "a register", FormatError)
    if not 0 <= register < 1 << bits:
        raise FormatError(f"register {register:#x}: it has {bits} bits, 0 to {(1 << bits) - 1:#x}")
    mask = (1 << (form.bits + form.padding)) - 1
    numbers = form.decode([register >> (index * width + container.shift) & mask for index in range(elements)]).tolist()
    grid = Grid(16, 24, min(26.0, 832 / bits), 34, 1, bits)
    tones = [_tone(container, number) for number in reversed(range(bits))]
    labels, roomy = list[Drawing](), width * grid.wide >= 48
    for index, number in enumerate(numbers if roomy else ()):
        box, full = grid.block(0, bits - (index + 1) * width, 1, width), value(number)
        short = full if len(full) <= 12 else compact(number, 12)
        labels.append([box.bracket(3), box.below(f"element {index}", "s", 26), box.below(short, "b", 44)])
    name = f"Register {hexadecimal(register, bits)}{where and f' ({where})'}"
    title = f"{name}: {counted(elements, 'element')} of {form.name}"
    values = ", ".join(value(number) for number in numbers)
    high = container.shift + form.bits + form.padding - 1
    used = f"bit{'s' * (high > container.shift)} {span(high, container.shift)} of its {width}"
    words = f"Elements from the lowest bits: {values}. Each element is in {used}."
    height = 142 if roomy else 100
    legend = svg.text(grid.left, height - 12, _fields_of(container), "s")
    body = row_of_bits(grid, register, tones, divided=True), labels, legend
    return picture(title, words, grid.right + 16, height, body)


def _tone(container: Container, bit: int) -> str:
    """The style of one bit: sign, exponent, mantissa or unused."""
    form, place = container.form, bit % container.width - container.shift - container.form.padding
    if not 0 <= place < form.bits:
        return "p"
    if form.kind == "float" and form.signed and place == form.bits - 1:
        return "f"
    return "fo" if place < form.mantissa else "fb" if form.kind == "float" else "f"


def _fields_of(container: Container) -> str:
    """The fields of one element, from the left; thick lines divide them."""
    form = container.form
    parts = {"sign": form.signed, "exponent": form.exponent, "mantissa": form.mantissa}
    if form.kind != "float":
        parts = {"two's complement" if form.signed else "bits": form.bits}
    unused = "; hatched: not part of the number" if form.bits < container.width else ""
    return f"each element from the left: {', '.join(name for name, bits in parts.items() if bits)}{unused}"


#: Bits 63 to 32 of a descriptor, and 31 to 0.
_HIGH, _LOW = Grid(24, 28, 26.0, 34, 1, 32), Grid(24, 150, 26.0, 34, 1, 32)
#: Fields in colours of their own; the others have none.
_STYLES = {"start": "fb", "lbo": "fo", "sbo": "fg"}
#: The width of a character in a label, generously, and the least space between two labels.
_CHARACTER, _SPACE = 7.4, 8
_IN_UNITS = "Addresses and offsets are stored without their low 4 bits: multiply by 16."


@explained
def descriptor(encoded: Descriptor | int) -> Picture:
    """The picture of a Descriptor or of 64 bits; bits outside the fields are marked if they are set.

    Raises LayoutError for anything else.

    >>> tcemu.show.descriptor(tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)).title
    'Matrix descriptor 0x4000004000010000'
    """
    bits = as_bits(encoded)
    wrong = [bit for bit in range(64) if bits & RESERVED & 1 << bit]
    legend = f"{_IN_UNITS} Hatched bits belong to no field and must be 0"
    legend += ", but the marked ones are set" if wrong else ""
    faults = f" Set, although in no field: bits {', '.join(map(str, wrong))}." if wrong else ""
    return _descriptor(bits, FIELDS, f"Matrix descriptor {bits:#018x}", legend, faults)


@explained
def descriptor_of_tcgen05(encoded: Descriptor | int) -> Picture:
    """The descriptor that tcgen05 takes for the tile of a wgmma Descriptor, or of its 64 bits.

    Raises LayoutError for anything else.

    >>> tcemu.show.descriptor_of_tcgen05(tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)).title
    'Shared memory descriptor of tcgen05 0x4000404000010000'
    """
    bits = tcgen05_descriptor(Descriptor.decode(as_bits(encoded)))
    return _descriptor(bits, TCGEN05_FIELDS, f"Shared memory descriptor of tcgen05 {bits:#018x}", _IN_UNITS)


def _descriptor(bits: int, fields: Sequence[Field], title: str, legend: str, faults: str = "") -> Picture:
    tones = [_field_tone(bits, number, fields) for number in reversed(range(64))]
    meanings = [(field, _meaning(bits, field, fields)) for field in fields]
    rows, low = [(_HIGH, bits >> 32, tones[:32], 32), (_LOW, bits, tones[32:], 0)], 2 * _LOW.top - _HIGH.top
    body = [row_of_bits(*row) for row in rows], _labels(meanings), svg.text(_HIGH.left, low, legend, "s")
    parts = []
    for field, meaning in meanings:
        where = f"bit{'s' * (field.bits > 1)} {span(field.low + field.bits - 1, field.low)}"
        parts.append(f"{where} {field.name} {field.of(bits):#x}" + (f", {meaning}" if meaning else ""))
    return picture(title, f"{'; '.join(parts)}.{faults}", _HIGH.right + _HIGH.left, low + 14, body)


def _field_tone(bits: int, number: int, fields: Sequence[Field]) -> str:
    """The tone of a bit of a descriptor: that of its field, if it has one; otherwise it must be 0."""
    field = next((field for field in fields if field.mask >> number & 1), None)
    return _STYLES.get(field.attribute, "f") if field else "x" if bits >> number & 1 else "p"


def _labels(meanings: Iterable[tuple[Field, str]]) -> Iterator[Drawing]:
    """The labels below the boxes, fields in ascending order: a label that would touch another one is placed lower."""
    row, limit = -1.0, 0.0
    for field, meaning in meanings:
        grid = _HIGH if field.low >= 32 else _LOW
        box = grid.block(0, 32 - field.low % 32 - field.bits, 1, field.bits)
        half = max(len(field.name), len(meaning)) * _CHARACTER / 2
        # the label of a narrow field at the edge is shifted so that it fits
        middle, low = max(box.middle, grid.left + 30), box.y + box.high
        yield box.rect("k"), box.bracket(3)
        touches = box.y == row and middle + half + _SPACE > limit
        if touches:  # one line of text, to which a line leads
            yield svg.line(middle, low + 10, middle, low + 47, "i")
            yield svg.text(middle, low + 60, f"{field.name} {meaning}".strip(), "b", "middle")
        else:
            yield svg.text(middle, low + 26, field.name, "b", "middle")
            yield svg.text(middle, low + 44, meaning, "", "middle")
        row, limit = box.y, limit if touches else middle - half


def _meaning(bits: int, field: Field, fields: Sequence[Field]) -> str:
    value = field.of(bits)
    if field.attribute in ("start", "lbo", "sbo"):
        return f"{value:#x} × 16 = {value * 16} bytes"
    if field.attribute == "swizzle":
        sizes = {code: size for size, code in TCGEN05_SWIZZLES.items()}
        size = Descriptor.decode(bits).swizzle if fields is FIELDS else sizes[value]
        return f"{size} bytes" if size else "none"
    return "" if field.attribute in ("constant", "zeros") else str(value)


@explained
def popcount(a: int, b: int, operation: str = "xor") -> Picture:
    """Two 32-bit words, bit by bit, and `a` xor `b`, or `a` and `b`, whose ones are counted.

    Bits that stand for +1 and −1 have the dot product 32 − 2 · popc(a xor b), which is shown too. Raises OperandError
    for a word of more than 32 bits, and for another operation.

    >>> tcemu.show.popcount(0b1100, 0b1010).description
    'a 0x0000000c xor b 0x0000000a is 0x00000006, which has 2 ones. As signs: 30 agree and 2 differ, dot product 28.'
    """
    words = {"a": whole(a, "a word"), "b": whole(b, "a word")}
    for name, word in words.items():
        if not 0 <= word < 1 << 32:
            raise OperandError(f"{name} must be a word of 32 bits, 0 to 0xffffffff; got {word:#x}")
    if operation not in ("xor", "and"):
        raise OperandError(f"the operation must be xor or and; got {operation!r}")
    both = words["a"] ^ words["b"] if operation == "xor" else words["a"] & words["b"]
    ones, differ = both.bit_count(), (words["a"] ^ words["b"]).bit_count()
    grids = [Grid(64, 34 + 38 * row, 22, 26, 1, 32) for row in range(3)]
    left, y = grids[0].left, grids[-1].bottom + 26
    rows = [_word(grid, name, word, "x" if name == operation else "fb")
            for grid, (name, word) in zip(grids, {**words, operation: both}.items(), strict=True)]  # fmt: skip
    product = f"dot product {value(32 - 2 * differ)}"
    signs = f"as signs, 1 for +1 and 0 for −1: {32 - differ} agree, {differ} differ, {product}"
    numbers = [grids[0].at(0, 31 - bit).above(bit, "s t", 8) for bit in range(0, 32, 4)]
    body = numbers, rows, svg.text(left, y, f"popc = {ones}", "b"), svg.text(left + 110, y, signs, "s")
    said = f"a {words['a']:#010x} {operation} b {words['b']:#010x} is {both:#010x}, which has {counted(ones, 'one')}. "
    said += f"As signs: {32 - differ} agree and {differ} differ, {product}."
    return picture(f"popc(a {operation} b) = {ones}", said, grids[0].right + 16, y + 18, body)


def _word(grid: Grid, name: str, word: int, tone: str) -> Iterator[str]:
    """One word; its ones have the tone."""
    yield svg.text(grid.left - 10, grid.top + 19, name, "b", "end")
    for place, digit in enumerate(f"{word:032b}"):
        box, one = grid.at(0, place), digit == "1"
        yield box.rect(tone if one else "p") + box.label(digit, "m b" if one else "m q")

"""The 64 bits of a matrix descriptor: a box for every bit, the fields, and what they mean in bytes."""

from __future__ import annotations

from tcemu.layouts import Descriptor
from tcemu.layouts.descriptor import FIELDS, OFFSETS, RESERVED, Field, as_bits
from tcemu.show import svg
from tcemu.show.picture import Picture, picture

_LEFT, _TOP, _HEIGHT, _BOX, _ROW = 24, 28, 34, 26.0, 122
_STYLES = {"start": "fb", "lbo": "fo", "sbo": "fg", "base_offset": "f", "swizzle": "f"}


def descriptor(given: Descriptor | int) -> Picture:
    """The picture of a Descriptor or of 64 bits; bits outside the fields are marked if they are set.

    Raises LayoutError for anything else.

    >>> tcemu.show.descriptor(tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)).title
    'Matrix descriptor 0x4000004000010000'
    """
    bits = as_bits(given)
    body = [element for bit in range(63, -1, -1) for element in _bit(bits, bit)]
    for field in FIELDS:
        body += _field(bits, field)
    wrong = [bit for bit in range(64) if bits & RESERVED & 1 << bit]
    rule = "Addresses and offsets are stored without their low 4 bits: multiply by 16. Hatched bits belong to no field"
    legend = f"{rule} and must be 0" + (", but the marked ones are set" if wrong else "")
    body.append(svg.text(_LEFT, _TOP + 2 * _ROW, legend, "s"))
    words = "; ".join(f"{_where(field)} {field.name} {field.of(bits):#x}, {_meaning(bits, field)}" for field in FIELDS)
    faults = f" Set, although in no field: bits {', '.join(map(str, wrong))}." if wrong else ""
    width = 2 * _LEFT + 32 * _BOX
    return picture(f"Matrix descriptor {bits:#018x}", f"{words}.{faults}", width, _TOP + 2 * _ROW + 14, body)


def _place(bit: int) -> tuple[float, float]:
    """The corner of a bit's box: two rows of 32 bits, the highest bit first."""
    return _LEFT + (31 - bit % 32) * _BOX, _TOP + (0 if bit >= 32 else _ROW)


def _bit(bits: int, bit: int) -> list[str]:
    field = next((field for field in FIELDS if field.mask >> bit & 1), None)
    digit = bits >> bit & 1
    style = _STYLES[field.attribute] if field else "x" if digit else "p"
    x, y = _place(bit)
    elements = [svg.rect(x, y, _BOX, _HEIGHT, style)]
    if not field:
        elements.append(svg.hatch(x, y, _BOX, _HEIGHT, "h" if digit else "g"))
    clear = "" if field else " halo" if digit else " clear"
    elements.append(svg.text(x + _BOX / 2, y + 22, digit, f"m{' b' * digit}{clear}", "middle"))
    elements.append(svg.text(x + _BOX / 2, y - 6, bit, "s t", "middle"))
    return elements


def _field(bits: int, field: Field) -> list[str]:
    left, y = _place(field.low + field.bits - 1)
    right = left + field.bits * _BOX
    # the text of a narrow field at the edge is shifted so that it fits
    middle = max((left + right) / 2, _LEFT + 30)
    return [
        svg.rect(left, y, right - left, _HEIGHT, "k"),
        svg.bracket(left + 3, right - 3, y + _HEIGHT + 5),
        svg.text(middle, y + _HEIGHT + 26, field.name, "b", "middle"),
        svg.text(middle, y + _HEIGHT + 44, _meaning(bits, field), "", "middle"),
    ]


def _where(field: Field) -> str:
    return f"bits {field.low + field.bits - 1} to {field.low}"


def _meaning(bits: int, field: Field) -> str:
    value = field.of(bits)
    if field in OFFSETS:
        return f"{value:#x} × 16 = {value * 16} bytes"
    if field.attribute == "swizzle":
        size = Descriptor.decode(bits).swizzle
        return f"{size} bytes" if size else "none"
    return str(value)

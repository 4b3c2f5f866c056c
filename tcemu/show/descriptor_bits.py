"""The 64 bits of a matrix descriptor: a box for every bit, the fields, and what they mean in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcemu.arguments import explained
from tcemu.layouts import Descriptor
from tcemu.layouts.descriptor import FIELDS, RESERVED, Field, as_bits
from tcemu.layouts.tensor_memory import TCGEN05_FIELDS, TCGEN05_SWIZZLES, tcgen05_descriptor
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box, bit

_LEFT, _TOP, _BOX, _ROW = 24, 28, 26.0, 122
#: Fields in colours of their own; the others have none.
_STYLES = {"start": "fb", "lbo": "fo", "sbo": "fg"}
#: The width of a character in a label, generously, and the least space between two labels.
_CHARACTER, _SPACE = 7.4, 8


@explained
def descriptor(given: Descriptor | int) -> Picture:
    """The picture of a Descriptor or of 64 bits; bits outside the fields are marked if they are set.

    Raises LayoutError for anything else.

    >>> tcemu.show.descriptor(tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)).title
    'Matrix descriptor 0x4000004000010000'
    """
    bits = as_bits(given)
    wrong = [bit for bit in range(64) if bits & RESERVED & 1 << bit]
    rule = "Addresses and offsets are stored without their low 4 bits: multiply by 16. Hatched bits belong to no field"
    legend = f"{rule} and must be 0" + (", but the marked ones are set" if wrong else "")
    faults = f" Set, although in no field: bits {', '.join(map(str, wrong))}." if wrong else ""
    return _drawn(bits, FIELDS, f"Matrix descriptor {bits:#018x}", legend, faults)


@explained
def descriptor_of_tcgen05(given: Descriptor | int) -> Picture:
    """The descriptor that tcgen05 takes for the tile of a wgmma Descriptor, or of its 64 bits.

    Raises LayoutError for anything else.

    >>> tcemu.show.descriptor_of_tcgen05(tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)).title
    'Shared memory descriptor of tcgen05 0x4000404000010000'
    """
    bits = tcgen05_descriptor(Descriptor.decode(as_bits(given)))
    legend = "Addresses and offsets are stored without their low 4 bits: multiply by 16."
    return _drawn(bits, TCGEN05_FIELDS, f"Shared memory descriptor of tcgen05 {bits:#018x}", legend, "")


def _drawn(bits: int, fields: Sequence[Field], title: str, legend: str, faults: str) -> Picture:
    body = [element for bit in range(63, -1, -1) for element in _bit(bits, bit, fields)]
    body += _labels([(field, _meaning(bits, field, fields)) for field in fields])
    body.append(svg.text(_LEFT, _TOP + 2 * _ROW, legend, "s"))
    told = (", ".join(filter(None, (_value(bits, each), _meaning(bits, each, fields)))) for each in fields)
    width = 2 * _LEFT + 32 * _BOX
    return picture(title, f"{'; '.join(told)}.{faults}", width, _TOP + 2 * _ROW + 14, body)


def _place(bits: range) -> Box:
    """The box of some bits: two rows of 32 bits, the highest bit first."""
    x, y = _LEFT + (31 - bits[-1] % 32) * _BOX, _TOP + (0 if bits[0] >= 32 else _ROW)
    return Box(x, y, len(bits) * _BOX, 34)


def _bit(bits: int, number: int, fields: Sequence[Field]) -> list[str]:
    field = next((field for field in fields if field.mask >> number & 1), None)
    digit, box = bits >> number & 1, _place(range(number, number + 1))
    if field:
        return bit(box, number, digit, _STYLES.get(field.attribute, "f"))
    return bit(box, number, digit, *(("x", "h") if digit else ("p", "g")))


def _labels(meanings: Iterable[tuple[Field, str]]) -> list[str]:
    """The labels below the boxes, fields in ascending order: a label that would touch another one is placed lower."""
    elements: list[str] = []
    row, limit = -1.0, 0.0
    for field, meaning in meanings:
        box = _place(range(field.low, field.low + field.bits))
        half = max(len(field.name), len(meaning)) * _CHARACTER / 2
        # the label of a narrow field at the edge is shifted so that it fits
        middle, low = max(box.middle, _LEFT + 30), box.y + box.high
        elements += [box.rect("k"), box.bracket(3)]
        touches = box.y == row and middle + half + _SPACE > limit
        if touches:  # one line of text, to which a line leads
            elements.append(svg.line(middle, low + 10, middle, low + 47, "i"))
            elements.append(svg.text(middle, low + 60, f"{field.name} {meaning}".strip(), "b", "middle"))
        else:
            elements.append(svg.text(middle, low + 26, field.name, "b", "middle"))
            elements.append(svg.text(middle, low + 44, meaning, "", "middle"))
        row, limit = box.y, limit if touches else middle - half
    return elements


def _value(bits: int, field: Field) -> str:
    where = f"bits {field.low + field.bits - 1} to {field.low}" if field.bits > 1 else f"bit {field.low}"
    return f"{where} {field.name} {field.of(bits):#x}"


def _meaning(bits: int, field: Field, fields: Sequence[Field]) -> str:
    value = field.of(bits)
    if field.attribute in ("start", "lbo", "sbo"):
        return f"{value:#x} × 16 = {value * 16} bytes"
    if field.attribute == "swizzle":
        sizes = {code: size for size, code in TCGEN05_SWIZZLES.items()}
        size = Descriptor.decode(bits).swizzle if fields is FIELDS else sizes[value]
        return f"{size} bytes" if size else "none"
    return "" if field.attribute in ("constant", "zeros") else str(value)

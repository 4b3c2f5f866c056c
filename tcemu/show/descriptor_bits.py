"""The 64 bits of a matrix descriptor: a box for every bit, the fields, and what they mean in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcemu.arguments import explained
from tcemu.layouts import Descriptor
from tcemu.layouts.descriptor import FIELDS, RESERVED, Field, as_bits
from tcemu.layouts.tensor_memory import TCGEN05_FIELDS, TCGEN05_SWIZZLES, tcgen05_descriptor
from tcemu.show import svg
from tcemu.show.picture import Picture, picture

_LEFT, _TOP, _HEIGHT, _BOX, _ROW = 24, 28, 34, 26.0, 122
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


def _place(bit: int) -> tuple[float, float]:
    """The corner of a bit's box: two rows of 32 bits, the highest bit first."""
    return _LEFT + (31 - bit % 32) * _BOX, _TOP + (0 if bit >= 32 else _ROW)


def _bit(bits: int, bit: int, fields: Sequence[Field]) -> list[str]:
    field = next((field for field in fields if field.mask >> bit & 1), None)
    digit = bits >> bit & 1
    style = _STYLES.get(field.attribute, "f") if field else "x" if digit else "p"
    x, y = _place(bit)
    elements = [svg.rect(x, y, _BOX, _HEIGHT, style)]
    if not field:
        elements.append(svg.hatch(x, y, _BOX, _HEIGHT, "h" if digit else "g"))
    clear = "" if field else " halo" if digit else " clear"
    elements.append(svg.text(x + _BOX / 2, y + 22, digit, f"m{' b' * digit}{clear}", "middle"))
    elements.append(svg.text(x + _BOX / 2, y - 6, bit, "s t", "middle"))
    return elements


def _labels(meanings: Iterable[tuple[Field, str]]) -> list[str]:
    """The labels below the boxes, fields in ascending order: a label that would touch another one is placed lower."""
    elements: list[str] = []
    row, limit = -1.0, 0.0
    for field, meaning in meanings:
        left, y = _place(field.low + field.bits - 1)
        right = left + field.bits * _BOX
        half = max(len(field.name), len(meaning)) * _CHARACTER / 2
        # the label of a narrow field at the edge is shifted so that it fits
        middle = max((left + right) / 2, _LEFT + 30)
        touches = y == row and middle + half + _SPACE > limit
        elements += _outline(left, right, y) + (_lower if touches else _label)(middle, y + _HEIGHT, field.name, meaning)
        row, limit = y, limit if touches else middle - half
    return elements


def _outline(left: float, right: float, y: float) -> list[str]:
    return [svg.rect(left, y, right - left, _HEIGHT, "k"), svg.bracket(left + 3, right - 3, y + _HEIGHT + 5)]


def _label(middle: float, y: float, name: str, meaning: str) -> list[str]:
    return [svg.text(middle, y + 26, name, "b", "middle"), svg.text(middle, y + 44, meaning, "", "middle")]


def _lower(middle: float, y: float, name: str, meaning: str) -> list[str]:
    """A label in one line below the others, with a line that leads to it."""
    label = svg.text(middle, y + 60, f"{name} {meaning}".strip(), "b", "middle")
    return [svg.line(middle, y + 10, middle, y + 47, "i"), label]


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

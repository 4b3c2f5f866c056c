"""One register, bit by bit: which elements share it, where each one is, and which bits are unused."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import FormatError, counted, span, whole
from tcemu.formats import Container
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid, bit
from tcemu.show.words import compact, value


@explained
def register_bits(container: Container, register: int, where: str = "") -> Picture:
    """The picture of one `register` (an unsigned integer) that holds elements in `container`s; `where` names it.

    Raises FormatError if the register has more bits than the container's registers.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> tcemu.show.register_bits(mma.fragments["a"].container, 0x40003C00, "register 0 of lane 5").description
    'Elements from the lowest bits: 1, 2. Each element is in bits 15 to 0 of its 16.'
    """
    bits, elements = container.register_bits, container.elements
    register = whole(register, "a register", FormatError)
    if not 0 <= register < 1 << bits:
        raise FormatError(f"register {register:#x}: it has {bits} bits, 0 to {(1 << bits) - 1:#x}")
    form = container.form
    numbers = form.decode([_element(container, register, index) for index in range(elements)]).tolist()
    grid = Grid(16, 24, min(26.0, 832 / bits), 34, 1, bits)
    body, roomy = _bits(grid, container, register), container.width * grid.wide >= 48
    for index, number in enumerate(numbers if roomy else ()):
        box = grid.block(0, bits - (index + 1) * container.width, 1, container.width)
        body += [box.bracket(3), box.below(f"element {index}", "s", 26), box.below(_fitting(number), "b", 44)]
    name = f"Register {register:#0{2 + bits // 4}x}{where and f' ({where})'}"
    title = f"{name}: {counted(elements, 'element')} of {form.name}"
    values = ", ".join(value(number) for number in numbers)
    high = container.shift + form.bits + form.padding - 1
    used = f"bit{'s' * (high > container.shift)} {span(high, container.shift)} of its {container.width}"
    words = f"Elements from the lowest bits: {values}. Each element is in {used}."
    height = 142 if roomy else 100
    body.append(svg.text(grid.left, height - 12, _legend(container), "s"))
    return picture(title, words, grid.right + 16, height, body)


def _element(container: Container, register: int, index: int) -> int:
    """The pattern of one element."""
    mask = (1 << (container.form.bits + container.form.padding)) - 1
    return register >> (index * container.width + container.shift) & mask


def _style(container: Container, bit: int) -> str:
    """The style of one bit: sign, exponent, mantissa or unused."""
    form, place = container.form, bit % container.width - container.shift - container.form.padding
    if not 0 <= place < form.bits:
        return "p"
    if form.kind == "float" and form.signed and place == form.bits - 1:
        return "f"
    return "fo" if place < form.mantissa else "fb" if form.kind == "float" else "f"


def _bits(grid: Grid, container: Container, register: int) -> list[str]:
    """The bits; thick lines divide the fields."""
    elements = list[str]()
    for place in range(grid.columns):
        box, number = grid.at(0, place), grid.columns - 1 - place
        style, hatched = _style(container, number), _style(container, number) == "p"
        numbered = grid.wide >= 20 or number % 8 == 0
        elements += bit(box, number, register >> number & 1, style, "g" * hatched, numbered=numbered)
        if place and style != _style(container, number + 1):
            elements.append(svg.line(box.x, box.y - 2, box.x, grid.bottom + 2, "k"))
    return elements


def _legend(container: Container) -> str:
    """The fields of one element, from the left; thick lines divide them."""
    form = container.form
    parts = [("sign", form.signed), ("exponent", form.exponent), ("mantissa", form.mantissa)]
    names = (
        [name for name, bits in parts if bits]
        if form.kind == "float"
        else ["two's complement" if form.signed else "bits"]
    )
    unused = "; hatched: not part of the number" if form.bits < container.width else ""
    return f"each element from the left: {', '.join(names)}{unused}"


def _fitting(number: float) -> str:
    """The number in full if that is short, else rounded."""
    full = value(number)
    return full if len(full) <= 12 else compact(number, 12)

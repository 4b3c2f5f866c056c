"""The 32 bits of tcgen05's instruction descriptor: a box for every bit, and what each field says."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import span
from tcemu.layouts.instruction_descriptor import SCALED, UNSCALED, WS, Bits, InstructionDescriptor, kind_named
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import LINE, Grid, notes, row_of_bits

_GRID = Grid(16, 28, 26, 34, 1, 32)
#: Fields in words, and what a field's number is multiplied by.
_NAMES = {
    "selector": "sparsity selector", "sparse": "A is sparse", "saturate": "saturate", "d": "type of D",
    "a": "type of A", "b": "type of B", "negate_a": "negate A", "negate_b": "negate B", "transpose_a": "A is MN-major",
    "transpose_b": "B is MN-major", "n": "N / 8", "m": "M / 16", "shift": "B may be shifted", "sfb_id": "scale ID of B",
    "sfa_id": "scale ID of A", "scale_type": "type of scales", "k96": "K is 96",
}  # fmt: skip
#: Tones of neighbouring fields.
_TONES = ("fb", "fo", "fg")


@explained
def instruction_descriptor(bits: int, kind: str = "f16", *, ws: bool = False) -> Picture:
    """The picture of the instruction descriptor of a tcgen05.mma with .kind::`kind`, or of one with .ws.

    Raises LayoutError for bits that are none, which says why.

    >>> bits = tcemu.layouts.instruction_descriptor(128, 64)
    >>> tcemu.show.instruction_descriptor(bits).title
    'Instruction descriptor 0x08100010 of kind::f16: M 128, N 64, A f16, B f16, D f32'
    """
    decoded, name = InstructionDescriptor.decode(bits, kind, ws), kind_named(kind)
    table = SCALED if name.scaled else WS if ws else UNSCALED
    fields = sorted(table.items(), key=lambda field: -field[1].low)
    tones = {place: _TONES[number % len(_TONES)] for number, (_, place) in enumerate(fields)}
    in_fields = {place.low + bit: tone for place, tone in tones.items() for bit in range(place.width)}
    row = row_of_bits(_GRID, bits, [in_fields.get(number, "p") for number in reversed(range(32))])
    frames = [_GRID.block(0, 32 - place.low - place.width, 1, place.width).rect("k") for place in tones]
    lines = [_said(field, place, bits, decoded) for field, place in fields]
    half = -(-len(lines) // 2)
    top = _GRID.bottom + 28
    halves = notes(_GRID.left, top, lines[:half]), notes(_GRID.left + _GRID.wide * 16, top, lines[half:])
    last = top + half * LINE + 6
    body = row, frames, halves, notes(_GRID.left, last, ["Hatched bits belong to no field and must be 0."])
    types = f"A {decoded.a}, B {decoded.b}, D {decoded.d}"
    types += f", scales {decoded.scale_type}" if decoded.scale_type else ""
    title = f"Instruction descriptor {bits:#010x} of kind::{name.name}: M {decoded.m}, N {decoded.n}, {types}"
    return picture(title, f"{'; '.join(lines)}.", _GRID.right + 16, last + 12, body)


def _said(field: str, place: Bits, bits: int, decoded: InstructionDescriptor) -> str:
    """``bits 22 to 17: N / 8 = 8, N = 64``."""
    high, number = place.low + place.width - 1, place.of(bits)
    where = f"bit{'s' * (place.width > 1)} {span(high, place.low)}"
    value = getattr(decoded, field)
    name = _NAMES[field].replace("M / 16", "M / 128") if place.width == 2 else _NAMES[field]
    if field in ("m", "n"):
        return f"{where}: {name} = {number}, {field.upper()} = {value}"
    says = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return f"{where}: {name}: {says}" + (f" ({number})" if isinstance(value, str) and value else "")

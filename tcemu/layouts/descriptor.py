"""The matrix descriptor of wgmma (PTX ISA 9.1, 9.7.15.5.1.2.2): 64 bits that say where a tile is in shared memory.

    bits 13:0    start address        each as (bytes & 0x3FFFF) >> 4
    bits 29:16   leading dimension byte offset (LBO)
    bits 45:32   stride dimension byte offset (SBO)
    bits 51:49   base offset
    bits 63:62   swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes

The address of element (mn, k) is the start address plus one of the sums below. mn is a row of A or a column of B, W
the swizzle's bytes, T the number of elements in 16 bytes; in K-major, byte is k times the size of an element:

    K-major, none       (mn mod 8) 16 + (mn div 8) SBO + byte mod 16 + (byte div 16) LBO
    K-major, swizzled   (mn mod 8) W + (mn div 8) SBO + byte mod W + (byte div W) LBO
    MN-major, none      (mn mod T) size + (mn div T) SBO + (k mod 8) 16 + (k div 8) LBO
    MN-major, swizzled  (mn mod P) size + (mn div P) LBO + (k mod 8) W + (k div 8) SBO,  P = W / size

A swizzle then XORs address bits 4 and up with the number of the 128-byte line minus the base offset: three bits for
128 bytes, two for 64, one for 32. The line is counted from the beginning of shared memory, wherever the tile starts.
All of this was compared with an H200, in all modes, with random start addresses, also inside a pattern, random offsets,
and base offsets from 0 to 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import LayoutError, briefly, is_whole, listing, whole
from tcemu.layouts.canonical import SWIZZLES, Canonical, Element, Major, element_bits
from tcemu.layouts.swizzle import swizzled

Array = npt.NDArray[Any]
#: The most steps that a descriptor remembers.
_STEPS = 64


class Field(NamedTuple):
    """A bit field of a descriptor: the attribute, the manual's name, the lowest bit and the number of bits."""

    attribute: str
    name: str
    low: int
    bits: int

    @property
    def mask(self) -> int:
        """A mask of the field's bits."""
        return ((1 << self.bits) - 1) << self.low

    def of(self, bits: int) -> int:
        """The field's value as a descriptor encodes it."""
        return (bits & self.mask) >> self.low


FIELDS = (
    Field("start", "start address", 0, 14),
    Field("lbo", "LBO", 16, 14),
    Field("sbo", "SBO", 32, 14),
    Field("base_offset", "base offset", 49, 3),
    Field("swizzle", "swizzle", 62, 2),
)
#: The fields that hold a number of bytes shifted right by 4.
OFFSETS = FIELDS[:3]
_START, _LBO, _SBO, _BASE, _SWIZZLE = FIELDS
#: Bits that belong to no field and are 0.
RESERVED = ~sum(field.mask for field in FIELDS) & (1 << 64) - 1


@dataclass(frozen=True)
class Descriptor:
    """A matrix descriptor as fields: start, LBO and SBO in bytes, and the swizzle's bytes (0, 32, 64, 128).

    tcemu.run accepts it wherever an instruction takes a descriptor. Raises LayoutError if a field cannot be encoded.

    >>> tile = tcemu.layouts.Descriptor.for_tile("f16", 64, 64, swizzle=128)  # 64 rows of 64 elements along K
    >>> tile, hex(tile.encode())
    (Descriptor(start=0, lbo=16, sbo=1024, swizzle=128, base_offset=0), '0x4000004000010000')
    >>> tcemu.layouts.Descriptor.decode(tile.encode()) == tile
    True
    >>> tile.address(1, 0, "f16"), tile.address(1, 8, "f16")  # bytes; the swizzle permutes 16-byte units
    (144, 128)
    >>> tile.advance("f16", k=16) == tile.step(32)  # the next 16 columns are 32 bytes further on
    True
    >>> tile.formula("f16")
    '0 + (mn mod 8) * 128 + (mn div 8) * 1024 + (k mod 64) * 2 + (k div 64) * 16'
    >>> print(tile.explain("f16").splitlines()[0])
    descriptor 0x4000004000010000
    >>> tile.layout("f16").swizzle
    128
    """

    start: int
    lbo: int = 0
    sbo: int = 0
    swizzle: int = 0
    base_offset: int = 0

    def __post_init__(self) -> None:
        for field in OFFSETS:
            value = getattr(self, field.attribute)
            if not is_whole(value) or not 0 <= value <= 0x3FFFF or value % 16:
                raise LayoutError(
                    f"descriptor field {field.attribute} is {briefly(value)}; it must be a multiple of 16 bytes below "
                    "262144. Give bytes: encode() shifts them right by 4."
                )
        if not is_whole(self.swizzle) or self.swizzle not in SWIZZLES:
            raise LayoutError(
                f"descriptor swizzle is {briefly(self.swizzle)} bytes; it must be {listing(sorted(SWIZZLES))}"
            )
        if not is_whole(self.base_offset) or not 0 <= self.base_offset <= 7:
            raise LayoutError(f"descriptor base_offset is {briefly(self.base_offset)}; it has three bits, 0 to 7")

    # ------------------------------------------------------------------------------------------ 64 bits

    def encode(self) -> int:
        """The 64 bits."""
        return self.bits

    @cached_property
    def bits(self) -> int:
        """The 64 bits."""
        bits = sum(int(getattr(self, field.attribute)) >> 4 << field.low for field in OFFSETS)
        return bits | int(self.base_offset) << _BASE.low | SWIZZLES.index(self.swizzle) << _SWIZZLE.low

    @classmethod
    def decode(cls, bits: int) -> Descriptor:
        """The descriptor that 64 bits encode; bits outside the fields are ignored. Raises LayoutError."""
        bits = whole(bits, "a descriptor's 64 bits", LayoutError)
        if not 0 <= bits < 1 << 64:
            raise LayoutError(f"a descriptor must be an integer of 64 bits; got {briefly(bits)}")
        fields = {field.attribute: field.of(bits) << 4 for field in OFFSETS}
        return cls(**fields, swizzle=SWIZZLES[_SWIZZLE.of(bits)], base_offset=_BASE.of(bits))

    def __int__(self) -> int:
        return self.encode()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.encode(), np.uint64 if dtype is None else dtype)

    # ------------------------------------------------------------------------------------------ tiles

    @classmethod
    def for_tile(
        cls,
        element: Element,
        mn: int,
        k: int,
        *,
        major: Major = "K",
        swizzle: int = 0,
        start: int = 0,
        atoms_along: Major = "MN",
        pitch: int | None = None,
    ) -> Descriptor:
        """The descriptor of a tile of mn by k elements in a canonical layout, starting at byte `start`.

        `atoms_along` is the direction in which neighbouring atoms are contiguous; `pitch` is the distance in bytes from
        one such run to the next, by default without a gap. In a box that TMA wrote, the atoms go in the direction that
        is not `major`: along "MN" for K-major, along "K" for MN-major. A swizzled tile that does not start on its
        pattern's boundary gets a base offset.

        Raises LayoutError if no descriptor can express the tile: a start that is not a multiple of 16 (with a swizzle,
        of 128), a pitch that is too small, an offset of 256 KiB or more.
        """
        return _remembered(_tile, element, mn, k, major, swizzle, start, atoms_along, pitch)

    @classmethod
    def _for_tile(
        cls,
        element: Element,
        mn: int,
        k: int,
        major: Major,
        swizzle: int,
        start: int,
        atoms_along: Major,
        pitch: int | None,
    ) -> Descriptor:
        layout = Canonical(element_bits(element), major, swizzle)
        if not isinstance(atoms_along, str) or atoms_along not in ("MN", "K"):
            got = briefly(atoms_along)
            raise LayoutError(
                f"atoms_along must be 'MN' or 'K', the direction in which atoms are contiguous; got {got}"
            )
        if not (is_whole(mn) and is_whole(k)) or mn < 1 or k < 1:
            raise LayoutError(f"a tile must have at least one row and one column; got mn {briefly(mn)}, k {briefly(k)}")
        mn, k = int(mn), int(k)
        _check_start(start, layout)
        counts = dict(zip(("MN", "K"), layout.atoms(mn, k), strict=True))
        packed = counts[atoms_along] * layout.atom_bytes
        if pitch is None:
            pitch = packed
        elif not is_whole(pitch) or pitch < packed or pitch % 16:
            raise LayoutError(
                f"pitch {briefly(pitch)}: {counts[atoms_along]} atoms of {layout.atom_bytes} bytes are contiguous "
                f"along {atoms_along}, so the pitch must be a multiple of 16 that is at least {packed}"
            )
        strides = {"MN": pitch, "K": pitch} | {atoms_along: layout.atom_bytes}
        along_mn, along_k = layout.steps
        fields = {along_mn: strides["MN"], along_k: strides["K"]}
        if major == "K" and swizzle and counts["K"] == 1:
            fields[along_k] = 16  # not used; the manual puts 1 into the field
        base = start >> 7 & 7 if swizzle and start % layout.atom_bytes else 0
        return cls(start, **fields, swizzle=swizzle, base_offset=base)

    def layout(self, element: Element, major: Major = "K") -> Canonical:
        """The canonical layout that the descriptor describes for elements of `element`."""
        return Canonical(element_bits(element), major, self.swizzle)

    def address(self, mn: int, k: int, element: Element, major: Major = "K") -> int:
        """The byte address of element (mn, k), or of its byte if several elements share one. Raises LayoutError."""
        layout = self.layout(element, major)
        if not (is_whole(mn) and is_whole(k)) or mn < 0 or k < 0:
            raise LayoutError(f"mn and k must be whole numbers of at least 0; got mn {briefly(mn)}, k {briefly(k)}")
        if max(mn, k) >> 31:
            raise LayoutError(f"mn and k must be less than {1 << 31:,}; got mn {briefly(mn)}, k {briefly(k)}")
        return int(tile_addresses(self, layout, np.array([mn], np.int64), np.array([k], np.int64)).item())

    def step(self, by: int) -> Descriptor:
        """The descriptor `by` bytes further on: only the start address changes; the base offset stays.

        This is how a loop steps a swizzled K-major tile along k, 32 bytes for each instruction: the swizzle depends on
        the address, so its pattern does not move. Raises LayoutError unless `by` is a multiple of 16 and the start
        stays below 256 KiB.
        """
        known = self._steps.get(by) if type(by) is int else None
        if known is not None:
            return known
        if not is_whole(by) or by % 16:
            raise LayoutError(f"a step must be a multiple of 16 bytes, like the start address; got {briefly(by)}")
        made = replace(self, start=self.start + by)
        if type(by) is int and len(self._steps) < _STEPS:
            self._steps[by] = made
        return made

    @cached_property
    def _steps(self) -> dict[int, Descriptor]:
        """The descriptors that `step` has made: a pipeline takes the same steps again and again."""
        return {}

    def advance(self, element: Element, mn: int = 0, k: int = 0, major: Major = "K") -> Descriptor:
        """The descriptor whose element (0, 0) is this tile's (mn, k), for a loop over K.

        It is valid up to the end of the line that holds (mn, k), and beyond it if (mn, k) is the line's first element.
        Raises LayoutError if the tile cannot be cut there: across lines it can be cut after every 8, along a line after
        every 16 bytes.
        """
        return _remembered(_advanced, self, element, mn, k, major)

    def _advance(self, element: Element, mn: int, k: int, major: Major) -> Descriptor:
        layout = self.layout(element, major)
        lines, along = (mn, k) if major == "K" else (k, mn)
        if not (is_whole(mn) and is_whole(k)) or mn < 0 or k < 0 or lines % 8 or along * layout.bits % 128:
            names = ("mn", "k") if major == "K" else ("k", "mn")
            raise LayoutError(
                f"a {major}-major tile can be cut where {names[0]} is a multiple of 8 and {names[1]} a multiple of "
                f"{128 // layout.bits} (16 bytes); got mn {briefly(mn)}, k {briefly(k)}"
            )
        # the first element's place without the swizzle, which then acts on the sum
        return self.step(int(_unswizzled(replace(self, start=0), layout, mn, k)))

    # ------------------------------------------------------------------------------------------ in words

    def explain(self, element: Element, major: Major = "K") -> str:
        """The fields in hexadecimal and in bytes, and the address of (mn, k) with the numbers filled in."""
        layout, bits = self.layout(element, major), self.encode()
        name = element if isinstance(element, str) else element if isinstance(element, int) else element.name
        elements = f"elements of {name} bits" if isinstance(name, int) else name
        lines = [f"descriptor {bits:#018x}"]
        for field in FIELDS:
            where = f"bits {field.low + field.bits - 1}:{field.low}"
            unused = field is _LBO and major == "K" and self.swizzle
            note = f", not used below k = {layout.per_line}" if unused else ""
            lines.append(f"  {where:<11} {field.name:<14}{field.of(bits):#06x}  {self._meaning(field)}{note}")
        lines += [f"{layout}, {elements}: element (mn, k) is at", f"  {self.formula(element, major)}"]
        if self.swizzle:
            high = {32: (4, 7), 64: (5, 8), 128: (6, 9)}[self.swizzle]
            base = f" minus the base offset {self.base_offset}" if self.base_offset else ""
            names = [f"{top}:{low}" if top > low else f"{low}" for top, low in zip(high, (4, 7), strict=True)]
            bit = "bits" if self.swizzle > 32 else "bit"
            verb = "are" if self.swizzle > 32 else "is"
            lines.append(f"  and then {bit} {names[0]} of the address {verb} XORed with {bit} {names[1]}{base}")
        return "\n".join(lines)

    def formula(self, element: Element, major: Major = "K") -> str:
        """The address of (mn, k) before the swizzle, as a sum with this descriptor's numbers."""
        layout = self.layout(element, major)
        by_mn, by_k = (getattr(self, field) for field in layout.steps)
        (rows, columns), line = layout.atom, layout.line
        if layout.major == "K":
            byte = f"(k mod {columns}) * {layout.size}" if layout.bits >= 8 else f"(k mod {columns}) div 8"
            inside = f"(mn mod {rows}) * {line}", byte
        else:
            inside = f"(mn mod {rows}) * {layout.size}", f"(k mod {columns}) * {line}"
        mn, k = f"(mn div {rows}) * {by_mn}", f"(k div {columns}) * {by_k}"
        return f"{self.start} + {inside[0]} + {mn} + {inside[1]} + {k}"

    def _meaning(self, field: Field) -> str:
        value = getattr(self, field.attribute)
        if field is _BASE:
            return f"{value}"
        return f"{value} bytes" if value or field is not _SWIZZLE else "none"

    def __str__(self) -> str:
        swizzle = f"{self.swizzle}-byte swizzle" if self.swizzle else "no swizzle"
        base = f", base offset {self.base_offset}" if self.base_offset else ""
        return f"start {self.start}, LBO {self.lbo}, SBO {self.sbo}, {swizzle}{base} ({self.encode():#018x})"


# A kernel asks for the same tiles again and again, and so does each of its warps. The types of the arguments count,
# so that True is not taken for 1.


@lru_cache(maxsize=4096, typed=True)
def _tile(*arguments: Any) -> Descriptor:
    return Descriptor._for_tile(*arguments)  # noqa: SLF001 - its other half


@lru_cache(maxsize=4096, typed=True)
def _advanced(descriptor: Descriptor, *arguments: Any) -> Descriptor:
    return descriptor._advance(*arguments)  # noqa: SLF001 - its other half


def _remembered(make: Any, *arguments: Any) -> Descriptor:
    """make(*given), from its cache where the arguments can be looked up."""
    try:
        hash(arguments)
    except TypeError:
        make = make.__wrapped__
    return make(*arguments)  # type: ignore[no-any-return]


def as_bits(descriptor: object) -> int:
    """The 64 bits of a Descriptor, or an integer of 64 bits as it is. Raises LayoutError for anything else."""
    if isinstance(descriptor, Descriptor):
        return descriptor.encode()
    if is_whole(descriptor) and 0 <= int(descriptor) < 1 << 64:
        return int(descriptor)
    raise LayoutError(f"a descriptor must be a Descriptor or its 64 bits as an integer; got {briefly(descriptor)}")


def _check_start(start: object, layout: Canonical) -> None:
    align = 128 if layout.swizzle else 16
    if not is_whole(start) or start % align:
        why = (
            f"with a {layout.swizzle}-byte swizzle it starts at a multiple of {layout.atom_bytes}, or of 128 with a "
            "base offset"
            if layout.swizzle
            else "a descriptor drops the low 4 bits of an address, so a tile starts at a multiple of 16"
        )
        raise LayoutError(f"a tile cannot start at {briefly(start)}: {why} (PTX ISA 9.7.15.5.1.2)")


# ---------------------------------------------------------------------------------------------- addresses


def addresses(descriptors: Array, mn: Array, k: Array, size: int, mn_major: bool) -> Array:
    """Byte addresses (..., mn, k) of elements of `size` bytes, for descriptors (...) of uint64."""
    fields = descriptors[..., None, None]
    start, lbo, sbo = (
        (fields >> np.uint64(f.low) & np.uint64((1 << f.bits) - 1)).astype(np.int64) << 4 for f in OFFSETS
    )
    mode = (fields >> np.uint64(62)).astype(np.int64)
    base = (fields >> np.uint64(49) & np.uint64(7)).astype(np.int64)
    width = np.array(SWIZZLES)[mode]
    line = np.maximum(width, 16)
    row, column = mn[:, None], k[None, :]
    if mn_major:
        span = line // size
        # with a swizzle, LBO and SBO change places
        across, down = np.where(mode == 0, sbo, lbo), np.where(mode == 0, lbo, sbo)
        offsets = row % span * size + row // span * across + column % 8 * line + column // 8 * down
    else:
        byte = column * size
        offsets = row % 8 * line + row // 8 * sbo + byte % line + byte // line * lbo
    # the swizzle depends on the address; the base offset gives the line of the pattern at the tile's first address
    return swizzled(offsets + start, width, base)


def tile_addresses(descriptor: Descriptor, layout: Canonical, mn: Array, k: Array) -> Array:
    """Byte addresses (mn, k) of the elements of one tile, or of their bytes if several elements share one."""
    byte = k if layout.bits >= 8 else k * layout.bits // 8
    return addresses(np.asarray(descriptor), mn, byte, layout.size, layout.major == "MN")


def _unswizzled(descriptor: Descriptor, layout: Canonical, mn: int, k: int) -> int:
    along_mn, along_k = (getattr(descriptor, field) for field in layout.steps)
    (rows, columns), line = layout.atom, layout.line
    far = mn // rows * along_mn + k // columns * along_k
    lines, along = (mn, k) if layout.major == "K" else (k, mn)
    return int(far + lines % 8 * line + along % layout.per_line * layout.bits // 8)

"""The instruction descriptor of tcgen05.mma: 32 bits with shape, types and signs (PTX ISA 9.1, 9.7.16.4.2).

    bits      kinds without scales                        kinds with scales
    1:0       sparsity selector                           the same
    2         sparse                                      the same
    3         saturate (i8)                               0
    5:4       D: f16 0, f32 1, s32 2                      SFB ID
    9:7       type of A                                   the same
    12:10     type of B                                   the same; mxf4 kinds: 11:10, and 12 is 0
    13, 14    negate A, B                                 the same
    15, 16    A, B MN-major                               the same
    22:17     N / 8                                       the same
    23        0                                           scales: ue4m3 0, ue8m0 1
    28:24     M / 16                                      28:27 M / 128
    30:29     .ws: 31:30 shift of B's zero columns        SFA ID
    31                                                    K is 96 (sm_103a)

Fields and codes are the manual's; CuTe's descriptors have the same. Neither was compared with a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from tcemu.arguments import explained
from tcemu.errors import LayoutError, did_you_mean, listing, whole

SECTION = "9.7.16.4.2"
_SHAPES = "9.7.16.2.1"
#: Codes of the formats of the 8-bit kinds.
_EIGHT = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
_EVERY_8, _EVERY_16, _EVERY_32 = (tuple(range(step, 257, step)) for step in (8, 16, 32))
#: Products with M of each number of blocks.
_UNSCALED_M = {1: (64, 128), 2: (128, 256)}


@dataclass(frozen=True)
class Kind:
    """What a .kind multiplies: codes of A's and B's types and of D's, K of a dense product, and N by cta_group."""

    name: str
    types: Mapping[str, int]
    d: Mapping[str, int]
    k: int
    n: Mapping[int, tuple[int, ...]]
    m: Mapping[int, tuple[int, ...]]
    #: Formats of the scales by the number of elements that share one; the first is the default.
    scales: Mapping[int, tuple[str, ...]]
    negates: bool = True
    #: Whether A and B may be MN-major.
    turns: bool = True
    #: Bits of an element in shared memory, if that is less than a byte.
    packed: int = 0

    @property
    def scaled(self) -> bool:
        """Whether blocks of A and B have scales."""
        return bool(self.scales)


def _kind(name: str, types: Mapping[str, int], d: str, k: int, **more: Any) -> Kind:
    codes = {"f16": 0, "f32": 1, "s32": 2}
    fields = {"n": {1: _EVERY_8, 2: _EVERY_16}, "m": _UNSCALED_M, "scales": {}, **more}
    return Kind(name, types, {each: codes[each] for each in d.split()}, k, **fields)


_SCALED_M = {1: (128,), 2: (128, 256)}
_INTEGER_N = {1: (8, 16, 24, 32, *range(48, 257, 16)), 2: _EVERY_32}
#: THE TABLE of kinds.
KINDS = {
    kind.name: kind
    for kind in (
        _kind("f16", {"f16": 0, "bf16": 1}, "f32 f16", 16),
        _kind("tf32", {"tf32": 2}, "f32", 8),
        _kind("f8f6f4", _EIGHT, "f32 f16", 32),
        _kind("i8", {"u8": 0, "s8": 1}, "s32", 32, n=_INTEGER_N, negates=False),
        _kind("mxf8f6f4", _EIGHT, "f32", 32, m=_SCALED_M, scales={32: ("ue8m0",)}),
        _kind("mxf4", {"e2m1": 1}, "f32", 64, m=_SCALED_M, scales={32: ("ue8m0",)}, turns=False, packed=4),
        _kind("mxf4nvf4", {"e2m1": 1}, "f32", 64, m=_SCALED_M, scales={16: ("ue4m3", "ue8m0"), 32: ("ue8m0",)},
              turns=False, packed=4),
    )
}  # fmt: skip
#: Shapes of .ws, with N of a dense A and of a sparse one.
WS_M, WS_N, WS_SPARSE_N = (32, 64, 128), (64, 128, 256), (64, 128)


class Bits(NamedTuple):
    """A field: its lowest bit and how many it has."""

    low: int
    width: int

    def of(self, bits: int) -> int:
        """The field's value."""
        return bits >> self.low & (1 << self.width) - 1


_ALL = {
    "selector": Bits(0, 2), "sparse": Bits(2, 1), "a": Bits(7, 3), "b": Bits(10, 3), "negate_a": Bits(13, 1),
    "negate_b": Bits(14, 1), "transpose_a": Bits(15, 1), "transpose_b": Bits(16, 1), "n": Bits(17, 6),
}  # fmt: skip
#: The fields of kinds without scales, of .ws, and of kinds with scales.
UNSCALED = {**_ALL, "saturate": Bits(3, 1), "d": Bits(4, 2), "m": Bits(24, 5)}
WS = {**UNSCALED, "shift": Bits(30, 2)}
SCALED = {
    **_ALL, "sfb_id": Bits(4, 2), "scale_type": Bits(23, 1), "m": Bits(27, 2), "sfa_id": Bits(29, 2), "k96": Bits(31, 1)
}  # fmt: skip
_SCALE_TYPES = ("ue4m3", "ue8m0")


@dataclass(frozen=True)
class InstructionDescriptor:
    """An instruction descriptor as fields; `decode` makes one of 32 bits, and `check` says whether an opcode takes it.

    >>> from tcemu.layouts.instruction_descriptor import InstructionDescriptor
    >>> desc = InstructionDescriptor.decode(0x08400010, "f16")
    >>> desc.m, desc.n, desc.k, desc.d, desc.a, desc.b
    (128, 256, 16, 'f32', 'f16', 'f16')
    >>> f"{desc.encode():#010x}"
    '0x08400010'
    """

    kind: str
    m: int
    n: int
    d: str
    a: str
    b: str
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    sparse: bool = False
    selector: int = 0
    saturate: bool = False
    scale_type: str = ""
    sfa_id: int = 0
    sfb_id: int = 0
    #: Whether K is 96: mxf4 kinds of sm_103a.
    k96: bool = False
    #: Whether the product is .ws, and by how much its mask of zero columns may be shifted (the field's code).
    ws: bool = False
    shift: int = 0

    @property
    def k(self) -> int:
        """K of the product: twice as many for a sparse A."""
        return (96 if self.k96 else KINDS[self.kind].k) * (2 if self.sparse else 1)

    @property
    def shape(self) -> str:
        """The shape as opcodes of other families write it: "m128n256k16"."""
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def _fields(self) -> dict[str, Bits]:
        return SCALED if KINDS[self.kind].scaled else WS if self.ws else UNSCALED

    def encode(self) -> int:
        """The 32 bits."""
        kind = KINDS[self.kind]
        codes = {"a": kind.types[self.a], "b": kind.types[self.b], "d": kind.d[self.d], "n": self.n // 8}
        codes["m"] = self.m // (128 if kind.scaled else 16)
        codes["scale_type"] = self.scale_type == "ue8m0"
        return sum(int(codes.get(name, getattr(self, name))) << where.low for name, where in self._fields.items())

    @staticmethod
    @lru_cache(maxsize=1024)
    def decode(bits: int, kind: str, ws: bool = False) -> InstructionDescriptor:
        """The descriptor that 32 bits are for a kind. Raises LayoutError for a code that the kind does not have."""
        known = kind_named(kind)
        fields = SCALED if known.scaled else WS if ws else UNSCALED
        value = whole(bits, "an instruction descriptor", LayoutError)
        if not 0 <= value < 1 << 32:
            raise LayoutError(f"an instruction descriptor has 32 bits; got {value:#x} (PTX ISA {SECTION})")
        spare = value & ~sum((1 << where.width) - 1 << where.low for where in fields.values())
        if spare:
            places = [str(bit) for bit in range(32) if spare >> bit & 1]
            _refuse(value, known, f"bit {listing(places, 'and')} belongs to no field and must be 0")
        held: dict[str, Any] = {name: where.of(value) for name, where in fields.items()}
        for role, codes in (("a", known.types), ("b", known.types), ("d", known.d)):
            names = {code: name for name, code in codes.items()}
            if known.scaled and role == "d":
                held["d"] = "f32"
            elif held[role] in names:
                held[role] = names[held[role]]
            else:
                accepted = listing([f"{code} ({name})" for name, code in codes.items()])
                _refuse(value, known, f"the type of {role.upper()} is {held[role]}; it must be {accepted}")
        held["m"] *= 128 if known.scaled else 16
        held["n"] *= 8
        if known.scaled:
            held["scale_type"] = _SCALE_TYPES[held["scale_type"]]
        flags = ("transpose_a", "transpose_b", "negate_a", "negate_b", "sparse", "saturate", "k96")
        held |= {name: bool(held[name]) for name in flags if name in held}
        return InstructionDescriptor(kind, **held, ws=ws)

    def check(self, *, cta_group: int = 1, sparse: bool = False, ws: bool = False, block: int = 0) -> None:
        """Raise LayoutError unless an opcode takes it: one with .sp or .ws, and scales for blocks of `block` elements.

        The assembler does not see the descriptor, so it does not check it; the hardware stops the kernel.
        """
        for wrong in (self._wrong_bits(sparse, ws, block), self._wrong_shape(cta_group, ws)):
            if wrong:
                _refuse(self.encode(), KINDS[self.kind], wrong)

    def _wrong_bits(self, sparse: bool, ws: bool, block: int) -> str:
        kind = KINDS[self.kind]
        if self.sparse != sparse:
            has, lacks = ("has", "lacks") if self.sparse else ("lacks", "has")
            return f"it {has} the bit of a sparse A (bit 2), but the opcode {lacks} .sp"
        if self.ws != ws:
            return "it was decoded for another opcode: only one of the two is .ws"
        if self.saturate and self.kind != "i8":
            return "bit 3 saturates integers only"
        if (self.negate_a or self.negate_b) and not kind.negates:
            return "integers cannot be negated (bits 13 and 14)"
        if (self.transpose_a or self.transpose_b) and not kind.turns:
            return "elements of 4 bits that share a byte cannot be MN-major (bits 15 and 16)"
        if self.selector and not self.sparse:
            return f"the sparsity selector (bits 1:0) is {self.selector}, but A is dense"
        return self._wrong_scales(block) if kind.scaled else ""

    def _wrong_scales(self, block: int) -> str:
        kind = KINDS[self.kind]
        if self.k96 and not kind.packed:
            return "K is 96 (bit 31) for kinds of 4 bits that share a byte only"
        accepted = kind.scales[block]
        if self.scale_type not in accepted:
            return f"scales for {block} elements are {listing(accepted)}; bit 23 says {self.scale_type}"
        per_row = kind.k // block
        ids = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}[per_row]
        for role, chosen in (("SFA", self.sfa_id), ("SFB", self.sfb_id)):
            if chosen not in ids and not self.k96:
                each = "scale" if per_row == 1 else f"{per_row} scales"
                return f"the {role} ID is {chosen}; where a row has {each}, it must be {listing(ids)}"
        return ""

    def _wrong_shape(self, cta_group: int, ws: bool) -> str:
        kind = KINDS[self.kind]
        sizes = WS_M if ws else kind.m[cta_group]
        if kind.scaled and self.sparse and cta_group == 2:
            sizes = sizes[1:]
        columns = (WS_SPARSE_N if self.sparse else WS_N) if ws else kind.n[cta_group]
        if self.transpose_b and self.kind == "f8f6f4" and not ws:  # elements of 8 bits, MN-major
            columns = {1: _EVERY_16, 2: _EVERY_32}[cta_group]
        how = ".ws" if ws else f".cta_group::{cta_group}"
        if self.m not in sizes:
            return f"M is {self.m}; with {how} it must be {listing(sizes)} (PTX ISA {_SHAPES})"
        if self.n not in columns:
            steps = listing(columns) if len(columns) <= 4 else f"one of {columns[0]}, {columns[1]}, ... {columns[-1]}"
            return f"N is {self.n}; with {how} it must be {steps} (PTX ISA {_SHAPES})"
        return ""


def kind_named(name: str) -> Kind:
    """The kind called "f16" or "kind::f16". Raises LayoutError, which lists the kinds."""
    short = name.removeprefix("kind::") if isinstance(name, str) else name
    if short in KINDS:
        return KINDS[short]
    raise LayoutError(f"the kind must be {listing(KINDS)}; got {name!r}.{did_you_mean(str(name), KINDS)}")


def _refuse(bits: int, kind: Kind, what: str) -> None:
    message = what if "PTX ISA" in what else f"{what} (PTX ISA {SECTION})"
    raise LayoutError(f"instruction descriptor {bits:#010x} of kind::{kind.name}: {message}")


@explained
def instruction_descriptor(
    m: int,
    n: int,
    *,
    kind: str = "f16",
    d: str = "",
    a: str = "",
    b: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
    negate_a: bool = False,
    negate_b: bool = False,
    sparse: bool = False,
    selector: int = 0,
    saturate: bool = False,
    scale_type: Literal["", "ue8m0", "ue4m3"] = "",
    sfa_id: int = 0,
    sfb_id: int = 0,
    k96: bool = False,
) -> int:
    """The 32 bits that hold tcgen05.mma's shape and types.

    Types default to the first of the kind: f32 and f16 for kind::f16. Raises LayoutError for a type that the kind does
    not have, or for an m or n that the fields cannot hold. Which shapes an instruction accepts is another question
    (9.7.16.2.1).

    >>> from tcemu.layouts import instruction_descriptor
    >>> f"{instruction_descriptor(128, 256):#010x}"
    '0x08400010'
    >>> f"{instruction_descriptor(128, 64, kind='f8f6f4', a='e4m3', b='e5m2', negate_a=True):#010x}"
    '0x08102410'
    """
    known = kind_named(kind)
    first = a or next(iter(known.types))
    named: dict[str, Any] = {"d": d or next(iter(known.d)), "a": first, "b": b or first}
    for role, type_ in named.items():
        accepted = known.d if role == "d" else known.types
        if type_ not in accepted:
            raise LayoutError(f"{role} of kind::{known.name} must be {listing(accepted)}; got {type_!r}")
    rows, columns = whole(m, "m", LayoutError), whole(n, "n", LayoutError)
    by = 128 if known.scaled else 16
    for name, size, step, most in (("m", rows, by, 3 if known.scaled else 31), ("n", columns, 8, 63)):
        if size % step or not 0 < size // step <= most:
            raise LayoutError(f"{name} must be a multiple of {step} up to {step * most}; got {size}")
    for name, value, most in (("selector", selector, 3), ("sfa_id", sfa_id, 3), ("sfb_id", sfb_id, 3)):
        if not 0 <= whole(value, name, LayoutError) <= most:
            raise LayoutError(f"{name} must be 0 to {most}; got {value}")
    if known.scaled:
        scale_type = scale_type or known.scales[min(known.scales)][0]  # type: ignore[assignment]
    return InstructionDescriptor(
        known.name, rows, columns, **named, transpose_a=transpose_a, transpose_b=transpose_b, negate_a=negate_a,
        negate_b=negate_b, sparse=sparse, selector=selector, saturate=saturate, scale_type=scale_type, sfa_id=sfa_id,
        sfb_id=sfb_id, k96=k96,
    ).encode()  # fmt: skip

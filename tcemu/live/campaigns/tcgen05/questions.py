"""THE TABLE of questions about tcgen05: what nobody has published, and what is known from a publication only.

A question is one instruction on given shared and Tensor Memory; its answer is all of Tensor Memory afterwards. So it
needs no idea of where the hardware puts anything. What both memories hold follows from the question's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcemu.errors import TcemuError
from tcemu.formats import lookup
from tcemu.instructions.parse import parse
from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.layouts.instruction_descriptor import KINDS, InstructionDescriptor
from tcemu.layouts.tcgen05_tiles import Tile
from tcemu.layouts.zero_column_mask import ZeroColumnMask
from tcemu.vectors.patterns import CLASSES, elements, random_words

Array = npt.NDArray[Any]

#: Bytes of shared memory, with A at 0 and B at its middle; lanes and columns of Tensor Memory.
SHARED, LANES, COLUMNS = 16384, 128, 128
_B = SHARED // 2
#: Columns of scale factors of A and of B, and of metadata; D begins at 0.
_SFA, _SFB, _META = 72, 80, 88
#: Legal halves of metadata bytes: the positions of two elements of four; of tf32, of one of two.
_METADATA = {"tf32": (0x4, 0xE), "": (0x4, 0x8, 0x9, 0xC, 0xD, 0xE)}
_BITS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}

#: An operand in PTX: an address in Tensor Memory as columns after the first; a descriptor whose start counts from the
#: first byte; a register of 32 or 64 bits; a predicate; a number in the text; or registers of a mask.
Kind = Literal["tensor", "shared", "b32", "b64", "pred", "immediate", "mask"]


@dataclass(frozen=True)
class Question:
    """One instruction with its operands. Of several `classes` of inputs, `kind` says which."""

    name: str
    opcode: str
    operands: tuple[tuple[Kind, Any], ...]
    #: the instruction descriptor of a product, with its types, and the class of its inputs
    idesc: InstructionDescriptor | None = None
    kind: str = "near"
    #: who executes it: one thread, all warps, or nobody
    by: Literal["thread", "warps", "nobody"] = "thread"

    @property
    def group(self) -> int:
        """Blocks that take part."""
        return 2 if "cta_group::2" in self.opcode else 1

    @cached_property
    def shared(self) -> Array:
        """Shared memory of each block, uint8 (blocks, SHARED)."""
        images = np.stack([_bytes(f"{self.name} shared {rank}", SHARED) for rank in range(self.group)])
        for rank, image in enumerate(images if self.idesc else ()):
            self._tiles(image, rank)
        return images

    def _tiles(self, image: Array, rank: int) -> None:
        """A and B, with patterns of their class."""
        shape = self.idesc
        if shape is None:
            return
        for name, form, rows, depth, start in (
            ("a", shape.a, shape.m // self.group, shape.k // (2 if shape.sparse else 1), 0),
            ("b", shape.b, shape.n // self.group, shape.k, _B),
        ):
            drawn = elements(lookup(form), self.kind, f"{self.name} {name} {rank}", rows * depth)
            _place(image, start, drawn.reshape(rows, depth), form, bool(KINDS[shape.kind].packed))

    @cached_property
    def tensor(self) -> Array:
        """Tensor Memory of each block, uint32 (blocks, LANES, COLUMNS)."""
        shape = (self.group, LANES, COLUMNS)
        words = random_words(f"{self.name} tensor", int(np.prod(shape))).astype(np.uint32).reshape(shape)
        desc = self.idesc
        if desc is None:
            return words
        drawn = elements(lookup(desc.d), self.kind, f"{self.name} d", words.size, accumulator=True)
        words[..., :_SFA] = drawn.astype(np.uint32).reshape(shape)[..., :_SFA]
        if KINDS[desc.kind].scaled:
            few = {"ue8m0": (120, 15), "ue4m3": (40, 32)}[desc.scale_type]
            scales = few[0] + _bytes(f"{self.name} scales", words.size * 4) % few[1]
            words[..., _SFA:_META] = scales.view(np.uint32).reshape(shape)[..., _SFA:_META]
        if desc.sparse:
            legal = np.array(_METADATA.get(desc.kind, _METADATA[""]), np.uint8)
            halves = legal[_bytes(f"{self.name} places", words.size * 8) % len(legal)]
            packed = (halves[0::2] | halves[1::2] << 4).astype(np.uint8).view(np.uint32)
            words[..., _META:] = packed.reshape(shape)[..., _META:]
        return words


def questions(target: str) -> list[Question]:
    """Those that a target has the instructions for."""
    return [each for each in _all() if _known(each.opcode or "tcgen05.wait::ld.sync.aligned", target)]


def _known(opcode: str, target: str) -> bool:
    try:
        return parse(opcode, target) is not None
    except TcemuError:
        return False


def _all() -> Iterator[Question]:
    yield Question("what columns hold after tcgen05.alloc", "", (), by="nobody")
    yield from _dense()
    yield from _unknown()
    yield from _sparse()
    yield from _without_products()


def tile(start: int, rows: int, bytes_: int = 16) -> int:
    """The descriptor of a K-major tile without a swizzle: one column of 16 bytes after the other."""
    return tcgen05_descriptor(Descriptor(start, lbo=max(bytes_ * rows, 16), sbo=128, swizzle=0))


def product(
    name: str, words: str, shape: InstructionDescriptor, kind: str = "near", *, tail: Any = (), **at: int
) -> Question:
    """The question of one tcgen05.mma, with the operands that its words need; `tail` comes last."""
    group = 2 if "cta_group::2" in words else 1
    operands: list[tuple[Kind, Any]] = [
        ("tensor", at.get("d", 0)), ("shared", tile(0, shape.m // group)), ("shared", tile(_B, shape.n // group))
    ]  # fmt: skip
    if shape.sparse:
        operands.append(("tensor", _META))
    operands.append(("b32", shape.encode() if not at.get("idesc") else at["idesc"]))
    if KINDS[shape.kind].scaled:
        operands += [("tensor", _SFA), ("tensor", _SFB)]
    operands += [("pred", at.get("adds", 1)), *tail]
    types = " ".join(filter(None, [shape.a, shape.b, shape.d, shape.scale_type]))
    return Question(
        f"{name}: {words} {shape.shape} {types} {kind}", f"tcgen05.mma{words}", tuple(operands), shape, kind
    )


def _shape(kind: str, m: int = 128, n: int = 64, **more: Any) -> InstructionDescriptor:
    ws, shift = more.pop("ws", False), more.pop("shift", 0)  # of .ws, how far B may be shifted
    bits = instruction_descriptor(m, n, kind=kind, **more) | shift << 30
    return InstructionDescriptor.decode(bits, kind, ws)


def _pairs(kind: str) -> Iterator[tuple[str, str, str]]:
    """Types of A, B and D that a kind multiplies."""
    facts = KINDS[kind]
    same = kind in ("f16", "tf32", "i8")
    for a in facts.types:
        for b in facts.types if not (same and kind != "i8") else (a,):
            yield from ((a, b, d) for d in facts.d if not (d == "f16" and a == "bf16"))


#: Kinds with scales: the opcode's words, and the types of scales.
_SCALED = {
    "mxf8f6f4": [(".block_scale.block32", "ue8m0")],
    "mxf4": [(".block_scale.block32", "ue8m0")],
    "mxf4nvf4": [
        (".block_scale.block16", "ue4m3"), (".block_scale.block16", "ue8m0"), (".block_scale.block32", "ue8m0"),
    ],
}  # fmt: skip


def _dense() -> Iterator[Question]:
    """What MMA-Sim has a model for, on every class of inputs; pairs of blocks and .ws, which it has none for."""
    for kind in KINDS:
        for a, b, d in _pairs(kind):
            for scaling, scale in _SCALED.get(kind, [("", "")]):
                more: dict[str, Any] = {"scale_type": scale} if scale else {}
                shape = _shape(kind, d="" if scale else d, a=a, b=b, **more)
                few = ("bits",) if kind == "i8" else CLASSES if a == b else ("near", "specials")
                for inputs in few:
                    yield product("dense", f".cta_group::1.kind::{kind}{scaling}", shape, inputs)
                if a == b:
                    for m in (128, 256):
                        of_two = _shape(kind, m, d="" if scale else d, a=a, b=b, **more)
                        yield product("pair", f".cta_group::2.kind::{kind}{scaling}", of_two, few[0])
                if a == b and not scale:
                    for m in (32, 64, 128):
                        stationary = _shape(kind, m, d=d, a=a, b=b, ws=True)
                        yield product("ws", f".ws.cta_group::1.kind::{kind}", stationary, few[0])
    yield product("D of 64 rows", ".cta_group::1.kind::f16", _shape("f16", 64))


def _unknown() -> Iterator[Question]:
    """What the machine refuses by name."""
    for kind, a in (("f16", "f16"), ("tf32", "tf32")):
        for power in (1, 2, 7, 15):
            for inputs in ("near", "tiny", "floor"):
                words, scale = f".cta_group::1.kind::{kind}", [("immediate", power)]
                yield product(f"scale-input-d {power}", words, _shape(kind, a=a, b=a), inputs, tail=scale)
    for flags in ({"negate_a": True}, {"negate_b": True}):
        yield product(
            f"sign of NaN with {next(iter(flags))}", ".cta_group::1.kind::f16", _shape("f16", **flags), "specials"
        )
    for mask in (
        ZeroColumnMask(3, 4, (1, 1, 0, 0), (0, 1, 2, 1)),
        ZeroColumnMask(3, 4, (1, 1, 0, 0), (0, 1, 2, 1), shift=2),
        ZeroColumnMask(3, 4, (0, 0, 0, 0), (4, 7, 9, 255)),
    ):
        words, tail = ".ws.cta_group::1.kind::f16", [("b64", mask.encode())]
        yield product(f"zero-column mask {mask.encode():#018x}", words, _shape("f16", 32, ws=True, shift=1), tail=tail)
    moved = product("rows of .ashift", ".cta_group::1.kind::f16.ashift", _shape("f16"))
    yield replace(moved, operands=(moved.operands[0], ("tensor", _SFA), *moved.operands[2:]))
    for column in (1, 2, 3):
        yield product(f"D begins at column {column}", ".cta_group::1.kind::f16", _shape("f16"), d=column)
    yield product("M of 0", ".cta_group::1.kind::f16", _shape("f16"), idesc=_shape("f16").encode() & ~(31 << 24))


def _sparse() -> Iterator[Question]:
    """Sparse products: of every kind, with each selector, of 64 rows, and of a pair, whose layout C is a figure."""
    for kind in KINDS:
        a = next(iter(KINDS[kind].types))
        for scaling, scale in _SCALED.get(kind, [("", "")])[:1]:
            for group, m in ((1, 128), (1, 64), (2, 128), (2, 256)):
                if scale and (group, m) in ((1, 64), (2, 128)):
                    continue
                for selector in range(4 if kind in ("f16", "tf32") else 1):
                    more: dict[str, Any] = {"scale_type": scale} if scale else {}
                    shape = _shape(kind, m, 64, a=a, b=a, sparse=True, selector=selector, **more)
                    inputs = "bits" if kind == "i8" else "near"
                    yield product(f"sparse {selector}", f".sp.cta_group::{group}.kind::{kind}{scaling}", shape, inputs)


#: Shapes of tcgen05.cp, and the rows of each.
_COPIES = {
    "128x256b": 128, "4x256b": 4, "128x128b": 128, "64x128b.warpx2::02_13": 64, "64x128b.warpx2::01_23": 64,
    "32x128b.warpx4": 32,
}  # fmt: skip


def _without_products() -> Iterator[Question]:
    """Copies, with decompression, shifts and reductions."""
    for shape, rows in _COPIES.items():
        for formats in ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64"):
            for group in (1, 2):
                opcode = f"tcgen05.cp.cta_group::{group}.{shape}{formats}"
                yield Question(f"copy: {opcode}", opcode, (("tensor", 0), ("shared", tile(0, rows))))
    for lane in range(0, LANES, 32):
        opcode = "tcgen05.shift.cta_group::1.down"
        yield Question(f"shift from lane {lane}", opcode, (("tensor", lane << 16),))
    for shape in ("32x32b", "16x32bx2"):
        for reduction in ("min", "max", "min.NaN", "max.NaN", "min.abs", "max.abs.NaN"):
            opcode = f"tcgen05.ld.red.sync.aligned.{shape}.x8.{reduction}.f32"
            split: tuple[tuple[Kind, Any], ...] = (("immediate", 8),) if "x2" in shape[4:] else ()
            yield Question(f"reduce: {opcode}", opcode, split, by="warps")


# ---------------------------------------------------------------------------------------------------- memory


def _bytes(key: str, count: int) -> Array:
    return random_words(key, -(-count // 8)).view(np.uint8)[:count].copy()


def _place(image: Array, start: int, patterns: Array, form: str, packed: bool) -> None:
    """Write a tile: elements of fewer than 8 bits share a byte if `packed`, and else 16 of them have 16 bytes."""
    rows, depth = patterns.shape
    bits = _BITS.get(form, lookup(form).container)
    where = Tile.decode(tile(start, rows)).addresses(rows, depth, 4 if packed else max(bits, 8))
    if packed:
        image[np.unique(where)] = 0
        np.bitwise_or.at(image, where, (patterns << (np.arange(depth) % 2 * 4).astype(np.uint64)).astype(np.uint8))
    elif bits < 8:
        ones = np.unpackbits(patterns.astype(np.uint8)[..., None], axis=2, bitorder="little")[..., :bits]
        lines = np.zeros((rows, depth // 16, 128), np.uint8)
        lines[..., : 16 * bits] = ones.reshape(rows, depth // 16, 16 * bits)
        image[where] = np.packbits(lines, axis=2, bitorder="little").reshape(rows, depth)
    else:
        size = bits // 8
        data = patterns.astype(lookup(form).storage).reshape(-1, 1).view(np.uint8).reshape(rows, depth, size)
        image[where[..., None] + np.arange(size, dtype=np.int64)] = data

"""THE TABLE of what kernels do: instructions by the types of A and B, walks along k, splits of k.

Every recipe that the search tries is a combination of these rows; it finds nothing else.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tcemu.formats import lookup
from tcemu.recipes.engines import engine
from tcemu.recipes.recipe import DOWN, HALVES, Recipe, Residue
from tcemu.recipes.reductions import BUTTERFLY, WARP

#: Fields of a recipe that are replaced together.
Way: TypeAlias = dict[str, Any]

_MMA = "mma.sync.aligned.{}.row.col.{}"
_TF32 = _MMA.format("m16n8k8", "f32.tf32.tf32.f32")
_HALVES = "t8h2p2>htp"  # k of a register's low halves first, as fp8 is converted to f16 without moving it


@dataclass(frozen=True)
class Base:
    """The instruction that multiplies matrices of types `a` and `b`: the start of a recipe."""

    a: str
    b: str
    recipe: Recipe
    #: Types of D that it is tried for; "" for all.
    d: str = ""
    #: k of a block whose scales the instruction takes; 0 for an instruction without scales.
    block: int = 0


def _base(types: str, opcode: str, targets: str, d: str = "", **more: object) -> Iterator[Base]:
    """Rows for pairs of types such as "e4m3.e5m2", on each of the targets."""
    for pair in types.split():
        a, b = pair.split(".")
        for target in targets.split():
            yield Base(a, b, Recipe(opcode, target, **more), d)  # type: ignore[arg-type]


def _microscaled(types: str, shape: str, kind: str, scale: str, block: int) -> Iterator[Base]:
    """Rows for pairs of these types with scales for blocks of k."""
    for a in types.split():
        for b in types.split():
            form = f"{shape}.row.col.kind::{kind}.f32.{a}.{b}.f32.{scale}"
            yield Base(a, b, Recipe(f"mma.sync.aligned.{form}", "sm_120a"), block=block)


_FP8 = "e4m3.e4m3 e4m3.e5m2 e5m2.e4m3 e5m2.e5m2"

#: Instructions, the likely ones first. Of several that give the same bits, one stands for all.
BASES: tuple[Base, ...] = (
    *_base("f16.f16", _MMA.format("m16n8k16", "f32.f16.f16.f32"), "sm_90a sm_80"),
    *_base("f16.f16", _MMA.format("m16n8k8", "f32.f16.f16.f32"), "sm_90a sm_75"),
    *_base("f16.f16", _MMA.format("m8n8k4", "f32.f16.f16.f32"), "sm_70"),
    *_base("f16.f16", _MMA.format("m16n8k16", "f16.f16.f16.f16"), "sm_90a sm_80", d="f16"),
    *_base("bf16.bf16", _MMA.format("m16n8k16", "f32.bf16.bf16.f32"), "sm_90a sm_80"),
    *_base("bf16.bf16", _MMA.format("m16n8k8", "f32.bf16.bf16.f32"), "sm_90a"),
    *(row for inputs in ("rn", "rna", "rz") for row in _base("f32.f32", _TF32, "sm_90a sm_80", inputs=inputs)),
    *_base("f32.f32", "fma.rn.f32", "sm_90a"),
    *_base("f32.f32", _MMA.format("m16n8k4", "f32.tf32.tf32.f32"), "sm_90a", inputs="rn"),
    *_base("f32.f32", _MMA.format("m16n8k4", "f32.tf32.tf32.f32"), "sm_90a", inputs="rna"),
    *_base("f32.f32", _MMA.format("m16n8k16", "f32.bf16.bf16.f32"), "sm_90a sm_80", inputs="bf16"),
    *_base("f32.f32", _MMA.format("m16n8k8", "f32.bf16.bf16.f32"), "sm_90a", inputs="bf16"),
    *(row for types in ("f16.f16", "bf16.bf16") for row in _base(types, "fma.rn.f32", "sm_90a", inputs="f32")),
    *_base("f64.f64", _MMA.format("m16n8k16", "f64.f64.f64.f64"), "sm_90a"),
    *(
        row
        for a, b in (pair.split(".") for pair in _FP8.split())
        for row in (
            *_base(f"{a}.{b}", f"wgmma.mma_async.sync.aligned.m64n8k32.f32.{a}.{b}", "sm_90a"),
            *_base(f"{a}.{b}", _MMA.format("m16n8k16", "f32.f16.f16.f32"), "sm_90a sm_80", inputs="f16"),
            *_base(
                f"{a}.{b}",
                _MMA.format("m16n8k16", "f32.f16.f16.f32"),
                "sm_90a sm_80",
                inputs="f16",
                tile=32,
                order=_HALVES,
            ),
            *_base(f"{a}.{b}", _MMA.format("m16n8k32", f"f32.{a}.{b}.f32"), "sm_90a sm_89 sm_120a"),
        )
    ),
    *_microscaled("e4m3 e5m2 e3m2 e2m3 e2m1", "m16n8k32", "mxf8f6f4.block_scale.scale_vec::1X", "ue8m0", 32),
    *_microscaled("e2m1", "m16n8k64", "mxf4.block_scale.scale_vec::2X", "ue8m0", 32),
    *_microscaled("e2m1", "m16n8k64", "mxf4nvf4.block_scale.scale_vec::4X", "ue4m3", 16),
    *_base("e2m1.e2m1 e3m2.e3m2 e2m3.e2m3", _MMA.format("m16n8k16", "f32.f16.f16.f32"), "sm_90a sm_80", inputs="f16"),
    *(
        row
        for size, shape in (("8", "m16n8k32"), ("4", "m16n8k64"))
        for a in (f"s{size}", f"u{size}")
        for b in (f"s{size}", f"u{size}")
        for row in _base(f"{a}.{b}", _MMA.format(shape, f"s32.{a}.{b}.s32"), "sm_90a")
    ),
)

#: f32 from parts: `inputs`, and the instruction that multiplies the parts. Sums of tiles start again or continue.
_BF16 = ("bf16x3", "bf16x6", "bf16x9")
#: Those that compilers and CUTLASS use, which are tried with splits too.
_COMPILED = (*_BF16, "tf32x3", "tf32x3rna", "3xtf32")
PARTS: tuple[tuple[str, str], ...] = (
    *((inputs, _MMA.format("m16n8k16", "f32.bf16.bf16.f32")) for inputs in _BF16),
    *((inputs, _TF32) for inputs in ("tf32x3", "tf32x3rna", "tf32x3rn", "tf32x3rz", "tf32x3ba", "tf32x3big")),
)
#: Those whose parts are multiplied one after the other, along all of k.
_APART = ("tf32+3", "tf32+3ab", "tf32+3ba")
#: The most splits but for 128, those of any k, and those of a multiple of 4; and after how many k sums start again.
_SPLITS, _OF_ANY, _OF_FOURS = 64, 16, 32
_EVERY = (32, 64, 128, 256, 512, 16)
_TILES = (8, 16, 32, 64, 128, 256)
#: Types of a workspace, and the most splits that are tried from the last to the first.
_NARROW, _DOWN = ("f16", "bf16"), 16
#: The most slices, and those whose first round may be a short one.
_SLICES, _WARPS = 64, 4


def bases(a: str, b: str, d: str, block: int = 0) -> list[Recipe]:
    """The starts of recipes for these types, in the order in which they are tried; `block`: k that share a scale.

    >>> from tcemu.recipes.candidates import bases
    >>> bases("bf16", "bf16", "bf16")[0].output
    'bf16'
    """
    recipes = [row.recipe for row in BASES if (row.a, row.b) == (a, b) and row.d in ("", d) and row.block in (0, block)]
    return [_giving(recipe, d) for recipe in recipes]


def types_of(recipe: Recipe) -> list[tuple[str, str]]:
    """The types of A and B that a recipe can start from: several if it converts them first.

    >>> from tcemu.recipes import Recipe
    >>> from tcemu.recipes.candidates import types_of
    >>> types_of(Recipe("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", inputs="rna"))
    [('f32', 'f32')]
    >>> types_of(Recipe("fma.rn.f32", inputs="f32"))
    [('f16', 'f16'), ('bf16', 'bf16')]
    """
    if not recipe.inputs:
        by = engine(recipe.instruction, recipe.target)
        return [(by.a, by.b)]
    converted = dict.fromkeys((row.a, row.b) for row in BASES if row.recipe.inputs == recipe.inputs)
    return [*converted] or [("f32", "f32")]  # parts of f32 have no row of their own


def emulated(a: str, b: str, d: str, depth: int) -> list[Recipe]:
    """f32 from parts, tile by tile: the sums of a tile start from zero, or continue."""
    if (a, b) != ("f32", "f32"):
        return []
    return (
        [
            _giving(Recipe(opcode, target, inputs=inputs, tile=tile, every=every), d)
            for inputs, opcode in PARTS
            for target in ("sm_90a", "sm_80")
            for tile in sorted({*_TILES, depth})
            for every in (tile, 0)
            if tile <= depth or (tile < 2 * depth and not every)
        ]
        + [
            _giving(Recipe(_TF32, inputs="3xtf32", tile=tile, residue=_residue(tile, depth), every=tile, lead=8), d)
            for tile in (16, 32)
        ]
        + [_giving(Recipe(_TF32, target, inputs=inputs), d) for inputs in _APART for target in ("sm_90a", "sm_80")]
    )


def _residue(tile: int, depth: int) -> Residue:
    """Which tile CUTLASS makes short."""
    return "first" if depth % tile else "last"


def _giving(recipe: Recipe, d: str) -> Recipe:
    """The recipe with D of type `d`."""
    return recipe if engine(recipe.instruction, recipe.target).sums == d else replace(recipe, output=d)


@dataclass(frozen=True)
class Trial:
    """Recipes that are tried together, and whether trees that add up their splits are tried too."""

    recipes: tuple[Recipe, ...]
    reductions: bool = False


def trials(
    a: str, b: str, d: str, depth: int, inputs: Container[str], ways: Sequence[Way] = ({},), block: int = 0
) -> Iterator[Trial]:
    """All recipes for a product of these types and this K: the simple ones, and then each instruction with splits.

    Only those with these `inputs`. `ways`: what comes after the sums, in each of these ways; where there are splits, in
    those that are unusual in one thing at most. `block`: k of a block with scales of its own; 0 for none.
    """
    own = [base for base in bases(a, b, d, block) if base.inputs in inputs]
    chosen = _of_blocks(own, depth, block) if block else _trials(own, a, b, d, depth, inputs)
    short = [way for way in ways if len(way) <= min(map(len, ways)) + 1]
    for i, trial in enumerate(chosen):
        tried = ways if i < len(own) else short  # all of them with a few walks along k
        recipes = [_in_way(each, way) for each in trial.recipes for way in tried]
        yield replace(trial, recipes=tuple(dict.fromkeys(recipes)))


def _in_way(recipe: Recipe, way: Way) -> Recipe:
    """The recipe with what comes after its sums; blocks' scales do not, if the instruction takes them."""
    if engine(recipe.instruction, recipe.target).scale:
        way = {name: word for name, word in way.items() if name not in ("scales", "promotion")}
    return replace(recipe, **way) if way else recipe


def _of_blocks(own: list[Recipe], depth: int, block: int) -> Iterator[Trial]:
    """Sums that start again with each block of k, or more often, so that its scales can join them; splits of blocks."""
    taking = [base for base in own if engine(base.instruction, base.target).scale]
    own = [base for base in own if base not in taking]
    yield from (Trial(tuple(walks(base, depth))) for base in taking)
    for base in own:
        depths = block, block // 2, block // 4
        sizes = [size for size in depths if size >= engine(base.instruction, base.target).depth]
        yield Trial(tuple(replace(base, every=size) for size in sizes if not base.tile or size % base.tile == 0))
    for base in own:
        counts = [(count, size) for count in range(2, 17) for size in _sizes(depth, count, (block,))]
        yield Trial(
            tuple(
                replace(base, every=block, splits=count, size=0 if size * count == depth else size, **total)
                for count, size in dict.fromkeys(counts)
                for total in _totals(base)
                if not base.tile or block % base.tile == 0
            )
        )


def _trials(own: list[Recipe], a: str, b: str, d: str, depth: int, inputs: Container[str]) -> Iterator[Trial]:
    if lookup(a).kind != "float":  # sums are exact: no order shows
        yield from (Trial((base,)) for base in own)
        return
    for base in own:
        yield Trial(tuple(walks(base, depth)))
    every_part = [part for part in emulated(a, b, d, depth) if part.inputs in inputs]
    targets = dict.fromkeys(recipe.target for recipe in (*own, *every_part))
    for target in sorted(targets, key=lambda target: target != "sm_90a"):
        parts = [part for part in every_part if part.target == target]
        mine = [base for base in own if base.target == target]
        yield Trial(tuple(parts))
        for base in mine:
            yield Trial(tuple(blocks(base, depth)), reductions=True)
        for base in mine:
            yield Trial(tuple(sliced(base, depth)))
            yield Trial(tuple(lanes(base, depth)))
            yield Trial(tuple(promoted(base, depth)))
        if target == "sm_90a":  # hundreds of recipes: too many for a GPU without any recordings
            common = [part for part in parts if part.tile in (16, 32, 64) and part.inputs in _COMPILED]
            cut = [each for part in common for each in halved(part, depth)]
            yield Trial(tuple(each for each in cut if not each.size), reductions=True)  # compilers: equal splits
            yield Trial(tuple(each for each in cut if each.size))
        for base in mine:
            yield Trial(tuple(unaligned(base, depth)))
            yield Trial(tuple(sliced_splits(base, depth)))


def walks(base: Recipe, depth: int) -> Iterator[Recipe]:
    """The ways along k without splits: in order, with sums that start again, with a short first tile."""
    yield base
    if not base.tile:
        yield from (replace(base, every=every) for every in _EVERY if every < depth)
        yield from (replace(base, tile=tile, residue="first") for tile in _TILES[1:5] if depth % tile and depth > tile)


def blocks(base: Recipe, depth: int) -> Iterator[Recipe]:
    """Splits of neighbouring k: equal ones, and ones of whole groups of k with a shorter last one."""
    seen = set()
    for count in (*range(2, _SPLITS + 1), 128):
        for size in _sizes(depth, count, (256, 128, 64, 32, 16, 8)):
            if (count, size) not in seen:
                seen.add((count, size))
                cut = replace(base, splits=count, size=0 if size * count == depth else size)
                yield from (replace(cut, **total) if total else cut for total in _totals(cut))


def _totals(recipe: Recipe) -> Iterator[Way]:
    """How the sums of splits are added.

    In f32; in D itself, if D is narrow (cuBLASLt's INPLACE, CUTLASS's serial split-K); from a workspace of D's type
    (cuBLASLt's OUTPUT_TYPE, split-K kernels of Triton and MAX); both (bf16 atomic additions; OUTPUT_TYPE before
    CUDA 11.4, by its release notes). The last block may come first (atomics, stream-K).
    """
    yield {}
    narrow = recipe.output if recipe.output in _NARROW else ""
    if narrow:
        yield {"total": narrow}
        yield {"partial": narrow}
        yield {"partial": narrow, "total": narrow}
    if 2 < recipe.splits <= _DOWN:
        yield {"reduce": DOWN}
        if narrow:
            yield {"total": narrow, "reduce": DOWN}
            yield {"partial": narrow, "total": narrow, "reduce": DOWN}
    taken = types_of(recipe)[0][0]
    if not narrow and taken in _NARROW:
        yield {"partial": taken}


def _sizes(depth: int, count: int, grains: tuple[int, ...]) -> Iterator[int]:
    """The k of each of `count` splits but the last, in whole groups: an equal part rounded up, or down."""
    for grain in grains:
        up, down = -(-depth // (count * grain)) * grain, depth // (count * grain) * grain
        if up < depth and -(-depth // up) == count:
            yield up
        if 0 < down != up:
            yield down


def halved(base: Recipe, depth: int) -> Iterator[Recipe]:
    """A few splits, or as many as a power of two, of whole tiles."""
    for count in (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128):
        for size in sorted(set(_sizes(depth, count, (32, 16, base.tile)))):
            yield replace(base, splits=count, size=0 if size * count == depth else size)


def unaligned(base: Recipe, depth: int) -> Iterator[Recipe]:
    """Splits whose k is not a multiple of the tile, so that the first tile of each is short."""
    if base.tile:
        return
    for count in range(2, _OF_FOURS + 1):
        any_k = count <= _OF_ANY
        for tile in (16, 32, 64) if any_k else (16,):
            for size in sorted(set(_sizes(depth, count, (tile, 8, 4, 2, 1) if any_k else (4,)))):
                if size % tile or (depth - size * (count - 1)) % tile:
                    cut = replace(base, splits=count, size=size, tile=tile, residue="first")
                    yield from (replace(cut, **total) for total in _totals(cut))


def sliced(base: Recipe, depth: int) -> Iterator[Recipe]:
    """Slices that take tiles in turn."""
    if base.tile:
        return
    for tile in (8, 16, 32, 64):
        for slices in range(2, min(_SLICES, depth // tile) + 1):
            cut = replace(base, slices=slices, tile=tile)
            yield cut
            if slices > 2:
                yield replace(cut, join=HALVES)
            if slices <= _WARPS and depth % (slices * tile):
                yield replace(cut, residue="first")


def lanes(base: Recipe, depth: int) -> Iterator[Recipe]:
    """The lanes of warps that take a few k in turn, as where D has one row or column."""
    if base.tile or engine(base.instruction, base.target).depth > 1:
        return
    for warps in (1, 2, 4, 8, 16, 32):
        for tile in (1, 2, 4, 8, 16):
            if warps * WARP * tile <= depth:
                among = f",{WARP}:{warps}" if warps > 1 else ""
                yield replace(base, slices=warps * WARP, tile=tile, join=BUTTERFLY + among)


def sliced_splits(base: Recipe, depth: int) -> Iterator[Recipe]:
    """Splits whose slices take tiles in turn."""
    if base.tile:
        return
    for each in blocks(base, depth):
        if each.splits <= 16:
            for slices in (2, 4):
                for tile in (8, 16, 32):
                    yield replace(each, slices=slices, tile=tile)
                    if depth % (slices * tile):
                        yield replace(each, slices=slices, tile=tile, residue="first")


def promoted(base: Recipe, depth: int) -> Iterator[Recipe]:
    """Splits with sums that start again."""
    if base.tile:
        return
    for each in blocks(base, depth):
        yield from (replace(each, every=every) for every in (128,) if every * each.splits < depth)

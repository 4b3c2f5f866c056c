"""A recipe: everything that decides the bits of a matrix product, as a frozen value that is one line of text."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Literal, get_args

from tcemu.errors import OperandError, briefly, did_you_mean, is_whole, listing, shown
from tcemu.recipes.inputs import CONVERSIONS
from tcemu.recipes.operands import TYPES

Residue = Literal["last", "first"]
Fused = Literal["c", "sum", "none"]
Scaled = Literal["", "a", "b"]
Promotion = Literal["fma", "add"]
Rounding = Literal["", "rz", "rna"]
Overflow = Literal["", "saturate", "wrap", "special"]

_ORDER = re.compile(r"(?:[a-z]\d+)+>[a-z]+")
_LEVEL = re.compile(r"[1-9]\d*:[1-9]\d*")
#: The ways to add sums that have a name instead of levels.
HALVES, DOWN = "halves", "down"
#: What fields accept: words, texts, or whole numbers from the least to the most.
_FLOATS = ("", "f16", "bf16", "f32")
_WORDS = {
    "residue": get_args(Residue),
    "fused": get_args(Fused),
    "inputs": tuple(CONVERSIONS),
    "partial": _FLOATS,
    "total": _FLOATS,
    "product": _FLOATS,
    "scales": get_args(Scaled),
    "promotion": get_args(Promotion),
    "epilogue": ("", "s32"),
    "activation": ("", "relu"),
    "rounding": get_args(Rounding),
    "overflow": get_args(Overflow),
    "output": ("", *TYPES),
}
_TEXTS = ("instruction", "target", "order", "join", "reduce", *_WORDS)
#: The largest k, and the most parts: a launch has at most as many blocks along y or z.
_K, _PARTS = 2**31 - 1, 65_535
_BOUNDS = dict.fromkeys(("tile", "every", "lead", "size"), (0, _K)) | dict.fromkeys(("splits", "slices"), (1, _PARTS))


@dataclass(frozen=True)
class Recipe:
    """How a kernel computes D = A B: the instruction, the order of k, the roundings before, between and after.

    k is cut into splits; slices take a split's tiles in turn; each walks tile by tile, and a tile instruction by
    instruction. The sums of slices, then of splits, are added, and the total is rounded to the type of D.

    >>> from tcemu.recipes import Recipe
    >>> recipe = Recipe("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", inputs="rna", splits=4, size=64)
    >>> str(recipe)
    'mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 sm_90a inputs=rna splits=4 size=64'
    >>> Recipe.parse(str(recipe)) == recipe
    True
    """

    #: The PTX opcode whose sums these are; fma.rn.f32 for the ordinary cores.
    instruction: str
    #: The architecture that computes it.
    target: str = "sm_90a"
    #: What happens to A and B first: a key of CONVERSIONS; "" if they already have the instruction's types.
    inputs: str = ""
    #: k that a kernel walks through at once; 0 if that changes no bit.
    tile: int = 0
    #: The order of k in a tile: its digits with their sizes, and then in the order in which they are counted, the
    #: slowest first. "t8h2p2>htp" takes k mod 4 in {0, 1} of 32 first. "" for ascending.
    order: str = ""
    #: Which tile is short if k is not a multiple of the tile.
    residue: Residue = "last"
    #: After this many k, sums restart from zero, and are added in f32 to nearest; 0: never. Equal splits that are added
    #: from left to right have the same bits.
    every: int = 0
    #: k before sums start again for the first time, if not `every`: CUTLASS adds them one instruction late. 0 for
    #: `every`.
    lead: int = 0
    #: The parts that are summed separately.
    splits: int = 1
    #: k of a split, if it is not the same for all: the last split has the rest. 0 for equal parts.
    size: int = 0
    #: The threads, warps or blocks that take a split's tiles in turn.
    slices: int = 1
    #: How the slices' sums are added, as in `reduce`.
    join: str = ""
    #: How the splits' sums are added, in f32 to nearest: levels stride:count, each adding `count` sums that are
    #: `stride` apart from left to right. "" for all of them from left to right; "down" from right to left; "halves" for
    #: cuBLAS's way with half as many places as sums: sum i goes to place i or, if there is none, is added to the sum of
    #: half the number before; the last sum stays out and takes up place after place.
    reduce: str = ""
    #: The type to which the sum of each split is rounded before it is added: that of a workspace; "" for none.
    partial: str = ""
    #: The type to which the total is rounded after every split that is added to it; "" for none but the end.
    total: str = ""
    #: The type to which the total is rounded before scales, alpha, C and a bias join it; "" for none.
    product: str = ""
    #: The order in which the scales of A and B multiply a sum: "" for their product first, "a" for A's scale and then
    #: B's, "b" for the opposite.
    scales: Scaled = ""
    #: How the scaled sum of a block of k is added to the total: in a fused multiply-add, or rounded first, "add".
    promotion: Promotion = "fma"
    #: The type in which alpha and C join an integer total: "" for f32, or s32.
    epilogue: str = ""
    #: How alpha and beta C join the total, in f32: which of the two products is part of a fused multiply-add, "c" or
    #: "sum"; "none" if both are rounded.
    fused: Fused = "c"
    #: What is applied before the last rounding: "" or "relu".
    activation: str = ""
    #: How the result is rounded to `output`: "" to nearest even; "rz" cut off; "rna" to nearest, ties away from zero.
    rounding: Rounding = ""
    #: What becomes of a result that `output` cannot hold: "" what cvt does, which saturates to integers and fp8 and
    #: makes infinity elsewhere; "saturate"; "wrap" keeps an integer's low bits; "special" makes infinity or NaN.
    overflow: Overflow = ""
    #: The type of D; "" for the accumulator's.
    output: str = ""

    def __post_init__(self) -> None:
        for name in _TEXTS:
            value = getattr(self, name)
            if not isinstance(value, str):
                raise OperandError(f"a recipe's {name} must be a string; got {briefly(value)}")
        for name, accepted in _WORDS.items():
            value = getattr(self, name)
            if value not in accepted:
                said = listing([shown(word) for word in accepted])
                hint = did_you_mean(value, accepted)
                raise OperandError(f"a recipe's {name} must be {said}; got {shown(value)}.{hint}")
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise OperandError(f"a recipe's {name} must be a whole number, at least {least}; got {briefly(value)}")
            if value > most:
                raise OperandError(f"a recipe's {name} must be at most {most:,}; got {briefly(value)}")
        if (self.slices > 1 or self.lead) and not self.tile:
            raise OperandError("slices take tiles in turn, and a lead is whole tiles, so this recipe needs a tile")
        self._check_order()
        _check_reduction("join", self.join, self.slices)
        _check_reduction("reduce", self.reduce, self.splits)

    def _check_order(self) -> None:
        if not self.order:
            return
        if not _ORDER.fullmatch(self.order) or sorted(self.digits) != sorted(self.order.partition(">")[2]):
            raise OperandError(
                f"an order of k must name digits with their sizes, and then all of them again, as in t8h2p2>htp; got "
                f"{shown(self.order)}"
            )
        size = 1
        for count in self.digits.values():
            size *= count
        if self.tile != size:
            raise OperandError(f"the order {self.order} covers {size} k, so the tile must be {size}; got {self.tile}")

    @cached_property
    def digits(self) -> dict[str, int]:
        """The sizes of the digits of `order`, the most significant first."""
        return {name: int(size) for name, size in re.findall(r"([a-z])(\d+)", self.order.partition(">")[0])}

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The products of parts that a tile adds: (part of A, part of B)."""
        conversion = CONVERSIONS[self.inputs]
        return conversion.pairs if conversion else ((0, 0),)

    @property
    def step(self) -> int:
        """The k after which the next pair of parts comes, if that is not a tile; 0 for a tile."""
        conversion = CONVERSIONS[self.inputs]
        return conversion.step if conversion else 0

    @property
    def apart(self) -> bool:
        """Whether each pair of parts is a product of its own."""
        conversion = CONVERSIONS[self.inputs]
        return conversion is not None and conversion.apart

    def __str__(self) -> str:
        plain = replace(self, **{f.name: f.default for f in fields(self)[2:]})  # type: ignore[arg-type]
        changed = [f.name for f in fields(self)[2:] if getattr(self, f.name) != getattr(plain, f.name)]
        return " ".join([self.instruction, self.target, *(f"{name}={getattr(self, name)}" for name in changed)])

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """The recipe of a line that `str` gave. Raises OperandError for words that no recipe has.

        >>> from tcemu.recipes import Recipe
        >>> Recipe.parse("fma.rn.f32 sm_90a splits=2").splits
        2
        """
        words = text.split() if isinstance(text, str) else []
        plain = [word for word in words if "=" not in word]
        kinds = {f.name: f.type for f in fields(cls)[2:]}
        if not 1 <= len(plain) <= 2 or words[: len(plain)] != plain:
            raise OperandError(
                f"a recipe must be an instruction, a target and words such as splits=4; got {shown(str(text))}"
            )
        settings: dict[str, str | int] = {}
        for name, _, value in (word.partition("=") for word in words[len(plain) :]):
            if name not in kinds:
                raise OperandError(f"no part of a recipe is called {shown(name)}.{did_you_mean(name, kinds)}")
            if kinds[name] == "int" and not value.isdigit():
                raise OperandError(f"a recipe's {name} must be a whole number; got {shown(value)}")
            settings[name] = int(value) if kinds[name] == "int" else value
        return cls(*plain, **settings)  # type: ignore[arg-type]


def levels(way: str) -> list[tuple[int, int]]:
    """The levels (stride, count) of a `reduce` or `join` that has some.

    >>> from tcemu.recipes.recipe import levels
    >>> levels("2:2,1:2")
    [(2, 2), (1, 2)]
    """
    return [(int(stride), int(many)) for stride, many in (level.split(":") for level in way.split(","))]


@cache
def _check_reduction(name: str, way: str, count: int) -> None:
    if way in ("", HALVES, DOWN):
        return
    if not all(_LEVEL.fullmatch(level) for level in way.split(",")):
        raise OperandError(f"a recipe's {name} must be {HALVES}, {DOWN} or levels, such as 2:2,1:2; got {shown(way)}")
    left = set(range(count))
    for stride, many in levels(way):
        left = {i for i in left if i // stride % many == 0}
    if left != {0}:
        raise OperandError(f"the reduction {way} leaves {len(left)} of {count} sums")

"""The type of a fragment, fragment<Use, m, n, k, T, Layout>, which is legal if and only if wmma.load can load it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tcemu.errors import IllegalInstruction, OperandError, listing, shown
from tcemu.instructions import TARGETS, Instruction, Shape, parse, target_named
from tcemu.instructions.wmma import LOAD
from tcemu.layouts import Fragment
from tcemu.wmma.names import (
    BY_FORMAT,
    LAYOUTS,
    MEMORY_LAYOUTS,
    USES,
    Tag,
    Type,
    accumulator,
    col_major,
    named,
    row_major,
    tag,
    type_of,
)
from tcemu.wmma.target import checked

GUIDE = "CUDA C++ Programming Guide, Warp Matrix Functions"
#: use, shape, type and layout ("" for accumulators).
_Key = tuple[str, Shape, str, str]


@cache
def _legal() -> tuple[_Key, ...]:
    """Every legal fragment, in the order of the table of loads."""
    keys = {
        (words["matrix"], instruction.shape, words["type"], "" if words["matrix"] == "c" else words["layout"]): None
        for words, instruction in LOAD.variants
    }
    return tuple(keys)


def spell(use: str, shape: Sequence[object], name: str, layout: str = "") -> str:
    """A fragment's type in C++, from the words of PTX."""
    tags = {each.word: repr(each) for each in (*USES, *LAYOUTS)}
    parts = [tags[use], *map(str, shape), name, *([tags[layout]] if layout else [])]
    return f"wmma::fragment<{', '.join(parts)}>"


def _spell(key: _Key) -> str:
    use, shape, form, layout = key
    return spell(use, shape, BY_FORMAT[form].name, layout)


@dataclass(frozen=True)
class Kind:
    """The type of a fragment, and its target."""

    use: Tag
    shape: Shape
    type: Type
    layout: Tag | None
    target: str

    @classmethod
    def read(cls, use: Any, m: Any, n: Any, k: Any, element: Any, layout: Any, target: Any) -> Kind:
        """The type with these template arguments. Raises IllegalInstruction, OperandError and TargetError."""
        _check_missing({"Use": use, "m": m, "n": n, "k": k, "T": element})
        use = tag(use, USES, "the first template argument, Use,")
        element = type_of(element)
        shape = Shape(*(_size(name, each) for name, each in (("m", m), ("n", n), ("k", k))))
        layout = _layout(use, shape, element, layout)
        _check_legal((use.word, shape, element.format, layout.word if layout else ""))
        kind = cls(use, shape, element, layout, checked(target))
        kind.check_target()
        return kind

    def check_target(self) -> None:
        """Raise IllegalInstruction if the target does not have the type."""
        gate = self.load().gate
        if not gate.admits(target_named(self.target)):
            raise IllegalInstruction(
                f"{self} does not exist on {self.target}: the header declares it for {gate.targets} ({GUIDE})"
            )

    def load(self, layout: Tag | None = None) -> Instruction:
        """The wmma.load that loads it; `layout` is that of an accumulator in memory."""
        word = (layout or self.layout or row_major).word
        return parse(f"wmma.load.{self.use.word}.sync.aligned.{word}.{self.shape}.{self.type.format}")

    def store(self, layout: Tag) -> Instruction:
        """The wmma.store that stores it (accumulators only)."""
        return parse(f"wmma.store.d.sync.aligned.{layout.word}.{self.shape}.{self.type.format}")

    @cached_property
    def fragment(self) -> Fragment:
        """Registers and elements of a lane: the same number on every architecture, but not in the same order."""
        return self.load().fragments[self.use.word]

    def lies_as(self, other: Kind) -> tuple[list[str], list[str]]:
        """Architectures on which both have the same layout, and those on which they do not, as far as is known."""
        same: list[str] = []
        different: list[str] = []
        for target in ("sm_70", "sm_75", "sm_80", "sm_90"):
            ours, theirs = (each.load().on(TARGETS[target]).fragments.get(each.use.word) for each in (self, other))
            gates = all(each.load().gate.admits(TARGETS[target]) for each in (self, other))
            if gates and ours is not None and theirs is not None:
                (same if ours.layout == theirs.layout else different).append(target)
        return same, different

    def __str__(self) -> str:
        return spell(self.use.word, self.shape, self.type.name, self.layout.word if self.layout else "")


def _check_missing(parameters: dict[str, object]) -> None:
    missing = [name for name, each in parameters.items() if each is None]
    if missing:
        example = spell("a", (16, 16, 16), "half", "row")
        raise IllegalInstruction(
            f"fragment is a template, wmma::fragment<Use, m, n, k, T, Layout>, and {listing(missing, 'and')} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Write for example {example} ({GUIDE})"
        )


def _size(name: str, value: Any) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        raise OperandError(f"{name} of a fragment must be a whole number; got {shown(value)}") from None
    if not 0 < size < 1 << 31:
        raise OperandError(f"{name} of a fragment counts rows or columns of a tile, 4 to 128 of them")
    return size


def _layout(use: Tag, shape: Shape, element: Type, layout: Any) -> Tag | None:
    if use == accumulator:
        if layout is None:
            return None
        raise IllegalInstruction(
            f"an accumulator has no layout in its type, only in memory: write {spell('c', shape, element.name)}, and "
            f"pass wmma::mem_row_major or wmma::mem_col_major to load_matrix_sync and store_matrix_sync ({GUIDE})"
        )
    if layout is None:
        both = listing(spell(use.word, shape, element.name, each.word) for each in LAYOUTS)
        raise IllegalInstruction(
            f"{spell(use.word, shape, element.name)} is an incomplete type: the layout of {use!r} in memory is part "
            f"of it. Write {both} ({GUIDE})"
        )
    if named(layout, MEMORY_LAYOUTS):
        raise IllegalInstruction(
            f"the layout in the type of {use!r} is {listing(map(repr, LAYOUTS))}; mem_row_major and mem_col_major are "
            f"for loading and storing accumulators ({GUIDE})"
        )
    return tag(layout, LAYOUTS, f"the layout of {use!r}")


def _check_legal(key: _Key) -> None:
    if key in _legal():
        return
    use, shape, form, _ = key
    name, role = BY_FORMAT[form].name, next(repr(each) for each in USES if each.word == use)
    legal = [each for each in _legal() if each[0] == use]
    shapes = [each[1] for each in legal if each[2] == form]
    if not shapes:
        types = dict.fromkeys(BY_FORMAT[each[2]].name for each in legal)
        why = f"{role} is never {name}, but {listing(types)}.{_other_type(form)}"
    elif shape not in shapes:
        said = listing(dict.fromkeys("x".join(map(str, each)) for each in shapes))
        why = f"{role} of {name} is {said} (m x n x k).{_whole_matrix(shape)}"
    else:
        why = f"{role} of {name} is {row_major if use == 'a' else col_major!r} only."
    raise IllegalInstruction(f"there is no {_spell(key)}: {why} Nearest: {_spell(_nearest(key, legal))} ({GUIDE})")


def _other_type(form: str) -> str:
    return " Tensor cores multiply floats as wmma::precision::tf32." if form == "f32" else ""


def _whole_matrix(shape: Shape) -> str:
    """A hint for a caller who gave the sizes of the whole matrices."""
    tiles = {each[1] for each in _legal()}
    if shape not in tiles and max(shape) > 16 and all(size % 8 == 0 for size in shape):
        return " m, n and k are the sizes of one warp's tile, not M, N and K of the matrices: loop over those."
    return ""


#: The type on the other side of a product: operands for an accumulator type, the accumulator for an operand type.
_ALIKE = {"f32": ("tf32",), "tf32": ("f32",), "bf16": ("f32",), "s32": ("s8",)} | dict.fromkeys(
    ("s8", "u8", "s4", "u4", "b1"), ("s32",)
)


def _nearest(key: _Key, legal: Sequence[_Key]) -> _Key:
    _, shape, form, layout = key

    def agree(other: _Key) -> tuple[bool, int, bool]:
        equal = sum(one == two for one, two in zip(other[1], shape, strict=True))
        return other[2] in (form, *_ALIKE.get(form, ())), equal, other[3] == layout

    return max(legal, key=agree)

"""What the words of ``tcemu isa`` ask for: one instruction, or all that fit, and an element of an operand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tcemu.errors import IllegalInstruction
from tcemu.formats.table import called, lookup
from tcemu.instructions import FAMILIES, TARGETS, Instruction, parse, targets
from tcemu.instructions.catalogue import accepted, catalogue, families_named, shape_named, types
from tcemu.instructions.cuda_names import opcode_of
from tcemu.instructions.family import Family

#: An element of an operand as people write it: A[3][5], A[3,5], A(3,5).
_ELEMENT = re.compile(r"([A-Za-z]\w*)((?:\[-?[0-9]+\])+|[\[(]-?[0-9]+(?:,-?[0-9]+)*[\])])")


@dataclass(frozen=True)
class Filters:
    """What the instructions of a list have in common; None or empty means any."""

    target: str | None = None
    ptx: str | None = None
    family: str | None = None
    types: tuple[str, ...] = ()
    shape: str | None = None
    #: How their opcodes begin.
    start: str | None = None
    #: A name of CUDA C++, of CuTe or of SASS that stands for that.
    called: str | None = None

    @property
    def selecting(self) -> dict[str, object]:
        """What selects instructions for a list, by option; None for one that is not given."""
        return {"--family": self.family, "--type": self.types or None, "--shape": self.shape}

    def __str__(self) -> str:
        conditions = {"target": self.target, "PTX": self.ptx, "family": self.family}
        conditions |= {"type": " and ".join(self.types) or None, "shape": self.shape, "begins with": self.start}
        conditions |= {"also called": self.called}
        return ", ".join(f"{what} {word}" for what, word in conditions.items() if word is not None)

    def find(self) -> list[Instruction]:
        """The instructions that fit. Raises IllegalInstruction if there is none, TargetError for an unknown target."""
        first = self.types[0] if self.types else None
        for each in self.types[1:]:
            catalogue(type=each)  # raises for a type that no instruction has
        names = [self.family] if self.start is None else [family.name for family in _with_mnemonic_of(self.start)]
        instructions = [
            each
            for name in names
            for each in catalogue(self.target, self.ptx, name, first, self.shape)
            if set(self.types) <= set(types(each)) and each.opcode.startswith(self.start or "")
        ]
        if not instructions:
            raise IllegalInstruction(f"no instruction matches {self}")
        return instructions

    def holding(self, role: str) -> list[Instruction]:
        """Of the instructions that fit, those whose operand `role` has one of the types, if there are any."""
        instructions = self.find()
        return [
            each for each in instructions if role in each.types and each.types[role].name in self.types
        ] or instructions


@dataclass(frozen=True)
class Asked:
    """The opcodes that are spelt out, the filters, and the element in brackets: A[3][5] is ("a", (3, 5))."""

    opcodes: tuple[str, ...] = ()
    filters: Filters = Filters()
    element: tuple[str, tuple[int, ...]] | None = None
    #: The words that only a list can use.
    selecting: tuple[str, ...] = ()


def read(words: Sequence[str], filters: Filters) -> Asked:
    """What `words` and the options `filters` ask for. Raises IllegalInstruction for a word that means nothing."""
    opcodes: list[str] = []
    selected: dict[str, list[str]] = {"family": [], "start": [], "type": [], "shape": [], "target": []}
    element, called = None, None
    for word in _opcode_of_line(words):
        place = _ELEMENT.fullmatch(word)
        if place:
            element = place[1].lower(), tuple(map(int, re.findall(r"-?[0-9]+", place[2])))
            continue
        kind = _kind(word)
        if kind == "opcode" and not _is_opcode(word) and opcode_of(word):
            called, word = word, opcode_of(word)  # noqa: PLW2901 - the opcode takes the place of its other name
            kind = _kind(word)
        (opcodes if kind == "opcode" else selected[kind]).append(word)
    selecting = tuple(word for kind, every in selected.items() if kind != "target" for word in every)
    return Asked(tuple(opcodes), replace(_merged(filters, selected), called=called), element, selecting)


def _opcode_of_line(words: Sequence[str]) -> Sequence[str]:
    """The opcode alone, if the words are a line of PTX with its predicate and operands."""
    said = [word for word in words if not word.startswith("@")]
    pasted = len(said) > 1 and "." in said[0] and any(set(word) & set("{}%;") for word in said[1:])
    return [said[0]] if pasted else [word.removesuffix(";") for word in words]


def _kind(word: str) -> str:
    """What a word is: an opcode, or the name of a filter. Anything else counts as a misspelt opcode."""
    if _is_opcode(word):
        return "opcode"
    if word in TARGETS or len(targets.product(word) or ()) == 1:
        return "target"
    if word in accepted("type"):
        return "type"
    if re.fullmatch("m[0-9]+(n[0-9]+(k[0-9]+)?)?", shape_named(word)):
        return "shape"
    try:
        families_named(word)
    except IllegalInstruction:
        if not _with_mnemonic_of(word) and targets.meant(word):
            targets.target_named(word)  # raises, and names the target of that GPU
        if not _with_mnemonic_of(word) and called(word):
            lookup(word)  # raises, and names the type
        return "start" if _begun(word) else "opcode"
    return "family"


def _is_opcode(word: str) -> bool:
    try:
        parse(word)
    except IllegalInstruction:
        return False
    return True


def _begun(word: str) -> bool:
    """Whether legal opcodes begin with these words."""
    families = _with_mnemonic_of(word)
    return any(form.opcode.startswith(f"{word}.") for family in families for _, form in family.variants)


def _with_mnemonic_of(opcode: str) -> list[Family]:
    return [family for family in FAMILIES if family.mnemonic == opcode.split(".", maxsplit=1)[0]]


def _merged(filters: Filters, words: dict[str, list[str]]) -> Filters:
    """The filters of options and words together. Raises IllegalInstruction where two of them cannot both hold."""
    one: dict[str, str | None] = {
        "family": filters.family,
        "shape": filters.shape,
        "target": filters.target,
        "start": None,
    }
    for name, old in one.items():
        every = [*([old] if old is not None else []), *words[name]]
        if len(set(every)) > 1:
            raise IllegalInstruction(f"no instruction has more than one {name}: {' and '.join(every)}")
        one[name] = every[0] if every else None
    start = one["start"]
    return Filters(
        target=one["target"],
        ptx=filters.ptx,
        family=one["family"] if one["family"] or start is None else None,
        types=(*filters.types, *words["type"]),
        shape=None if one["shape"] is None else shape_named(one["shape"]),
        start=None if start is None else f"{start}.",
    )

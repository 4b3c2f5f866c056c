"""What a row of the table is, and the spellings that it stands for.

A spelling is written as in the PTX manual, "add{.rnd}{.ftz}{.sat}.f32": a word in braces may be absent, and a word that
the row (or `WORDS`) explains stands for one of several. The first of those is meant where an opcode leaves it out, if
the row says so with a bar: "|rn rz rm rp".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal, TypeAlias

from tcemu.alu.arrays import Arrays
from tcemu.errors import TableError
from tcemu.native.warp import WarpCode

#: A backend: the operations that a meaning is written with.
Ops: TypeAlias = Arrays | WarpCode
#: A value of either backend; see `tcemu.native.warp.Value`.
Value: TypeAlias = Any
#: The qualifiers of an opcode, by what the row calls them: {"rnd": "rn", "ftz": "ftz"}.
Words: TypeAlias = Mapping[str, str]
#: A meaning as it is written in the table: of a backend, the words of the opcode, and its operands.
Meaning: TypeAlias = Callable[..., Any]

Extra = Literal["", "merge", "minus"]
Known = Literal["every", "silicon", "kernels", "manual"]
#: How an instruction is known, in words.
KNOWN: dict[Known, str] = {
    "every": "equal to recordings of an H200 for every operand; assumed for other GPUs",
    "silicon": "equal to recordings of an H200: all combinations of special operands, and a million random ones",
    "kernels": "equal to recordings of an H200 in kernels of all forms, for 2,048 combinations of operands each",
    "manual": "taken from the PTX manual; not compared with hardware here",
}

#: The chapters of the PTX manual, version 9.1, that have ordinary instructions.
CHAPTERS: Mapping[str, str] = {
    "9.7.1": "Integer Arithmetic Instructions",
    "9.7.2": "Extended-Precision Integer Arithmetic Instructions",
    "9.7.3": "Floating Point Instructions",
    "9.7.4": "Half Precision Floating Point Instructions",
    "9.7.5": "Mixed Precision Floating Point Instructions",
    "9.7.6": "Comparison and Selection Instructions",
    "9.7.7": "Half Precision Comparison Instructions",
    "9.7.8": "Logic and Shift Instructions",
    "9.7.9": "Data Movement and Conversion Instructions",
    "9.7.18": "Video Instructions",
}

#: Words that stand for the same choice wherever they occur.
WORDS: Mapping[str, str] = {
    "rnd": "|rn rz rm rp",
    "itype": "u16 s16 u32 s32 u64 s64",
    "btype": "b16 b32 b64",
}

_TYPE = re.compile(r"pred|(?:[busf]|bf|tf|e\dm)\d+(?:x[24])?|e\dm\dx[24]")


def is_type(word: str) -> bool:
    """Whether a qualifier is a type: u32, bf16x2, e4m3x2."""
    return _TYPE.fullmatch(word) is not None


def bits(kind: str) -> int:
    """The bits of a value of a type: 32 for f16x2, 1 for pred."""
    if kind == "pred":
        return 1
    if kind[0] == "e":
        return 8 if kind == "e2m1x2" else 8 * int(kind[-1])
    if kind == "tf32":
        return 32
    width, _, count = re.sub(r"^\D+", "", kind).partition("x")
    return int(width) * int(count or 1)


@dataclass(frozen=True)
class Ordinary:
    """An ordinary instruction: one opcode of the table.

    `meaning` takes a backend and the operands' bits: unsigned integers of their widths, or masks for predicates. It
    returns the result, or a tuple of them. With `carry_in`, CC.CF comes last among the operands; with `carry_out`, it
    comes last among the results. With `parts`, it can be told by `selectors` which parts of operands to take.

    >>> from tcemu import alu
    >>> mad = alu.find("mad.wide.s32")
    >>> mad.results, mad.operands, mad.title
    (('s64',), ('s32', 's32', 's64'), 'Integer Arithmetic Instructions: mad')
    """

    opcode: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    meaning: Meaning
    carry_in: bool
    carry_out: bool
    known: Known
    section: str
    title: str
    #: In how many parts the instruction takes its operands, if it can select them (`tcemu.alu.video`).
    parts: int = 0
    #: What else its operands may say (`tcemu.alu.scalar_video`): which part of the result it makes; minus signs.
    extra: Extra = ""


@dataclass(frozen=True)
class Row:
    """One meaning and its spellings. Types are separated by spaces; a type may be a word of the spelling.

    >>> from tcemu import alu
    >>> row = next(each for each in alu.rows() if each.spelling == "add.itype")
    >>> row.choices()
    {'itype': 'u16 s16 u32 s32 u64 s64'}
    >>> opcode, words = next(iter(row.spelled()))
    >>> opcode, row.types(row.operands, words)
    ('add.u16', ('u16', 'u16'))
    >>> row.ordinary(opcode, words).results
    ('u16',)
    """

    spelling: str
    results: str
    operands: str
    meaning: Meaning
    section: str
    words: Mapping[str, str] = field(default_factory=dict)
    carry: Literal["", "in", "out", "in out"] = ""
    parts: int = 0
    extra: Extra = ""
    #: "manual" for what an H200 does not have.
    known: Known = "silicon"

    def __post_init__(self) -> None:
        self._check()

    def _fail(self, what: str) -> None:
        raise TableError(f"{self.spelling}: {what}")

    def _check(self) -> None:
        if not re.fullmatch(r"9\.7\.\d+\.\d+", self.section) or self._chapter not in CHAPTERS:
            self._fail(f"{self.section!r} is no section of the PTX manual")
        if not callable(self.meaning):
            self._fail("its meaning cannot be called")
        needed = 2 + len(self.operands.split()) + ("in" in self.carry.split())
        try:
            inspect.signature(self.meaning).bind(*[None] * needed)
        except TypeError as error:
            raise TableError(f"{self.spelling}: its meaning does not fit its operands: {error}") from error
        unused = set(self.words) - {name for name, _ in self._pieces}
        if unused:
            self._fail(f"it explains {', '.join(sorted(unused))}, which the spelling lacks")
        for _, words in self.spelled():
            self.types(self.results, words)
            self.types(self.operands, words)

    @cached_property
    def _pieces(self) -> list[tuple[str, bool]]:
        """The words of the spelling after the mnemonic, and whether each may be absent."""
        pieces = re.findall(r"\{\.([\w:]+)\}|\.([\w:]+)", self.spelling)
        if re.sub(r"\{\.[\w:]+\}|\.[\w:]+", "", self.spelling) != self.mnemonic or not pieces:
            self._fail("it is not spelt as in the manual, like add{.ftz}.f32")
        return [(optional or fixed, bool(optional)) for optional, fixed in pieces]

    @property
    def _chapter(self) -> str:
        return self.section.rpartition(".")[0]

    @property
    def pair(self) -> bool:
        """Whether the destination is a pair, as in setp.eq.s32 p|q, a, b."""
        return "|" in self.results

    @property
    def title(self) -> str:
        """The title of its section, with that of the chapter."""
        return f"{CHAPTERS[self._chapter]}: {self.mnemonic}"

    @cached_property
    def mnemonic(self) -> str:
        """The first word: add."""
        return re.match(r"\w*", self.spelling)[0]  # type: ignore[index]

    def choices(self) -> dict[str, str]:
        """What the words of the spelling that stand for several are."""
        choices = {name: self.words.get(name, WORDS.get(name, name)) for name, _ in self._pieces}
        return {name: words for name, words in choices.items() if words != name}

    def _choices(self, name: str, optional: bool) -> list[tuple[str, str]]:
        """What a word of the spelling may be: pairs of the word and what the meaning receives."""
        words = self.words.get(name, WORDS.get(name, name))
        choices = [(word, word) for word in words.lstrip("|").split()]
        if not optional:
            return choices
        return [("", choices[0][0] if words.startswith("|") else ""), *choices]

    def spelled(self) -> Iterator[tuple[str, Words]]:
        """Every opcode, and its words."""
        names = [name for name, _ in self._pieces]
        for chosen in product(*(self._choices(*piece) for piece in self._pieces)):
            opcode = ".".join([self.mnemonic, *(text for text, _ in chosen if text)])
            yield opcode, {name: word for name, (_, word) in zip(names, chosen, strict=True) if word}

    def types(self, text: str, words: Words) -> tuple[str, ...]:
        """The types of results or operands, for the words of an opcode; "wide" is twice as wide as the last of them."""
        types = []
        for each in text.replace("|", " ").split():
            kind = words.get(each, each)
            if each == "wide":
                last = [*words.values()][-1]
                kind = f"{last[0]}{2 * bits(last)}"
            if not is_type(kind):
                self._fail(f"{kind!r} is no type")
            types.append(kind)
        return tuple(types)

    def ordinary(self, opcode: str, words: Words) -> Ordinary:
        """The instruction that an opcode of this row names."""
        carry, operands = self.carry.split(), self.types(self.operands, words)
        # All operands of at most 16 bits, and of at most 32 of approximations, were compared where there is one.
        few = len(operands) == 1 and bits(operands[0]) <= (32 if ".approx" in self.spelling else 16)
        return Ordinary(
            opcode,
            self.types(self.results, words),
            operands,
            _bound(self.meaning, words),
            "in" in carry,
            "out" in carry,
            "every" if few and self.known == "silicon" else self.known,
            self.section,
            self.title,
            self.parts,
            self.extra,
        )


def plain(operation: Callable[..., Value]) -> Meaning:
    """A meaning that needs only operators: `plain(operator.add)`."""
    return partial(_plain, operation)


def _plain(operation: Callable[..., Value], ops: Ops, words: Words, *values: Value) -> Value:
    return operation(*values)


def _bound(meaning: Meaning, words: Words) -> Meaning:
    return partial(_call, meaning, words)


def _call(meaning: Meaning, words: Words, ops: Ops, *values: Value, **more: Any) -> Any:
    return meaning(ops, words, *values, **more)

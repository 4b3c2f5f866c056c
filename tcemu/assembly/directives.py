"""Directives of a function, which say how it is launched or compiled: .maxntid, .reqnctapercluster, .noreturn."""

from __future__ import annotations

from tcemu.assembly.constants import integer
from tcemu.assembly.declarations import SPACES, skip_parentheses
from tcemu.assembly.lexer import Tokens

#: What says where a variable or function is known.
LINKAGE = frozenset({".extern", ".visible", ".weak", ".common"})
#: What begins something else in a module, so that no directive of a function follows.
NEXT = LINKAGE | SPACES | {".entry", ".func", ".file", ".loc", ".section", ".alias"}
#: Directives by name, without the dot, with their numbers and texts.
Directives = dict[str, tuple[int | str, ...]]


def directives(tokens: Tokens) -> Directives:
    """Read directives as long as they come. A directive that a later PTX version adds is read like the others."""
    numbers: Directives = {}
    while tokens.word.startswith(".") and tokens.word not in NEXT:
        if tokens.word == ".pragma":
            numbers["pragma"] = (*numbers.get("pragma", ()), *pragma(tokens))
        elif tokens.accept(".attribute"):
            skip_parentheses(tokens)
        else:
            name = tokens.next()[1:]
            numbers[name] = _numbers(tokens, name)
    return numbers


def pragma(tokens: Tokens) -> tuple[str, ...]:
    """Read a .pragma, up to its semicolon."""
    tokens.expect(".pragma")
    words = [tokens.string("the text of .pragma, in quotes")]
    while tokens.accept(","):
        words.append(tokens.string("the text of .pragma, in quotes"))
    tokens.expect(";", "after .pragma")
    return tuple(words)


def _numbers(tokens: Tokens, name: str) -> tuple[int, ...]:
    values: list[int] = []
    while tokens.word[:1].isdigit():
        values.append(integer(tokens, f"the number of .{name}"))
        if not tokens.accept(","):
            break
    return tuple(values)

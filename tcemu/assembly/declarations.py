"""Variables, parameters and registers: their types, sizes and initial values (PTX ISA 9.1, chapter 5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import NamedTuple

from tcemu.assembly.constants import SIGNS, constant, count, integer
from tcemu.assembly.lexer import END, Tokens, is_name, is_number
from tcemu.assembly.module import TYPES, Variable, width
from tcemu.assembly.operands import Immediate, Initial, Masked, Symbol

#: The state spaces of variables.
SPACES = frozenset({".global", ".const", ".shared", ".local", ".param", ".tex"})
_POINTED = frozenset({".global", ".const", ".shared", ".local"})
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_OPAQUE = frozenset({"texref", "samplerref", "surfref"})
_HEX = re.compile("0[xX][0-9a-fA-F]+")
_MASKS = frozenset(0xFF << shift for shift in range(0, 64, 8))
#: The most variables of one declaration, `x<4>`, and the deepest braces of an initial value.
_MOST, _DEEPEST = 65536, 32

#: From a name in an initial value to its symbol; None if nothing has that name.
Find = Callable[[str], Symbol | None]


class Kind(NamedTuple):
    """What stands before the names of a declaration."""

    type: str
    align: int
    vector: int = 1
    pointer: str | None = None


def kind_of(tokens: Tokens, what: str) -> Kind:
    """Read alignment, vector, type and attributes; `what` is declared."""
    type, align, vector, pointer = "", 0, 1, None  # noqa: A001 - PTX's word
    while (word := tokens.word).startswith("."):
        at = tokens.at
        tokens.at += 1
        if word == ".align":
            align = _alignment(tokens)
        elif word == ".ptr":
            pointer = tokens.next()[1:] if tokens.word in _POINTED else "generic"
            if tokens.accept(".align"):  # of what it points to
                _alignment(tokens)
        elif word == ".attribute":
            skip_parentheses(tokens)
        elif word in _VECTORS:
            vector = _VECTORS[word]
        elif word[1:] in TYPES and not type:
            type = word[1:]  # noqa: A001 - PTX's word
        else:
            raise tokens.unexpected(f"the type of {what}, such as .b32", at)
    if not type:
        raise tokens.unexpected(f"the type of {what}, such as .b32")
    return Kind(type, align or max(1, width(type) // 8) * vector, vector, pointer)


def variables(tokens: Tokens, find: Find, extern: bool = False) -> Iterator[Variable]:
    """Read the declaration of variables up to its semicolon."""
    space = tokens.next()[1:]
    if space == "const" and tokens.accept("["):  # a bank, as in PTX 1
        count(tokens, "the number of a bank")
        tokens.expect("]", "after the number of a bank")
    kind = kind_of(tokens, f"a .{space} variable")
    while True:
        at = tokens.at
        name = tokens.name_of(f"a .{space} variable")
        many = _many(tokens)
        extents = _extents(tokens)
        if tokens.word == "=" and space not in ("global", "const"):
            raise tokens.error(f"only .global and .const variables have initial values; {name} is .{space}")
        initial = _value(tokens, kind, find) if tokens.accept("=") else None
        if extents and extents[0] == 0 and isinstance(initial, tuple):
            extents = (len(initial), *extents[1:])
        variable = replace(_variable(tokens, at, name, space, kind, extents), initial=initial, extern=extern)
        if many is not None and many > _MOST:
            raise tokens.error(f"a declaration makes at most {_MOST:,} variables", at)
        yield from [variable] if many is None else (replace(variable, name=f"{name}{each}") for each in range(many))
        if not tokens.accept(","):
            break
    tokens.expect(";", f"after the declaration of {name}")


def parameters(tokens: Tokens) -> tuple[Variable, ...]:
    """Read the parameters or results of a function, in parentheses; those of a prototype may be called _."""
    tokens.expect("(", "before the parameters")
    variables: list[Variable] = []
    while not tokens.accept(")"):
        if variables:
            tokens.expect(",", "between two parameters")
        space = tokens.one_of("the kind of a parameter", (".param", ".reg"))[1:]
        kind = kind_of(tokens, "a parameter")
        at = tokens.at
        named = is_name(tokens.word) or tokens.word == "_"
        variables.append(_variable(tokens, at, tokens.next() if named else "_", space, kind, _extents(tokens)))
    return tuple(variables)


def registers(tokens: Tokens, declare: Callable[[str, str, int | None, int], None]) -> None:
    """Read a .reg; `declare` gets name, type, how many, and the word."""
    tokens.expect(".reg")
    kind = kind_of(tokens, "a register")
    type = f"v{kind.vector}.{kind.type}" if kind.vector > 1 else kind.type  # noqa: A001 - PTX's word
    while True:
        at = tokens.at
        name = tokens.name_of("a register")
        declare(name, type, _many(tokens), at)
        if not tokens.accept(","):
            break
    tokens.expect(";", "after the registers")


def skip_parentheses(tokens: Tokens) -> None:
    """Skip what is in parentheses, which means nothing here."""
    tokens.expect("(")
    depth = 1
    while depth:
        word = tokens.next()
        if word is END:
            raise tokens.unexpected("')'")
        depth += (word == "(") - (word == ")")


def _variable(tokens: Tokens, at: int, name: str, space: str, kind: Kind, extents: tuple[int, ...]) -> Variable:
    elements = prod(extents) * kind.vector
    dimensions = (*extents, kind.vector) if kind.vector > 1 else extents
    size = elements * max(1, width(kind.type) // 8)
    return Variable(
        name, space, kind.type, kind.align, size, elements,
        pointer=kind.pointer, dimensions=dimensions, text_line=tokens.line_at(at),
    )  # fmt: skip


def _alignment(tokens: Tokens) -> int:
    at, align = tokens.at, integer(tokens, "an alignment")
    if align < 1 or align & (align - 1):
        raise tokens.error(f"an alignment is a power of two; got {align}", at)
    return align


def _many(tokens: Tokens) -> int | None:
    if not tokens.accept("<"):
        return None
    # Not an expression: its operators would read the > that ends it.
    at, word = tokens.at, tokens.next()
    if not word.isdigit() or len(word) > 9:
        raise tokens.unexpected("a number of registers or variables", at)
    tokens.expect(">", "after the number of names")
    return int(word)


def _extents(tokens: Tokens) -> tuple[int, ...]:
    """The dimensions of an array; [] is 0."""
    extents: list[int] = []
    while tokens.accept("["):
        extents.append(0 if tokens.word == "]" else count(tokens, "a number of elements"))
        tokens.expect("]", "after the number of elements")
    return tuple(extents)


def _value(tokens: Tokens, kind: Kind, find: Find) -> Initial | None:
    """An initial value; that of a texture, sampler or surface, ``{filter_mode = nearest}``, is read past."""
    if kind.type not in _OPAQUE:
        return _initial(tokens, find)
    while tokens.word not in (";", END):
        tokens.at += 1
    return None


def _initial(tokens: Tokens, find: Find, depth: int = 0) -> Initial:
    if not tokens.accept("{"):
        return _element(tokens, find)
    if depth == _DEEPEST:
        raise tokens.error(f"an initial value may be nested {_DEEPEST} deep, and this one is deeper")
    items: list[Initial] = []
    while not tokens.accept("}"):
        if items:
            tokens.expect(",", "between two elements")
        items.append(_initial(tokens, find, depth + 1))
    return tuple(items)


def _element(tokens: Tokens, find: Find) -> Immediate | Symbol | Masked:
    word = tokens.word
    if word[:1].isdigit() and tokens.texts[tokens.at + 1] == "(":
        tokens.at += 1
        mask = int(word, 16) if _HEX.fullmatch(word) else 0
        if mask not in _MASKS:
            raise tokens.error("the mask of an address selects one byte: 0xff, 0xff00, ...", tokens.at - 1)
        tokens.at += 1
        symbol = _address(tokens, find)
        tokens.expect(")", "after the address")
        return Masked(mask, symbol)
    return constant(tokens) if is_number(word) or word in SIGNS else _address(tokens, find)


def _address(tokens: Tokens, find: Find) -> Symbol:
    generic = tokens.word == "generic" and tokens.texts[tokens.at + 1] == "("
    if generic:
        tokens.at += 2
    at = tokens.at
    name = tokens.name_of("a variable or function, or a constant")
    symbol = find(name)
    if symbol is None:
        raise tokens.error(f"nothing above is called {name}", at)
    offset = _offset(tokens)
    if generic:
        tokens.expect(")", "after the address")
        offset += _offset(tokens)
    return Symbol(symbol.name, offset, generic)


def _offset(tokens: Tokens) -> int:
    return integer(tokens, "an offset") if tokens.word in ("+", "-") else 0

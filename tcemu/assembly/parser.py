"""PTX text to a module (PTX ISA 9.1, chapters 4, 5, 10 and 11)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tcemu.assembly.body import Body
from tcemu.assembly.constants import count
from tcemu.assembly.declarations import SPACES, parameters, variables
from tcemu.assembly.directives import LINKAGE, NEXT, directives, pragma
from tcemu.assembly.lexer import END, Tokens
from tcemu.assembly.lines import Lines
from tcemu.assembly.module import Function, Module, Variable
from tcemu.assembly.operands import Symbol
from tcemu.errors import PtxError, briefly

_VERSION = re.compile("[0-9]+[.][0-9]+")


def parse(text: str, name: str = "kernel.ptx") -> Module:
    """Read PTX text; `name` is what errors call it. PtxError says which line is not PTX, and what was expected there.

    >>> from tcemu import assembly
    >>> module = assembly.parse('''
    ... .version 8.7
    ... .target sm_90a
    ... .address_size 64
    ... .visible .entry first(.param .u32 n) {
    ...     .reg .b32 %r<2>;
    ...     ld.param.u32 %r1, [n];
    ...     ret;
    ... }''')
    >>> print(module.functions["first"].body[0])
    ld.param.u32 %r1, [n];
    """
    if not isinstance(text, str):
        raise PtxError(f"PTX is text; got {briefly(text)}")
    return _Parser(Tokens(text, name)).module()


class _Parser:
    """Reads what stands outside of functions."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens, self._lines = tokens, Lines(tokens)
        self._variables: dict[str, Variable] = {}
        self._functions: dict[str, Function] = {}
        self._aliases: dict[str, str] = {}
        self._symbols: dict[str, Symbol] = {}

    def module(self) -> Module:
        """Read the whole text."""
        tokens = self._tokens
        version, target, options = self._header()
        address_size = 64
        while (word := tokens.word) is not END:
            if word in _READERS:
                _READERS[word](self)
            elif word == ".address_size":
                tokens.at += 1
                address_size = count(tokens, "the number of bits of an address")
            else:
                self._linked()
        return Module(
            version, target, self._lines.files, self._variables, self._functions, options, address_size,
            self._aliases, tokens.name,
        )  # fmt: skip

    def _header(self) -> tuple[str, str, tuple[str, ...]]:
        tokens = self._tokens
        while tokens.word == ".file":
            self._lines.file()
        tokens.expect(".version", "first, which says how to read PTX, as in '.version 8.7'")
        at, version = tokens.at, tokens.next()
        if not _VERSION.fullmatch(version):
            raise tokens.unexpected("a PTX version such as 8.7", at)
        tokens.expect(".target", "after the version, as in '.target sm_90a'")
        target = tokens.name_of("a target, such as sm_90a")
        options = []
        while tokens.accept(","):
            options.append(tokens.name_of("an option of .target"))
        return version, target, tuple(options)

    def _linked(self) -> None:
        """Read a variable or function, with .visible and its like before it."""
        tokens, linkage = self._tokens, set[str]()
        while tokens.word in LINKAGE:
            linkage.add(tokens.next())
        if tokens.word in SPACES:
            at = tokens.at + 1
            for each in variables(tokens, self._symbols.get, ".extern" in linkage):
                self._declare_variable(each, at)
        elif tokens.word in (".entry", ".func"):
            self._function()
        else:
            raise tokens.unexpected("a variable, a function or another directive of a module")

    def _declare_variable(self, variable: Variable, at: int) -> None:
        known = self._variables.get(variable.name)
        if variable.name in self._functions or (known is not None and not known.extern and not variable.extern):
            raise self._tokens.error(f"{variable.name} is declared twice", at)
        if known is None or known.extern:
            self._variables[variable.name] = variable
        self._symbols[variable.name] = Symbol(variable.name)

    def _function(self) -> None:
        tokens = self._tokens
        entry = tokens.next() == ".entry"
        limits = directives(tokens)
        returns = parameters(tokens) if tokens.word == "(" and not entry else ()
        at = tokens.at
        name = tokens.name_of("a function")
        accepted = parameters(tokens) if tokens.word == "(" else ()
        limits |= directives(tokens)
        function = Function(
            name, entry, accepted, returns, directives=limits, defined=False, text_line=tokens.line_at(at),
        )  # fmt: skip
        known = self._functions.get(name)
        if name in self._variables or name in self._aliases:
            raise tokens.error(f"{name} is declared twice", at)
        self._symbols[name] = Symbol(name)
        if tokens.accept(";") or tokens.word in NEXT:  # before PTX 2, a declaration had no semicolon
            self._functions.setdefault(name, function)
            return
        if tokens.word != "{":
            raise tokens.unexpected(f"'{{' or ';' after the head of {name}")
        if known is not None and known.defined:
            raise tokens.error(f"{name} is defined twice", at)
        self._lines.begin(name)
        self._functions[name] = Body(tokens, self._lines, self._symbols, self._variables, function).read()

    def _alias(self) -> None:
        tokens = self._tokens
        tokens.expect(".alias")
        alias = tokens.name_of("an alias")
        tokens.expect(",", "between an alias and the function that it means")
        at = tokens.at
        means = tokens.name_of("the function that an alias means")
        if means not in self._functions:
            raise tokens.error(f"no function above is called {means}", at)
        tokens.expect(";", "after an alias")
        self._aliases[alias] = means
        self._symbols[alias] = Symbol(alias)

    def _pragma(self) -> None:
        pragma(self._tokens)

    def _semicolon(self) -> None:
        self._tokens.at += 1


_READERS: Mapping[str, Callable[[_Parser], None]] = {
    ".file": lambda parser: parser._lines.file(),  # noqa: SLF001 - a row of its own table
    ".loc": lambda parser: parser._lines.loc(),  # noqa: SLF001
    ".section": lambda parser: parser._lines.section(),  # noqa: SLF001
    ".pragma": _Parser._pragma,  # noqa: SLF001
    ".alias": _Parser._alias,  # noqa: SLF001
    ";": _Parser._semicolon,  # noqa: SLF001
}

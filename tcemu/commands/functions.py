"""The function that FILE:FUNCTION names, for the commands that run kernels."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from tcemu.commands.device_code import is_device_code, runnable
from tcemu.errors import TcemuError, did_you_mean, listing

#: What files of other languages are, and what to do with them, by the end of their names.
_LANGUAGES = {
    **dict.fromkeys((".cubin", ".fatbin", ".sass", ".so"), "machine code, which tcemu does not read"),
    ".ipynb": "a notebook: write its cells to a Python file first (jupyter nbconvert --to script)",
}


def what_runs(what: str, launches: Sequence[str], command: str, **how: Any) -> Callable[[], object]:
    """What a command runs: FILE:FUNCTION of Python or, of a file of CUDA C++ or PTX, launches. Raises TcemuError."""
    if is_device_code(what):
        return runnable(Path(what), launches, **how)
    name, colon, _ = what.rpartition(":")
    if colon and is_device_code(name):
        raise TcemuError(f"a file of CUDA C++ or PTX has no functions to call; write tcemu {command} {name} LAUNCH")
    if launches:
        raise TcemuError(f"launches are for files of CUDA C++ and PTX; {what} is Python, whose function launches")
    return function_named(what, command)


def function_named(what: str, command: str) -> Callable[[], object]:
    """The function that FILE:FUNCTION names, for `tcemu COMMAND`. Raises TcemuError if it cannot be called."""
    name, colon, wanted = what.rpartition(":")
    path = Path(name)
    language = _LANGUAGES.get(Path(name if colon else what).suffix.lower())
    if language is not None:
        raise TcemuError(f"tcemu {command} runs functions of Python files, and {name if colon else what} is {language}")
    if not colon or not wanted.isidentifier():
        raise TcemuError(f"{what!r} does not name a function in a file; write FILE:FUNCTION, e.g. kernel.py:run")
    if not path.is_file():
        raise TcemuError(f"there is no file {name}")
    with _beside(path):
        try:
            held = runpy.run_path(str(path.resolve()), run_name=f"__{command}__")
        except SyntaxError as error:
            if error.filename not in (None, str(path.resolve())):
                raise  # another file, which this one imports
            where = f" in line {error.lineno}" if error.lineno else ""
            raise TcemuError(f"{path} is not Python{where}: {error.msg}") from None
    function = held.get(wanted)
    if not callable(function):
        names = [each for each, value in held.items() if callable(value) and not each.startswith("_")]
        raise TcemuError(f"{path} has no function {wanted}.{did_you_mean(wanted, names)}")
    needed = [
        each.name
        for each in signature(function).parameters.values()
        if each.default is Parameter.empty and each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    if needed:
        launch = f"def run(): tcemu.launch({wanted}, grid=1, block=128, args=(...))"
        raise TcemuError(
            f"{wanted} takes {listing(needed, 'and')}; tcemu {command} needs a function without arguments that "
            f"launches the kernel: {launch}"
        )
    return function  # type: ignore[no-any-return]


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """The file may import what lies beside it."""
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.path.pop(0)


def save(path: Path, text: str) -> None:
    """Write a file. Raises TcemuError if that is not possible."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TcemuError(f"cannot write {path}: {error.strerror}") from None

"""Files of CUDA C++ and PTX, for the commands that take them: how they are compiled, and what they launch."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tcemu.commands.launches import Launches, marked
from tcemu.errors import TcemuError

if TYPE_CHECKING:
    from tcemu.machine.launch import Launch
    from tcemu.ptx import Kernel, Module
    from tcemu.ptx.signature import Parameter

Command = TypeVar("Command", bound=Callable[..., Any])
_MAIN = re.compile(r"^\s*(?:int|auto|void)\s+main\s*\(", re.MULTILINE)
#: Files that tcemu.cuda.compile reads.
_CUDA = frozenset({".cu", ".cuh", ".cpp", ".cc", ".hpp", ".h"})
_OPTIONS = (
    click.option("--arch", default="", metavar="SM", help="The target, such as sm_80; of a .ptx file, its own."),
    click.option("-D", "define", multiple=True, metavar="NAME[=VALUE]", help="Define a macro for CUDA C++."),
    click.option("-I", "include", multiple=True, metavar="FOLDER", help="A folder with headers for CUDA C++."),
    click.option("-X", "options", multiple=True, metavar="OPTION", help="Another option of NVRTC or nvcc."),
)


def compiling(command: Command) -> Command:
    """Give a command the options that say how CUDA C++ is compiled."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def is_device_code(what: str | Path) -> bool:
    """Whether a command's argument names a file of CUDA C++ or PTX."""
    return Path(what).suffix.lower() in _CUDA | {".ptx"}


def module_of(
    file: Path, arch: str = "", define: Iterable[str] = (), include: Sequence[str] = (), options: Sequence[str] = ()
) -> Module:
    """The module of a file of CUDA C++ or PTX."""
    if not file.is_file():
        raise TcemuError(f"there is no file {file}")
    if file.suffix.lower() == ".ptx":
        from tcemu import ptx

        return ptx.load(file, arch)
    if file.suffix.lower() not in _CUDA:
        raise TcemuError(f"{file} must be CUDA C++ (.cu) or PTX (.ptx)")
    from tcemu import cuda

    macros = {name: value if equals else None for name, equals, value in (each.partition("=") for each in define)}
    more: dict[str, Any] = {"define": macros, "include": include, "options": options}
    return cuda.compile(file, arch, name=str(file), **more)  # type: ignore[no-any-return]


def runnable(file: Path, words: Sequence[str], **how: Any) -> Launches | Program:
    """What a command runs of a file: launches, or the whole program.

    The launches are those of the command line or, without any, of the file's `// tcemu:` lines. A file with a main and
    without launches is a program, and the words are its arguments.
    """
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    main = bool(_MAIN.search(text))
    written = any("<<<" in each for each in words) or not main
    launches = (tuple(words) if written else ()) if words else marked(text)
    if main and not launches and shutil.which("nvcc"):
        return Program(file, words, **how)
    module = module_of(file, **how)
    if not launches:
        raise TcemuError(_advice(file, module, main=main))
    return Launches(module, launches)


class Program:
    """A program with a main, which nvcc compiles and whose kernels the machine executes."""

    def __init__(
        self,
        file: Path,
        arguments: Sequence[str],
        arch: str = "",
        define: Iterable[str] = (),
        include: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        self.file, self.arguments, self.arch = file, arguments, arch or "sm_90a"
        self.options = [*(f"-D{each}" for each in define), *(f"-I{each}" for each in include), *options]
        #: What main returned, and the results of the launches.
        self.status = 0
        self.results: list[tuple[str, Launch]] = []
        #: Calls of the runtime that failed.
        self.failures: list[str] = []
        #: A program keeps its arrays to itself.
        self.arrays: Mapping[str, Any] = {}

    def __call__(self, **options: Any) -> None:
        """Run the program; `options` are those of tcemu.launch, for every launch."""
        from tcemu.cuda.program import run_program

        ran = run_program([self.file], self.arguments, arch=self.arch, options=self.options, **options)
        self.status, self.results = ran.status, [(each.kernel, each) for each in ran.launches]
        self.failures = ran.failures


def _advice(file: Path, module: Module, *, main: bool) -> str:
    """What to write where nothing says what to launch."""
    name = next(iter((*module.kernels, *getattr(module, "templates", ()))), None)
    if name is None:
        raise TcemuError(f"{file} has no kernels")
    example = _example(module[name]) if name in module.kernels else f"{name}<...><<<1, 128>>>(...)"
    command = click.get_current_context().info_name
    program = ", and its main needs nvcc, of NVIDIA's CUDA toolkit, which is not on the path" if main else ""
    return (
        f"nothing says what to launch of {file.name}{program}. Write it behind the file, as CUDA C++ does,\n"
        f"    tcemu {command} {file.name} '{example}'\n"
        f"or into the file, as a comment:\n"
        f"    // tcemu: {example}"
    )


def _example(kernel: Kernel) -> str:
    """A launch of a kernel with arguments that fit its parameters."""
    return f"{kernel.name}<<<8, 128>>>({', '.join(_fitting(each) for each in kernel.parameters)})"


def _fitting(parameter: Parameter) -> str:
    from tcemu.ptx.types import element, pointee

    to = pointee(parameter.type)
    if to or (not parameter.type and parameter.size == 8):
        return "random(1024)" if to and element(to) else "random(1024, dtype=float32)"
    return "1.0" if parameter.ptx in ("f32", "f64") else "1024" if parameter.size <= 8 else "..."

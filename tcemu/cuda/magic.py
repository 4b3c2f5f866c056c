"""`%%cuda`: a cell of CUDA C++, whose kernels become Python names.

    %%cuda --arch sm_90a -D TILE=64 -I cutlass/include
    __global__ void scale(float* x, float k, int n) { ... }

    scale[grid, block](x, 2.0, n)        # in the next cell

Lines are those of the cell: NVRTC's messages, the sanitizer's reports and errors name "Cell In[3], line 5".
"""

from __future__ import annotations

import argparse
import builtins
import keyword
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from tcemu.cells import CudaText, cuda_functions
from tcemu.cuda import compiler, messages, stored
from tcemu.cuda.host_code import SILENT
from tcemu.errors import CompilationError, OperandError, UnknownKey, listing
from tcemu.tracebacks import cell as running_cell

if TYPE_CHECKING:
    from tcemu.cuda.module import Module
    from tcemu.ptx import Kernel


class Template:
    """A kernel template: ``gemm["64"]`` or ``gemm["float, 128"]`` is an instantiation, a kernel.

    gemm["64"][grid, block](a, b, c)
    """

    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name

    def __getitem__(self, arguments: Any) -> Kernel:
        several = arguments if isinstance(arguments, tuple) else (arguments,)
        try:
            kernel: Kernel = self.module[f"{self.name}<{', '.join(map(_in_cpp, several))}>"]
        except UnknownKey as error:
            how = f'The template\'s arguments have brackets of their own: {self.name}["64"][grid, block](...)'
            raise UnknownKey(f"{error} {how}") from None
        return kernel

    def __call__(self, *args: Any, **options: Any) -> NoReturn:
        """Raise OperandError: it is not known which instantiation is meant."""
        raise OperandError(
            f"{self.name} is a template: name its arguments in brackets, as text or Python's types, before the grid: "
            f'{self.name}["64"][grid, block](...), as in {self.name}<64><<<grid, block>>>(...)'
        )

    def __repr__(self) -> str:
        return f'<kernel template {self.name}: {self.name}["64"], with the template\'s arguments, is a kernel>'


class Several:
    """Kernels of one name, as they are written: Python cannot tell which one is meant.

    >>> from tcemu.cuda.magic import Several
    >>> Several("f", ["f(int*)", "f(float*)"])
    <2 kernels called f>
    """

    def __init__(self, name: str, written: list[str], module: str = "") -> None:
        self.name, self.written, self.module = name, written, module

    @property
    def note(self) -> str:
        """What a user should know of them."""
        how = "" if self.module else " after %%cuda -o module"
        one = f"{self.module or 'module'}[{self.written[0]!r}]"
        return f"{len(self.written)} kernels are called {self.name}; {one} is one of them{how}"

    def __getitem__(self, configuration: Any) -> NoReturn:
        raise OperandError(self.note)

    def __call__(self, *args: Any, **options: Any) -> None:
        """Raise OperandError."""
        self[()]

    def __repr__(self) -> str:
        return f"<{len(self.written)} kernels called {self.name}>"


def _in_cpp(argument: Any) -> str:
    """A template's argument as C++ writes it: True is true, np.float32 and float are float."""
    import numpy as np

    from tcemu.ptx.types import SCALARS

    if isinstance(argument, type) and issubclass(argument, np.generic):
        named = (name for name, row in SCALARS.items() if row.dtype == argument)
        return next(named, argument.__name__)
    if isinstance(argument, type):
        return argument.__name__
    return str(argument).lower() if isinstance(argument, bool) else str(argument)


class Device(CudaText):
    """A `__device__` function, as the text of its cell: Python cannot call it.

    >>> from tcemu.cuda.magic import Device
    >>> Device("half", "%%cuda...")
    <__device__ function half>
    """

    __slots__ = ()

    def __getitem__(self, configuration: Any) -> NoReturn:
        raise OperandError(f"{self.__name__} is a __device__ function: a kernel can call it, but Python cannot")

    def __call__(self, *args: Any, **options: Any) -> None:
        """Raise OperandError."""
        self[()]

    def __repr__(self) -> str:
        return f"<__device__ function {self.__name__}>"


class _Arguments(argparse.ArgumentParser):
    """The magic's line; what is wrong with it is an error of the cell."""

    def error(self, message: str) -> NoReturn:
        raise OperandError(f"%%cuda: {message}. {self.format_usage().strip()}")


def parser() -> argparse.ArgumentParser:
    """What follows %%cuda on its line.

    >>> from tcemu.cuda.magic import parser
    >>> parser().parse_args(["--arch", "sm_80"]).arch
    'sm_80'
    """
    what = "Compile the cell's CUDA C++; its kernels become Python names: scale[grid, block](x, 2.0, n)."
    more = "Other options are the compiler's: -std=c++20, --use_fast_math, -fmad=false."
    made = _Arguments(prog="%%cuda", add_help=False, allow_abbrev=False, description=what, epilog=more)
    made.add_argument("-h", "--help", action="store_true", help="show this, and compile nothing")
    made.add_argument("--arch", "-arch", default="", help="the target, such as sm_90a")
    made.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE", help="a macro")
    made.add_argument("-I", "--include", action="append", default=[], metavar="FOLDER", help="a folder with headers")
    made.add_argument("-o", "--module", default="", metavar="NAME", help="a Python name for the whole module")
    return made


def cell(shell: Any, line: str, body: str) -> None:
    """Compile a cell, and give its kernels and templates to the user's namespace, or else its __device__ functions."""
    from tcemu.cuda.module import compiled

    asked, more = _asked(line)
    if asked.help:
        print(parser().format_help())  # noqa: T201 - what was asked for
        return
    # The first line is the magic's: a kernel's lines are those of the cell.
    name = shell.compile.cache(f"%%cuda {line}\n{body}", _number(shell))
    define = dict(each.partition("=")[::2] if "=" in each else (each, None) for each in asked.define)
    try:
        module = compiled(f"\n{body}", name, Path.cwd(), asked.arch, define, asked.include, more)
    except CompilationError as error:
        elsewhere = [f"{name} is in {where}" for where, name in _elsewhere(shell, str(error))]
        if elsewhere:
            error.add_note(f"{listing(elsewhere, 'and')}; each cell is compiled by itself, so paste that into this one")
        raise
    for warning in module.warnings:
        print(warning, file=sys.stderr)  # noqa: T201 - a compiler's warnings
    given = names(module)
    if not module.kernels:
        functions = cuda_functions(f"%%cuda {line}\n{body}") or {}
        given |= {each: Device(each, text) for each, text in functions.items() if each not in given}
    given |= {name: Several(name, written, asked.module) for name, written in _ambiguous(module).items()}
    for note in _notes(module, asked.module, given):
        print(f"Note: {note}", file=sys.stderr)  # noqa: T201 - likewise
    _cells(shell)[f"Cell In[{_number(shell)}]"] = body
    for note in _replaced(shell, given):
        print(f"Note: {note}", file=sys.stderr)  # noqa: T201 - likewise
    shell.user_ns.update(given)
    if asked.module:
        shell.user_ns[asked.module] = module


def _asked(line: str) -> tuple[argparse.Namespace, list[str]]:
    """What follows %%cuda on its line: its own options, and the compiler's. Raises OperandError for what is neither."""
    try:
        words = _words(line, sys.platform == "win32")
    except ValueError as error:
        raise OperandError(f"%%cuda: {str(error).lower()} in {line!r}") from None
    asked, more = parser().parse_known_args(words)
    if asked.module and not asked.module.isidentifier():
        raise OperandError(f"%%cuda: -o is followed by a Python name for the module; got {asked.module!r}")
    return asked, more


def _words(line: str, windows: bool) -> list[str]:
    """The words of a line, without their quotes, as a shell splits it; backslashes are a part of Windows' paths."""
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.commenters = True, ""
    if windows:
        words.escape = ""
    return list(words)


def _cells(shell: Any) -> dict[str, str]:
    """The cells of CUDA C++ that were compiled, by what they are called."""
    cells: dict[str, str] = shell.__dict__.setdefault("_tcemu_cuda_cells", {})
    return cells


def _elsewhere(shell: Any, said: str) -> Iterator[tuple[str, str]]:
    """Where earlier cells define what the compiler does not know: the cell, and the name."""
    for name in dict.fromkeys(messages.undefined(said)):
        for where, body in reversed(_cells(shell).items()):
            if re.search(rf"(?:#\s*define\s+|[\w>*&]\s+[*&]?){name}\b", _outermost(body)):
                yield where, name
                break


def _outermost(body: str) -> str:
    """A cell without what is in brackets: parameters, and what functions and classes have for themselves."""
    counts = 1
    while counts:
        body, counts = re.subn(r"\([^(){}]*\)|\{[^(){}]*\}", " ", body)
    return body


def _replaced(shell: Any, named: Iterable[str]) -> Iterator[str]:
    """What a user should know of functions whose names mean something else in Python."""
    for name in named:
        before = shell.user_ns.get(name, getattr(builtins, name, None))
        if keyword.iskeyword(name):
            yield f"{name} is a word of Python; module[{name!r}] is the kernel after %%cuda -o module"
        elif isinstance(before, ModuleType | BuiltinFunctionType | FunctionType | type):
            kind = "built-in function" if isinstance(before, BuiltinFunctionType) else type(before).__name__
            yield f"{name} is this cell's now, and no longer the {kind} {before.__name__}"


def _number(shell: Any) -> int:
    """The number of the cell that runs: the shell's own counter may be ahead of it already."""
    frame = sys._getframe()  # noqa: SLF001 - the frames below are the cell's
    while frame.f_back is not None:
        frame = frame.f_back
        if number := re.search(r"\d+", running_cell(frame.f_code.co_filename)):
            return int(number[0])
    return int(shell.execution_count)


def names(module: Module) -> dict[str, Any]:
    """Python names of what a module has: kernels without namespaces, templates; variables stay in the module."""
    named: dict[str, Any] = {each: Template(module, each) for each in module.templates}
    for each in module.kernels:
        name = each.split("::")[-1]
        if not re.search("[<(]", each.replace("(anonymous namespace)::", "")) and name not in _ambiguous(module):
            named[name] = module[each]
    return named


def _notes(module: Module, asked: str, given: Mapping[str, Any]) -> Iterator[str]:
    """What a user should know of a cell that compiled."""
    from tcemu.cuda.module import dialect_in_words, host_code_in_words

    yield from filter(None, (host_code_in_words(module), dialect_in_words(module)))
    if launched := _launched(module):
        yield (
            f"{launched} is launched outside functions, where nothing runs: Python launches kernels, in a cell without "
            f"%%cuda: {launched}[grid, block](...)"
        )
    if not given and not module.templates:
        yield "the cell has no kernel: a kernel is a function with __global__ before `void`"
    whole = asked or "module"
    how = "" if asked else f" after %%cuda -o {whole}"
    yield from (each.note for each in given.values() if isinstance(each, Several))
    if module.variables and not asked:
        yield f"Python reads and sets the variable {module.variables[0]} as {whole}[{module.variables[0]!r}]{how}"


def _launched(module: Module) -> str:
    """A kernel that the source launches outside functions; empty if there is none."""
    named = re.findall(r"\b(\w+)\s*(<<<|\[[^\[\]]*\][;\s]*$)", _outermost(SILENT.sub("", module.source)), re.MULTILINE)
    return next((name for name, how in named if how == "<<<" or name in module.kernels), "")


def _ambiguous(module: Module) -> dict[str, list[str]]:
    """Overloads, and kernels of one name in several namespaces: as they are written, by the name."""
    by_name: dict[str, list[str]] = {}
    for each in module.parsed.kernels:
        if "<" not in each.short:
            by_name.setdefault(each.short.split("::")[-1], []).append(each.demangled)
    return {name: several for name, several in by_name.items() if len(several) > 1}


def register(shell: Any) -> None:
    """What `%load_ext tcemu.cuda` does: the magic; the compiler starts meanwhile, in a process of its own."""
    if not stored.FILE.is_file():
        compiler.begin()
    # not in the background: of two threads that import numpy, one would see half of it
    for name in ("tcemu.cuda.module", "tcemu.cuda.host_code", "tcemu.launcher"):
        import_module(name)

    def cuda(line: str, body: str | None = None) -> None:
        if body is None and not _asked(line)[0].help:
            raise OperandError(
                "CUDA C++ begins in the line below %%cuda, with two percent signs; %cuda --help says more"
            )
        cell(shell, line, body or "")

    cuda.__doc__ = f"{__doc__}\n{parser().format_help()}"
    shell.register_magic_function(cuda, "line_cell", "cuda")
    shell.events.register("post_run_cell", _without_magic)


def _without_magic(result: Any) -> None:
    """Say what is missing from a cell of CUDA C++ that Python does not understand."""
    if not isinstance(result.error_before_exec, SyntaxError):
        return
    notes = {
        "__global__": "a cell of CUDA C++ begins with %%cuda, in its first line",
        "<<<": "Python writes kernel<<<grid, block>>>(x, n) as kernel[grid, block](x, n)",
    }
    for note in [note for word, note in notes.items() if word in (result.info.raw_cell or "")][:1]:
        print(f"Note: {note}", file=sys.stderr)  # noqa: T201 - likewise

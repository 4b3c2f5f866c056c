"""tcemu.cuda.compile: CUDA C++ to a module, whose kernels are launched with numpy arrays."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tcemu import ptx
from tcemu.arguments import explained
from tcemu.assembly.lines import unescaped
from tcemu.cuda import compiler, messages, options, spelling, stored
from tcemu.cuda.device_code import NEWER, in_either_dialect
from tcemu.cuda.headers import HOST
from tcemu.cuda.nvrtc import Answer, Request
from tcemu.cuda.toolkit import OWN, toolkit
from tcemu.errors import OperandError, PtxError, UnknownKey, listing
from tcemu.instructions.targets import target_named

EMPTY: Mapping[str, object] = MappingProxyType({})
#: Whether NVRTC's `long` has 32 bits.
_NARROW = os.name == "nt"
_NO_INSTANCE = (
    "the number, order or kind of its arguments differs from what follows `template`, or they do not meet its "
    "constraints, or a namespace is missing before it."
)
#: How the name of a file with CUDA C++ may end.
_ENDINGS = (".cu", ".cuh", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inl")
#: Names of sources that have no file, by the source.
_names: dict[str, str] = {}
#: __launch_bounds__(...) and its like, with what may be in their parentheses.
_INNER = r"\((?:[^()]++|\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\))*+\)"
_ANNOTATION = re.compile(rf"\b__\w+__\s*{_INNER}")
_TEMPLATE = re.compile(r"(\btemplate\s*<[^;{}]*?)__global__[^;{}()]*?\b(\w+)\s*\(")
#: A kernel that is a template by the type of a parameter alone.
_ABBREVIATED = re.compile(r"(?<!\w)__global__[^;{}()]*?\b(\w+)\s*\((?=[^(){};]*\bauto\b)")


class Module(ptx.Module):
    """CUDA C++, compiled: ``module["name"]`` is a kernel, or the content of a `__device__` or `__constant__` variable.

    Of a kernel template, ``module["gemm<64>"]`` compiles that instantiation. `ptx` is the text that NVRTC made,
    `warnings` what it warned of, and `left_out` the names of host functions, which are not compiled.

    >>> tcemu.cuda.compile("__global__ void fill(int* x) { x[threadIdx.x] = 1; }", name="fill.cu")  # doctest: +SKIP
    <fill.cu for sm_90a:
        kernel fill(int* x)>
    """

    def __init__(self, source: Source, answer: Answer) -> None:
        text = _with_own_names(answer.ptx, source.paths)
        try:
            super().__init__(text, source.name, source.arch)
        except PtxError as error:
            raise messages.in_asm(error, text) from None
        self._from = source
        self.source, self.ptx = source.text, self.text
        self.narrow = _NARROW and bool(source.paths)  # what is stored was compiled on Linux
        self.left_out = source.left_out
        self.warnings = messages.warnings(answer.log, source.text if source.left_out or self.templates else "")
        self._instances: dict[str, ptx.Module] = {}

    def __repr__(self) -> str:
        *lines, last = super().__repr__().splitlines()
        named = [f"    template {name}<...>" for name in self.templates]
        return "\n".join([*lines, last.removesuffix(">"), *named]) + ">"

    @cached_property
    def templates(self) -> tuple[str, ...]:
        """The names of kernel templates."""
        return tuple(self._heads)

    @cached_property
    def _heads(self) -> Mapping[str, str]:
        """What is written before each kernel template; empty if it is one by the type of a parameter."""
        text = _ANNOTATION.sub("", self._from.text)
        heads = {match[2]: " ".join(match[1].split()) for match in _TEMPLATE.finditer(text)}
        return heads | {name: "" for name in _ABBREVIATED.findall(text) if name not in heads}

    def __getitem__(self, name: str) -> Any:
        """A kernel, an instantiation of a kernel template, or the content of a variable."""
        if name in self or not isinstance(name, str):
            return super().__getitem__(name)
        if name not in self._instances and "<" in name:
            self._instances[name] = self._instance(name)
        if name in self._instances:
            return self._instances[name][self._from.lowered[name]]
        raise self._unknown(name)

    def _instance(self, expression: str) -> ptx.Module:
        """The module with one more instantiation, which shares the variables."""
        request = replace(self._from.request, expressions=(expression,))
        answer = compiler.ask(request)
        if answer.failed:
            if messages.names_wrong(answer.log) or "name expression" in answer.log.lower():
                raise self._unknown(expression, answer.log)
            raise messages.error(answer.log, answer.failed, messages.not_found(self._from.lost))
        self._from.lowered[expression] = answer.lowered[expression]
        return _Instance(self, _with_own_names(answer.ptx, self._from.paths))

    def _unknown(self, name: object, log: str = "") -> UnknownKey:
        """The error for a name; `log` is what the compiler said to an instantiation of it."""
        error = super()._unknown(name)
        if name in self.left_out:
            return UnknownKey(f"{name} is host code, which tcemu does not run: {_call_in_words(self)}")
        plain = rf"(?m)^\s*(?:(?:static|inline)\s+)*void\s+{re.escape(str(name))}\s*\("
        if re.search(plain, self._source()):
            return UnknownKey(f"{name} is an ordinary function: a kernel is declared __global__ void {name}(...)")
        template = name.partition("<")[0].split("::")[-1].strip() if isinstance(name, str) else ""
        if template in self.templates:
            if name == template:
                return UnknownKey(f"{name} is a template: {name}<...>, with its arguments, is a kernel")
            why = messages.unknown_argument(log, template) or _NO_INSTANCE
            lost = f" {messages.not_found(self._from.lost)}." if self._from.lost else ""
            head = f", {self._heads[template]}" if self._heads[template] else ""
            return UnknownKey(f"{name} is no instantiation of the template {template}{head}: {why}{lost}")
        if said := next((each.said for each in messages.messages(log) if each.error), ""):
            error = UnknownKey(f"{error} The compiler says: {said}.")
        if self.templates:
            several = listing((f"{each}<...>" for each in self.templates), "and")
            return UnknownKey(f"{error} Templates get their arguments in the name: {several}.")
        return error

    def _source(self) -> str:
        return self._from.text


class _Instance(ptx.Module):
    """The same source with an instantiation of a template; the variables are those of the module."""

    def __init__(self, module: Module, text: str) -> None:
        super().__init__(text, module.name, module.target)
        self.storage, self._text_of_source, self.narrow = module.storage, module.source, module.narrow

    def _source(self) -> str:
        return self._text_of_source


@dataclass
class Source:
    """A source and how it is compiled."""

    text: str
    name: str
    arch: str
    request: Request
    left_out: tuple[str, ...]
    #: the source and the files that it includes in quotes, by what NVRTC calls them
    paths: Mapping[str, str]
    #: names in PTX of the instantiations so far
    lowered: dict[str, str]
    #: the user's options
    asked: tuple[str, ...] = ()

    @property
    def lost(self) -> list[str]:
        """Headers that were not found, in whose place nothing stands."""
        return [each for each, text in self.request.headers.items() if not text and each not in {*HOST, *self.paths}]


@explained
def compile(  # noqa: A001 - Python's word for it
    source: str | os.PathLike[str],
    arch: str = "",
    *,
    define: Mapping[str, object] = EMPTY,
    include: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    options: str | Iterable[str] = (),
    name: str = "",
) -> Module:
    """Compile CUDA C++ with NVRTC: text, or a file such as "gemm.cu".

    `arch` is the target, by default "sm_90a"; `define` are macros, `include` folders with headers (CUTLASS's, say)
    beside CUDA's own, `options` those of NVRTC or nvcc. What is not C++17 is compiled as C++20, unless `options` say
    otherwise. `name` is what messages call a source without a file. A kernel's lines are those of the source, in
    errors, in the sanitizer's reports and everywhere else. Host code is left out: call the kernels from Python.

        module = tcemu.cuda.compile("gemm.cu", "sm_90a", define={"TILE": 64})
        module["gemm<float>"][grid, block](a, b, c)

    Raises CompilationError with NVRTC's messages and the lines they are about, and MissingPackage without NVRTC.

    >>> source = '''
    ... __global__ void scale(float* x, float k, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) x[i] *= k;
    ... }'''
    >>> scale = tcemu.cuda.compile(source)["scale"]  # doctest: +SKIP
    >>> scale  # doctest: +SKIP
    <kernel scale(float* x, float k, int n) for sm_90a>
    """
    text, called, folder = _read(source, name)
    return compiled(text, called, folder, arch, define, include, options)


def compiled(
    text: str,
    name: str,
    folder: Path | None,
    arch: str = "",
    define: Mapping[str, object] = EMPTY,
    include: Any = (),
    more: str | Iterable[str] = (),
) -> Module:
    """The module of a source that messages call `name`; what it includes in quotes is looked for in `folder`.

    Without a folder, this process reads no file for it: the source may be a stranger's.
    """
    named, words = options.chosen(more)
    target = str(target_named(arch or named or "sm_90a"))
    kept = stored.lookup(text, target, (*options.defined(define), *words))
    if kept is not None:
        _remember(name, text)
        source = Source(text, name, target, Request("", name, ()), tuple(kept["left_out"]), {}, {})
        return Module(source, Answer(kept["ptx"].replace(stored.NAME, name), kept["log"]))
    places = (*([folder] if folder else []), *options.folders(include))
    searched = [f"-I{place}" for place in (*places, *toolkit().include)]
    flags = (*_flags(target), *options.defined(define), *searched)
    _remember(name, text)
    request, answer, left_out, files = in_either_dialect(text, name, places, (*flags, *words), kept=not include)
    paths = {name: name} | {called: path for called, (path, _) in files.items()}
    return Module(Source(text, name, target, request, left_out, paths, {}, words), answer)


def _flags(target: str) -> list[str]:
    """NVRTC's options for a target."""
    flags = [f"--gpu-architecture={target.replace('sm', 'compute')}", "-lineinfo", "-default-device"]
    flags += [f"-I{OWN}", "-include=tcemu_prelude.h"]
    flags.append("-diag-warn=2361")  # {blockIdx.x} for an int: gcc, and so nvcc, only warns of narrowing
    if os.name != "nt":
        flags.append("-device-int128")
    return flags


def _read(source: str | os.PathLike[str], name: str) -> tuple[str, str, Path]:
    """Text, name and folder of a source: of a file, or of text."""
    if isinstance(source, str) and ("\n" in source or not source.endswith(_ENDINGS)):
        if not re.search(r"[({;]", source):
            raise OperandError(f"compile takes CUDA C++ as text, or a file that ends in .cu; got {source[:80]!r}")
        return source, name or _names.setdefault(source, f"kernel{len(_names) + 1}.cu"), Path.cwd()
    path = Path(source).expanduser().absolute()
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace"), name or str(path), path.parent
    except OSError as error:
        raise OperandError(f"cannot read the CUDA file {str(source)!r}: {error.strerror or error}") from None


def _remember(name: str, text: str) -> None:
    """Let messages quote the lines of a source that has no file."""
    lines = text.splitlines(keepends=True)
    known: Any = linecache.cache.get(name)
    same = known and known[2][1:] == lines[1:]  # of a cell, the first line is the magic's
    if not same and not Path(name).is_file():
        linecache.cache[name] = len(text), None, lines, name


def _with_own_names(text: str, paths: Mapping[str, str]) -> str:
    """PTX whose .file says where sources are; NVRTC puts its folder before the name of one that it got as text."""
    if not paths:  # stored
        return text
    known = {toolkit().library.parent / called: path for called, path in paths.items()}

    def own(line: re.Match[str]) -> str:
        path = unescaped(line[2])
        written = known.get(Path(path), path).replace("\\", r"\\")
        return f'{line[1]}"{written}"'

    return re.sub(r'^(\s*\.file\s+\d+\s+)"(.*?)"', own, text, flags=re.MULTILINE)


def _call_in_words(module: Module) -> str:
    name = next(iter((*module.kernels, *module.templates)), "")
    if not name:
        return "it compiles kernels, functions with __global__, and Python launches them"
    return f"call the kernels from Python, {name}[grid, block](...), with numpy arrays; cudaMalloc is not needed"


def dialect_in_words(module: Module) -> str:
    """What nvcc needs for a source that is not C++17 and did not say so; empty if there is nothing to say."""
    asked = module._from.asked  # noqa: SLF001 - of this room
    newer = NEWER in module._from.request.options and not any("std=" in each for each in asked)  # noqa: SLF001
    return f"this is C++20, which nvcc compiles with {NEWER}" if newer else ""


def host_code_in_words(module: Module) -> str:
    """What to do instead of running the host code that was left out; empty if there was none."""
    if not module.left_out:
        return ""
    if misspelt := spelling.annotation(module.source):
        return misspelt
    verb = "is" if len(module.left_out) == 1 else "are"
    shown = listing([*module.left_out[:4], *(["others"] if len(module.left_out) > 4 else [])], "and")
    return f"{shown} {verb} host code, which tcemu does not run: {_call_in_words(module)}"

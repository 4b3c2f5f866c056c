"""Options of the compiler: those of NVRTC, and nvcc's as far as they matter to a kernel's PTX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tcemu.errors import OperandError, briefly

#: What nvcc takes and NVRTC does not: it is for the host's compiler, for ptxas or for the linker.
_NVCC_ONLY = re.compile(
    r"-O\d|-g|-c|-ptx|-cubin|-rdc=.*|--ptxas-options=.*|-Xptxas=.*|--compiler-options=.*|-Xcompiler=.*|-l\w+|-L.+"
    r"|--?expt-(?:relaxed-constexpr|extended-lambda)|--?extended-lambda|-code=.*|--keep|--verbose|-v|-lineinfo"
    r"|--threads=?\d*|-ccbin=.*|--generate-line-info|-m64|-Wall|-diag-.*|--forward-unknown-to-host-compiler"
)
_NVCC_PAIRS = {"-Xptxas", "-Xcompiler", "-Xlinker", "-o", "-ccbin", "--compiler-options", "--ptxas-options", "-gencode"}
_ARCH = re.compile(r"(?:--gpu-architecture|-arch|--arch)=(?:sm|compute)_?(\w+)")
_GENCODE = re.compile(r"arch=compute_(\w+)")


def chosen(options: str | Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """The architecture that options name ("sm_90a", or empty), and those options that NVRTC takes."""
    words = options.split() if isinstance(options, str) else list(options)
    if not all(isinstance(word, str) for word in words):
        wanted = "options= must be the compiler's options as text, such as ['--use_fast_math']"
        raise OperandError(f"{wanted}; got {briefly(options)}")
    arch, kept, rest = "", list[str](), iter(words)
    for word in rest:
        if word in ("-arch", "--gpu-architecture", "--arch"):
            word = f"-arch={next(rest, '')}"  # noqa: PLW2901 - the two words are one option
        elif word in ("-std", "--std"):
            word = f"-std={next(rest, '')}"  # noqa: PLW2901 - likewise
        if named := _ARCH.fullmatch(word):
            arch = f"sm_{named[1]}"
        elif word in _NVCC_PAIRS or word.startswith("-gencode"):
            value = word.partition("=")[2] if "=" in word else next(rest, "")
            code = _GENCODE.search(value) if word.startswith("-gencode") else None
            arch = f"sm_{code[1]}" if code else arch
        elif not _NVCC_ONLY.fullmatch(word):
            kept.append(word)
    return arch, tuple(kept)


def defined(define: Mapping[str, object]) -> tuple[str, ...]:
    """Macros as options. Raises OperandError for names that C does not have."""
    if not isinstance(define, Mapping):
        raise OperandError(f"define= must be a dict of macros, such as {{'TILE': 64}}; got {briefly(define)}")
    for name in define:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*(?:\([\w, ]*\))?", name):
            raise OperandError(f"define= has the names of macros; got {briefly(name)}")
    return tuple(f"-D{name}" if value is None else f"-D{name}={_text(value)}" for name, value in define.items())


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def folders(include: object) -> tuple[Path, ...]:
    """The folders of include=. Raises OperandError for one that does not exist."""
    several = [include] if isinstance(include, str | Path) else include
    paths = []
    for each in several if isinstance(several, Iterable) else [several]:
        if not isinstance(each, str | Path) or not Path(each).expanduser().is_dir():
            raise OperandError(f"include= must be folders with headers; got {briefly(each)}, which is not a folder")
        paths.append(Path(each).expanduser().resolve())
    return tuple(paths)

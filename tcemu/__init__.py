"""An executable tensor core: run tensor-core PTX instructions on registers, bit for bit, without a GPU."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from tcemu.errors import (
    ArithmeticUnknown,
    FormatError,
    IllegalInstruction,
    KernelsUnavailable,
    LaunchError,
    LayoutError,
    OperandError,
    TargetError,
    TcemuError,
    UndefinedBehaviour,
)
from tcemu.instructions import Instruction, matmul, parse, run
from tcemu.launcher import launch
from tcemu.timing import wavefronts
from tcemu.version import __version__

if TYPE_CHECKING:  # what an editor and Jupyter's completion read
    from tcemu import gemm, live, microscaling, show, sparse, wmma

__all__ = [
    "ArithmeticUnknown",
    "FormatError",
    "IllegalInstruction",
    "Instruction",
    "KernelsUnavailable",
    "LaunchError",
    "LayoutError",
    "OperandError",
    "TargetError",
    "TcemuError",
    "UndefinedBehaviour",
    "__version__",
    "gemm",
    "launch",
    "live",
    "matmul",
    "microscaling",
    "parse",
    "run",
    "show",
    "sparse",
    "wavefronts",
    "wmma",
]

#: Packages that `import tcemu` does not load: `tcemu.wmma` imports the package when it is first used.
_LAZY = ("gemm", "live", "microscaling", "show", "sparse", "wmma")
#: Packages that are always loaded and that a user calls by name, as in tcemu.formats.lookup.
_LOADED = ("formats", "layouts", "machine", "sanitizer")


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return _import_module(f"tcemu.{name}")
    raise AttributeError(f"module 'tcemu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LOADED})

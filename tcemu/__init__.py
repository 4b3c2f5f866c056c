"""An executable tensor core: run tensor-core PTX instructions on registers, bit for bit, without a GPU."""

from importlib import import_module
from types import ModuleType

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
from tcemu.timing import wavefronts
from tcemu.launcher import launch
from tcemu.version import __version__

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
    "launch",
    "matmul",
    "parse",
    "run",
    "wavefronts",
]

#: Rooms that importing tcemu leaves alone; `tcemu.wmma` imports one where it is asked for.
_ROOMS = ("gemm", "live", "microscaling", "show", "sparse", "wmma")


def __getattr__(name: str) -> ModuleType:
    if name in _ROOMS:
        return import_module(f"tcemu.{name}")
    raise AttributeError(f"module 'tcemu' has no attribute {name!r}")

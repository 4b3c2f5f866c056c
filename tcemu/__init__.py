"""An executable tensor core: run tensor-core PTX instructions on registers, bit for bit, without a GPU."""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from tcemu.version import __version__

if TYPE_CHECKING:  # what an editor, Jupyter's completion and a type checker read
    from tcemu import (
        course,
        cuda,
        formats,
        gemm,
        layouts,
        live,
        machine,
        microscaling,
        ptx,
        recipes,
        sanitizer,
        schedules,
        show,
        sparse,
        wmma,
    )
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
    from tcemu.machine import Warp
    from tcemu.machine.mapped import tensor_map
    from tcemu.recipes import whose_bits
    from tcemu.schedules import search_schedules
    from tcemu.stream import Stream
    from tcemu.timing import wavefronts

__all__ = [
    "ArithmeticUnknown",
    "FormatError",
    "IllegalInstruction",
    "Instruction",
    "KernelsUnavailable",
    "LaunchError",
    "LayoutError",
    "OperandError",
    "Stream",
    "TargetError",
    "TcemuError",
    "UndefinedBehaviour",
    "Warp",
    "__version__",
    "course",
    "cuda",
    "formats",
    "gemm",
    "launch",
    "layouts",
    "live",
    "machine",
    "matmul",
    "microscaling",
    "parse",
    "ptx",
    "recipes",
    "run",
    "sanitizer",
    "schedules",
    "search_schedules",
    "show",
    "sparse",
    "tensor_map",
    "wavefronts",
    "whose_bits",
    "wmma",
]

#: The modules that the public names come from. `import tcemu` loads none of them: one is loaded when one of its names
#: is first used, and from then on the name is an ordinary attribute.
_HOMES = {
    "errors": "ArithmeticUnknown FormatError IllegalInstruction KernelsUnavailable LaunchError LayoutError "
    "OperandError TargetError TcemuError UndefinedBehaviour",
    "instructions": "Instruction matmul parse run",
    "launcher": "launch",
    "machine": "Warp",
    "machine.mapped": "tensor_map",
    "recipes": "whose_bits",
    "schedules": "search_schedules",
    "stream": "Stream",
    "timing": "wavefronts",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
#: Packages that are attributes of tcemu without being imported; those that are not in `__all__` are for maintainers.
_LOWER = ("alu", "arithmetic", "assembly", "errors", "instructions", "simt", "timing", "vectors")
_ROOMS = {*__all__, *_LOWER} - {*_HOME, "__version__"}

#: Packages whose modules users name, as in tcemu.machine.events; launching loads them.
_WHOLE = ("machine", "sanitizer")


#: Types that tcemu.show.rich draws in a notebook.
_PICTURED = (
    ("tcemu.instructions.instruction", "Instruction"),
    ("tcemu.layouts.descriptor", "Descriptor"),
    ("tcemu.layouts.fragment", "Fragment"),
    ("tcemu.layouts.layout", "Layout"),
    ("tcemu.live.runner.compare", "Comparison"),
    ("tcemu.machine.launch", "Launch"),
    ("tcemu.sanitizer.report", "Report"),
    ("tcemu.timing.wavefronts", "Wavefronts"),
)


def _tell(ipython: _Any) -> None:
    """Let IPython, if it runs, get the HTML of these types from tcemu.show.rich, once the first of them is shown."""
    shell = ipython.get_ipython() if ipython else None
    if shell is not None and shell.display_formatter is not None:
        html = shell.display_formatter.formatters["text/html"]
        for module, name in _PICTURED:
            html.for_type_by_name(module, name, lambda value: _import_module("tcemu.show.rich").html(value))


_tell(_sys.modules.get("IPython"))


def __getattr__(name: str) -> object:
    if _HOME.get(name, name) in _WHOLE:
        _import_module("tcemu.launcher")
    if name in _HOME:
        value = globals()[name] = getattr(_import_module(f"tcemu.{_HOME[name]}"), name)
        return value
    if name in _ROOMS:
        return _import_module(f"tcemu.{name}")
    raise AttributeError(f"module 'tcemu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

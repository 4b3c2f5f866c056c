"""What an answer may call: the names of an exercise's row against the functions that the answer entered."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pkgutil import resolve_name
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from tcemu.arithmetic.model import FusedSums
from tcemu.arithmetic.table import Row
from tcemu.course.record import Exercise
from tcemu.entered import ELSEWHERE, UNSEEN
from tcemu.errors import TableError, listing
from tcemu.formats import Container, Format
from tcemu.instructions import Instruction
from tcemu.layouts import Descriptor, Fragment, Layout

#: What every answer may call: its own numbers and hints, here and in a grader's box, and the errors that it catches.
_ALWAYS = (
    "tcemu.course.record.Given", "tcemu.course.checking.given", "tcemu.course.checking.hint", "tcemu.grade.inside",
    "tcemu.errors",
)  # fmt: skip
#: What no answer may call unless its row says so: the judges know what is right.
_NEVER = ("tcemu.course", "tcemu.grade")
#: What a kernel may call, whatever its row says: the machine, and what describes operands to it.
_MACHINE = ("tcemu.machine", "tcemu.layouts", "tcemu.formats", "tcemu.instructions")
#: ... and what of this computes products outside the machine.
_OUTSIDE = (
    "tcemu.instructions.matmul", "tcemu.instructions.run", "tcemu.instructions.multiply", "tcemu.machine.launch",
    "tcemu.machine.stream",
)  # fmt: skip
#: What describes an instruction, a format or how a chip adds, by class: every answer that may call some of tcemu may
#: look it up, and a notebook gets it where tcemu is not.
DESCRIBES: Mapping[type, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        Instruction: "aligned family fragments lanes opcode roles section shape signature sparse sync types words",
        Fragment: "container elements_per_register format lanes layout registers role shape type",
        Layout: "copies lanes shape slots",
        Descriptor: "base_offset lbo sbo start swizzle",
        Container: "elements form register_bits register_dtype shift storage width",
        Format: (
            "bias bits code_mask container dtype dtype_name emax emin exponent has_nan infinities infinity_bits kind "
            "largest largest_pattern lowest mantissa name nan nan_bits padding sign_bit signed smallest_normal "
            "smallest_subnormal storage zero"
        ),
        Row: "known model",
        FusedSums: "addend block floor fraction keep order",
    }.items()
}

#: What takes an answer's calls out of sight.
_AWAY = {
    UNSEEN: "replaces Python's profiler (sys.setprofile, cProfile), with which this check sees what it calls.",
    ELSEWHERE: "starts a process, or a thread without `threading`, in which this check cannot see what it calls.",
}


def refused(exercise: Exercise, entered: Iterable[str], *, kernel: bool = False) -> str:
    """What is wrong with the functions that an answer entered, "module.name"; empty if it may call all of them.

    >>> from tcemu import course
    >>> from tcemu.course.allowed import refused
    >>> by_hand = course.exercise("fragment_by_hand")
    >>> refused(by_hand, ["tcemu.layouts.fragment.Fragment.pack"])
    'Your function calls Fragment.pack of tcemu, which it may not: here it does the work without tcemu.'
    """
    return refused_beside(exercise.only, entered, kernel=kernel)


def refused_beside(only: Sequence[str] | None, entered: Iterable[str], *, kernel: bool = False) -> str:
    """The same for an answer that may call `only` these public names; None means that there is no rule.

    >>> from tcemu.course.allowed import refused_beside
    >>> refused_beside((), ["tcemu.gemm.wgmma_tma.multiply"], kernel=True)
    'Your kernel calls multiply of tcemu, which it may not: its own lines give the instructions.'
    """
    always = _ALWAYS if only == () else (*_ALWAYS, *_descriptions())
    others = sorted(name for name in entered if not _among(name, always))
    allowed = [pattern for public in only or () for pattern in _patterns(public)]
    for name in others:
        if _among(name, allowed):
            continue
        if kernel and _among(name, _MACHINE) and not _among(name, _OUTSIDE):
            continue
        if kernel or only is not None or _among(name, _NEVER):
            if name in _AWAY:
                return f"Your {'kernel' if kernel else 'function'} {_AWAY[name]}"
            return _says(name, only, kernel)
    return ""


def held_by(answer: Any) -> str:
    """What is wrong with a function that looks into objects of tcemu, where it has to do without; empty if nothing is.

    The grader runs it where tcemu is not, so that such an object tells it nothing. Both should say the same.

    >>> import tcemu
    >>> from tcemu.course.allowed import held_by
    >>> a = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["a"]
    >>> held_by(lambda row: row % a.lanes)
    'Your function uses a, which is an object of tcemu: here it does the work without tcemu.'
    """
    for name, value in _names_of(answer, set()):
        kind = value if isinstance(value, ModuleType) else type(value)
        module = getattr(kind, "__module__", "") if kind is not value else value.__name__
        if _among(str(module), ("tcemu",)) and not _among(str(module), (*_ALWAYS, *_NEVER)):
            return f"Your function uses {name}, which is an object of tcemu: here it does the work without tcemu."
    return ""


def _names_of(function: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The names outside a function that it and the functions that it names use, with what they stand for."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or id(code) in seen or not isinstance(function, FunctionType):
        return
    seen.add(id(code))
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    named = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    named |= {name: function.__globals__[name] for name in _globals_of(code) if name in function.__globals__}
    for name, value in named.items():
        yield name, value
        yield from _names_of(value, seen)


def _globals_of(code: CodeType) -> Iterator[str]:
    """The global names that code loads, that of functions in it included; attributes have names, too."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _globals_of(each)


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _says(name: str, only: Sequence[str] | None, kernel: bool) -> str:
    says = f"Your {'kernel' if kernel else 'function'} calls {_short(name)} of tcemu, which it may not: "
    if only:
        return f"{says}of tcemu it may call {listing([_short(each) for each in only], 'and')}."
    if kernel:
        return f"{says}its own lines give the instructions."
    return f"{says}here it does the work without tcemu."


def _short(name: str) -> str:
    """A name without its modules: those have small letters, and are not last."""
    parts = name.replace(".<locals>", "").removesuffix(".__init__").removesuffix(".__post_init__").split(".")
    return ".".join(parts[-2:] if parts[-2][:1].isupper() else parts[-1:])


def _among(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or name.startswith(f"{pattern}.") for pattern in patterns)


@cache
def _descriptions() -> tuple[str, ...]:
    """The functions behind DESCRIBES, as names: those of properties."""
    attributes = (
        inspect.getattr_static(kind, name, None) for kind, names in DESCRIBES.items() for name in sorted(names)
    )
    functions = (getattr(each, "fget", getattr(each, "func", None)) for each in attributes)
    return tuple(f"{each.__module__}.{each.__qualname__}" for each in functions if each is not None)


@cache
def _patterns(public: str) -> tuple[str, ...]:
    """What a public name stands for. Raises TableError if there is none of this name."""
    try:
        named_object = resolve_name(public)
    except (ImportError, AttributeError, ValueError):
        raise TableError(f"{public} is not a name of tcemu") from None
    if isinstance(named_object, ModuleType):
        return (named_object.__name__,)
    if isinstance(named_object, property):
        named_object = named_object.fget
    named_object = inspect.unwrap(getattr(named_object, "func", named_object))
    return (f"{named_object.__module__}.{named_object.__qualname__}",)

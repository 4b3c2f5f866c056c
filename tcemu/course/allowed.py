"""What an answer may call: the names of an exercise's row against the functions that the answer entered."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from functools import cache
from pkgutil import resolve_name
from types import ModuleType

from tcemu.course.record import Exercise
from tcemu.entered import ELSEWHERE, UNSEEN
from tcemu.errors import TableError, listing

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

#: What takes an answer's calls out of sight.
_AWAY = {
    UNSEEN: "replaces Python's profiler (sys.setprofile, cProfile), with which this check sees what it calls.",
    ELSEWHERE: "starts another process, in which this check cannot see what it calls.",
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
    """The same for an answer that may call `only` these public names; None is no rule.

    >>> from tcemu.course.allowed import refused_beside
    >>> refused_beside((), ["tcemu.gemm.wgmma_tma.multiply"], kernel=True)
    'Your kernel calls multiply of tcemu, which it may not: its own lines give the instructions.'
    """
    others = sorted(name for name in entered if not _among(name, _ALWAYS))
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
def _patterns(public: str) -> tuple[str, ...]:
    """What a public name stands for. Raises TableError if there is none of this name."""
    try:
        found = resolve_name(public)
    except (ImportError, AttributeError, ValueError):
        raise TableError(f"{public} is not a name of tcemu") from None
    if isinstance(found, ModuleType):
        return (found.__name__,)
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(getattr(found, "func", found))
    return (f"{found.__module__}.{found.__qualname__}",)

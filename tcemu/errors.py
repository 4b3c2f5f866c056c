"""Every error that tcemu raises on purpose, named by what happened.

All of them derive from :class:`TcemuError`, so ``except tcemu.TcemuError`` catches whatever a wrong input can cause.
A message says what was asked, what is wrong with it, what would be accepted there, and where the PTX manual
speaks of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Literal


class TcemuError(Exception):
    """Root of all errors that a user's input can cause."""


class FormatError(TcemuError):
    """A number format is unknown, or a value or pattern does not fit the format."""


class LayoutError(TcemuError):
    """A layout pattern does not read, or a position, lane or slot lies outside a layout."""


class TableError(TcemuError):
    """A row of one of the three tables contradicts itself or another row; such a table cannot be imported."""


class IllegalInstruction(TcemuError):  # noqa: N818 - the name is the hardware's word for it
    """The text is no instruction that the assembler would accept and the hardware execute."""


class TargetError(TcemuError):
    """The target or PTX version is unknown, or is too old for the instruction."""


class OperandError(TcemuError):
    """An operand has the wrong number of registers or lanes, the wrong dtype or the wrong shape."""


class AddressError(OperandError):
    """An address is not aligned as the instruction wants it (kind "alignment"), or outside the memory ("bounds")."""

    def __init__(self, message: str, kind: Literal["alignment", "bounds"]) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.kind)


class ArithmeticUnknown(TcemuError):  # noqa: N818 - an absence, not a mistake of the user
    """The instruction is legal there, but no row of the arithmetic table says what the hardware computes."""


class CostUnknown(TcemuError):  # noqa: N818 - likewise
    """Nobody has measured what that costs on the target."""


class KernelsUnavailable(TcemuError):  # noqa: N818 - likewise
    """The environment asks for kernels that are not installed, or for kernels that do not exist."""


class LaunchError(TcemuError):
    """A kernel did not come to its end in the machine: a wrong access, a deadlock, a barrier used wrongly.

    `launch` is what there is of the launch's result.
    """

    launch: Any = None


class MemoryFault(LaunchError):  # noqa: N818 - the hardware's word
    """A kernel accessed memory where there is none, or at an address that is not aligned."""


class MbarrierMisused(LaunchError, OperandError):  # noqa: N818 - likewise
    """There is no mbarrier where a kernel takes one to be, or more threads arrive than its phase waits for."""


class Deadlock(LaunchError):  # noqa: N818 - the word for it
    """No warp of a block can go on; the message says who waits for what, and since which line."""


class UnknownName(LaunchError, AttributeError):  # noqa: N818 - the word for it
    """A warp has no attribute of that name; the message names the right form."""


class UndefinedBehaviour(LaunchError):  # noqa: N818 - the manual's word for it
    """A kernel broke a rule that the sanitizer knows; `report` says which, where, and what mends it."""

    report: Any = None


class GpuUnavailable(TcemuError):  # noqa: N818 - an absence, not a mistake of the user
    """There is no GPU to ask: a package, driver or device is missing, or is too old, or lacks the instruction."""


class GpuError(TcemuError):
    """A kernel did not come to its end on the GPU: a wrong address, an illegal instruction, no end in time."""


class CompilationError(TcemuError):
    """CUDA C++ does not compile; the message has the compiler's words and the source lines."""


class CourseError(TcemuError):
    """The course cannot be found, or cannot be laid out where it was asked for."""


def shown(text: object, limit: int = 80) -> str:
    """`text` as a literal for a message, cut where it is long: whatever a user passes, the message stays readable."""
    if not isinstance(text, str):
        return f"an object of type {type(text).__name__}"
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."


def briefly(value: object, limit: int = 80) -> str:
    """Any value for a message: as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - an integer of 5,000 digits has no repr, and an object may raise whatever it likes
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= limit else f"{text[:limit]}..."


def listing(words: Iterable[object], last: str = "or") -> str:
    """``a, b or c``: the way a list of accepted words stands in a message."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {last} {texts[-1]}" if texts else "nothing"


def counted(number: int, noun: str) -> str:
    """``1 lane``, ``3 lanes``, ``100,000 warps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def nearest(word: str, accepted: Iterable[str], count: int = 1, cutoff: float = 0.5) -> list[str]:
    """The accepted words that look most like `word`, best first; empty where none looks like it."""
    return difflib.get_close_matches(word, list(accepted), n=count, cutoff=cutoff)


def did_you_mean(word: str, accepted: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or nothing, ready to be appended to a message."""
    found = nearest(word[:80], accepted)  # comparing is slow where a word is long
    return f" Did you mean {found[0]!r}?" if found else ""

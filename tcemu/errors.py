"""Every error that tcemu raises on purpose, named after what happened, and the phrases that messages share.

All of them derive from :class:`TcemuError`, so ``except tcemu.TcemuError`` catches whatever a wrong input can cause.
A message says what was given, what is wrong with it, what would be accepted, and which section of the PTX manual
has the rule.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
import typing
from collections.abc import Iterable, Mapping
from itertools import pairwise
from numbers import Integral
from typing import Any, Generic, Literal, TypeGuard, TypeVar

__all__ = [
    "AddressError", "ArithmeticUnknown", "CompilationError", "CostUnknown", "CourseError", "Deadlock",
    "FormatError", "GpuError", "GpuUnavailable", "IllegalInstruction", "KernelsUnavailable", "LaunchError",
    "LayoutError", "MbarrierMisused", "MemoryFault", "MissingPackage", "OperandError", "PtxError", "TableError",
    "TargetError", "TcemuError", "UndefinedBehaviour", "Unending", "UnknownKey", "UnknownName",
]  # fmt: skip

_NUMBER = re.compile("[0-9]+")
#: Longer lists of names are cut off in the message about a name that is not among them.
_LISTED = 24
#: Numbers less `apart` than this are close: a wrong value. Others are probably typing errors: sm_900a is sm_90a.
CLOSE = 0.5
Value = TypeVar("Value")
# fmt: off
AddressKind = Literal[
    "alignment", "bounds", "exited", "rank", "apart", "overlap", "quarter", "columns", "allocation", "idesc",
    "descriptor", "pair", "freed", "owner",
]
# fmt: on


class _Rendered:
    """An error that a notebook shows without the package's frames."""

    def _render_traceback_(self) -> list[str]:
        """What IPython prints: the learner's lines and the message."""
        from tcemu.tracebacks import render

        return render(typing.cast("BaseException", self))


class TcemuError(_Rendered, Exception):
    """Base class of every error that a user's input can cause.

    If the error ended a launch, `launch` is the launch's result so far, with the sanitizer's reports.
    """

    launch: Any = None

    def __str__(self) -> str:
        from tcemu.manual import cited

        return cited(Exception.__str__(self))  # KeyError's would quote the message


class Interrupted(_Rendered, KeyboardInterrupt):
    """The user interrupted a launch, and the message says where its warps were; or a compilation.

    It is a KeyboardInterrupt, so no `except Exception` stops it. `launch` is the launch's result so far, with the
    sanitizer's reports.
    """

    launch: Any = None


class FormatError(TcemuError):
    """A number format is unknown, or a value or bit pattern does not fit the format."""


class LayoutError(TcemuError):
    """A layout pattern cannot be parsed, or a position, lane or slot is outside the layout."""


class TableError(TcemuError):
    """A row of one of the three tables contradicts itself or another row, so the table cannot be used."""


class IllegalInstruction(TcemuError):  # noqa: N818 - the name is the hardware's word for it
    """The text is not an instruction that the assembler accepts and the hardware executes."""


class TargetError(TcemuError):
    """The target or PTX version is unknown, or is too old for the instruction."""


class OperandError(TcemuError):
    """An operand has the wrong number of registers or lanes, or the wrong dtype, shape or value."""


class AddressError(OperandError):
    """An address is not aligned as the instruction requires (kind "alignment") or is outside the memory ("bounds").

    The kind is "freed" if a kernel has freed the bytes; "owner" if they are another thread's or block's; "exited" if
    the block that it means has exited, and its shared memory with it; "rank" if the cluster has no such block; "apart"
    if data and mbarrier are in different blocks; "overlap" if lanes of one store give the same address for different
    rows. Kinds of Tensor Memory: "quarter" if a warp uses lanes that another warp reaches,
    "columns" if they are not allocated, "allocation" if columns are allocated or freed against the rules, "idesc" if
    an instruction descriptor contradicts its instruction, "descriptor" if a matrix descriptor does, "pair" if there is
    no peer, or not in this way. `space` is the memory, where it matters.
    """

    def __init__(
        self,
        message: str,
        kind: AddressKind,
        space: Literal["shared", "global", "tensor", "local", "const", "param"] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.space = kind, space

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.kind, self.space)


class ArithmeticUnknown(TcemuError):  # noqa: N818 - an absence, not a mistake of the user
    """The instruction is legal on the target, but no row of the arithmetic table says what the hardware computes."""


class CostUnknown(TcemuError):  # noqa: N818 - likewise
    """The cost has not been measured on the target."""


class KernelsUnavailable(TcemuError):  # noqa: N818 - likewise
    """TCEMU_KERNELS names kernels that are not installed or do not exist."""


class LaunchError(TcemuError):
    """A kernel did not finish in the machine: an invalid access, a deadlock, a misused barrier."""


class MemoryFault(LaunchError):  # noqa: N818 - the hardware's word
    """A kernel accessed an address that is outside the memory or not aligned."""


class ClusterMisfit(LaunchError):  # noqa: N818 - what is wrong with it
    """A launch has clusters that the target does not have, or that do not divide its grid; it has not begun."""


class MbarrierMisused(LaunchError, OperandError):  # noqa: N818 - likewise
    """A kernel used an address that holds no mbarrier, or more threads or bytes arrived than its phase can take."""


class Disagreement(LaunchError, OperandError):  # noqa: N818 - likewise
    """Lanes or warps that execute an instruction together differ in a membermask, or in an operand they share."""


class Deadlock(LaunchError):  # noqa: N818 - the field's word
    """No warp of a block can continue; the message says which warp waits for what, and since which line."""


class Unending(LaunchError):  # noqa: N818 - it says what the kernel lacks
    """A warp has executed more operations than the launch allows; the message says where the warps were.

    `operations` is the limit.
    """

    def __init__(self, message: str, operations: int = 0) -> None:
        super().__init__(message)
        self.operations = operations


class UnknownName(LaunchError, AttributeError):  # noqa: N818 - the word for it
    """A warp has no attribute of that name; the message names the right form."""


class UnknownKey(TcemuError, KeyError):  # noqa: N818 - likewise
    """A table of names does not have this name; the message lists those that it has."""


class UndefinedBehaviour(LaunchError):  # noqa: N818 - the manual's word for it
    """A kernel broke a rule that the sanitizer checks; `report` says which one, where, and how to fix it."""

    report: Any = None


class GpuUnavailable(TcemuError):  # noqa: N818 - an absence, not a mistake of the user
    """No GPU can answer: a package, driver or device is missing or too old, or the GPU lacks the instruction."""


class GpuError(TcemuError):
    """A kernel did not finish on the GPU: an invalid address, an illegal instruction, a timeout."""


class PtxError(TcemuError):
    """The text is not PTX; the message says where, what was found, what was expected, and quotes the line.

    `line` is the number of the line in the text.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class CompilationError(TcemuError):
    """CUDA C++ does not compile; the message quotes the compiler and the source lines.

    `verbatim` says that it shows them itself, with a caret: a notebook shows the message as it is, and nothing else.
    """

    verbatim = False


class CourseError(TcemuError):
    """The course cannot be found, or cannot be laid out in the given folder."""


class MissingPackage(TcemuError, ImportError):  # noqa: N818 - an absence, not a mistake of the user
    """A package that only an extra of tcemu installs is not there; the message names the extra and the command."""


class NoProcesses(TcemuError):  # noqa: N818 - an absence, not a mistake of the user
    """Something needs threads or processes of its own, and Python runs in a browser, which has none."""


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an integer of Python or numpy; True and False are not.

    >>> from tcemu.errors import is_whole
    >>> is_whole(3), is_whole(True), is_whole(3.0)
    (True, False, False)
    """
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def whole(value: object, what: str, error: type[TcemuError] = OperandError) -> int:
    """A whole number as an int; `error` for anything else, which says `what` it is."""
    try:
        return operator.index(value)  # type: ignore[arg-type] # that is the question
    except Exception:  # noqa: BLE001 - an array raises TypeError or ValueError, and an object may raise anything
        raise error(f"{what} must be a whole number; got {briefly(value)}") from None


def shown(text: object, limit: int = 80) -> str:
    """`text` as a literal for a message, shortened if it is long: the message stays readable whatever a user passes."""
    if not isinstance(text, str):
        return f"an object of type {type(text).__name__}"
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."


def briefly(value: object, limit: int = 80) -> str:
    """The repr of any value for a message, shortened if it is long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - an integer of 5,000 digits has no repr, and an object may raise anything
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= limit else f"{text[:limit]}..."


def listing(words: Iterable[object], last: str = "or") -> str:
    """``a, b or c``: a list of accepted words."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {last} {texts[-1]}" if texts else "nothing"


def counted(number: int, noun: str) -> str:
    """``1 lane``, ``3 lanes``, ``100,000 warps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def span(first: int, last: int, to: str = " to ") -> str:
    """``0 to 3``, or ``5`` if both ends are the same; `to` goes between the ends."""
    return f"{first}" if first == last else f"{first}{to}{last}"


def byte_span(first: int, last: int) -> str:
    """``bytes 0 to 3``, or ``byte 5``."""
    return f"byte{'' if first == last else 's'} {span(first, last)}"


def ranges(numbers: Iterable[int], to: str = " to ") -> str:
    """``0 to 3, 8``: whole numbers in ascending order, with consecutive ones joined; `to` goes between the ends."""
    held = list(numbers)
    cuts = [0, *(at for at, (low, high) in enumerate(pairwise(held), 1) if high != low + 1), len(held)]
    return ", ".join(span(held[start], held[end - 1], to) for start, end in pairwise(cuts) if end > start)


def nearest(word: str, accepted: Iterable[str], count: int = 1, cutoff: float = 0.5) -> list[str]:
    """The accepted words most similar to `word`, best first; empty if none is similar.

    Words with the same letters come first (8v is v8), then those with a number close by (m64n7k16 is m64n8k16), and
    then those with the most letters in common; of several, the ones with the closest numbers.
    """
    likeness = difflib.SequenceMatcher(b=word)

    def rank(other: str) -> tuple[bool, float, float, float]:
        likeness.set_seq1(other)
        return sorted(other) != sorted(word), min(apart(word, other), CLOSE), -likeness.ratio(), apart(word, other)

    words = list(accepted)
    return sorted(difflib.get_close_matches(word, words, n=len(words) or 1, cutoff=cutoff), key=rank)[:count]


def apart(one: str, other: str) -> float:
    """How far apart the numbers of two words are, as ratios; infinite where anything but the numbers differs."""
    if _NUMBER.split(one) != _NUMBER.split(other):
        return math.inf
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return sum(abs(math.log2((int(first) + 1) / (int(second) + 1))) for first, second in pairs)


def did_you_mean(word: str, accepted: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or nothing, ready to be appended to a message.

    A word that begins up to three accepted ones means those: mxfp8 is mxfp8_e4m3 or mxfp8_e5m2, not mxfp4.
    """
    words, word = list(accepted), word[:80]  # comparing long words is slow
    begun = [each for each in words if len(word) > 2 and each.startswith(word)]
    near = begun if 0 < len(begun) <= 3 else nearest(word, words)
    return f" Did you mean {listing(map(repr, near))}?" if near else ""


class Named(dict[str, Value], Generic[Value]):
    """A dict that raises UnknownKey for a name that it does not have; `what` says what the names stand for: "rule".

    >>> from tcemu.errors import Named
    >>> Named("fragment", {"a": 1, "b": 2})["x"]
    Traceback (most recent call last):
        ...
    tcemu.errors.UnknownKey: no fragment is called 'x'. There are a and b.
    """

    def __init__(self, what: str, named: Mapping[str, Value] = {}) -> None:
        super().__init__(named)
        self.what = what

    def __missing__(self, name: object) -> Value:
        near = did_you_mean(name, self) if isinstance(name, str) else ""
        more = [f"{len(self) - _LISTED} more"] if len(self) > _LISTED else []
        raise UnknownKey(
            f"no {self.what} is called {briefly(name)}.{near} "
            f"There {'are' if self else 'is'} {listing([*list(self)[:_LISTED], *more], 'and')}."
        )

"""Learners' answers as plain data: what cannot be an answer is rejected, and the message says what was expected.

An answer may be anything, even an object whose methods lie, raise or never return. So nothing here compares it or
iterates
over it by its own methods: numbers, tuples, lists and arrays are read as such, and everything else is rejected.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.entered import Entered
from tcemu.errors import CourseError, briefly, counted, listing
from tcemu.tracebacks import described

Array = npt.NDArray[Any]

#: What a function may print while it is checked, in characters; the rest is counted.
_PRINTED = 2000
#: The deepest nesting of lists that can become an array.
_DEEP = 8
_SIGNS = "a negative number in Python has sign bits without end, so mask each one before you join them"
DOTS = "Replace the three dots with your answer."
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class AnswerError(CourseError):
    """An answer that cannot be compared: no number, another shape, or a function that raises.

    >>> from tcemu import course
    >>> def where_of_a(row, column):
    ...     return row
    >>> print(course.check(where_of_a).says)
    where_of_a(0, 0) returns 0. It should return two whole numbers: lane and register.
    """


class Unanswered(AnswerError):  # noqa: N818 - a state, not a mistake
    """The answer is still the three dots of the exercise.

    >>> from tcemu import course
    >>> course.check(where_of_a=...).state
    'open'
    """


def answered(answer: Any) -> Any:
    """`answer`, if there is one. Raises Unanswered for the dots of the exercise."""
    if answer is ... or answer is None or any(part is ... for part in parts_of(answer)):
        raise Unanswered(DOTS)
    return answer


def parts_of(answer: Any) -> list[Any]:
    """The parts of a tuple or list, without calling methods that a subclass may have changed."""
    kind = next((kind for kind in (tuple, list) if isinstance(answer, kind)), None)
    return list(kind.__iter__(answer)) if kind else []


# ---------------------------------------------------------------------------------------------- functions


def function(answer: Any, arguments: Sequence[str]) -> Callable[..., Any]:
    """A function that can be called with `arguments`, by position. Raises AnswerError."""
    answered(answer)
    takes = listing(arguments, "and")
    if not callable(answer):
        raise AnswerError(f"The answer must be a function of {takes}; got {briefly(answer)}.")
    try:
        signature = inspect.signature(answer)
    except Exception:  # noqa: BLE001 - a callable without a known signature is tried
        return answer  # type: ignore[no-any-return]
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise AnswerError(f"The function is called with {takes}: {error}.") from None
    return answer  # type: ignore[no-any-return]


def raised(what: str, error: BaseException) -> AnswerError:
    """The message about an answer that raises an error; often a name is missing because a cell has not run."""
    advice = ". If a cell above defines the name, run it first." if isinstance(error, NameError) else ""
    return AnswerError(f"{what} raises {described(error)}{advice}")


def called(answer: Callable[..., Any], names: Sequence[str], values: Sequence[Any]) -> Any:
    """What the learner's function returns. Raises Unanswered for dots, AnswerError for what it raises."""
    shown = [name if _is_long(value) else briefly(value) for name, value in zip(names, values, strict=True)]
    title = f"{named(answer)}({', '.join(shown)})"
    try:
        result = watched(answer)(*values)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise raised(title, error) from error
    if result is ... or result is None:
        returns_nothing = f"{title} returns nothing yet. It should end with a return statement."
        raise Unanswered(DOTS if result is ... else returns_nothing)
    if inspect.iscoroutine(result):
        result.close()
        raise AnswerError(f"{title} returns a coroutine. Leave out async.")
    if inspect.isgenerator(result):
        raise AnswerError(f"{title} returns a generator. Use return, not yield.")
    return result


#: The names of the package's functions that answers enter while they are collected, the innermost collection last.
_ENTERED: list[set[str]] = []


@contextmanager
def entering(answer: Any) -> Iterator[set[str]]:
    """Note which of the package's functions an answer enters; one in another process tells at the end."""
    _ENTERED.append(set())
    try:
        yield _ENTERED[-1]
        tell = getattr(type(answer), "entered", None)
        _ENTERED[-1].update(tell(answer) if tell is not None else ())
    finally:
        _ENTERED.pop()


def watched(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The learner's function or kernel, whose calls are noted; one in another process is watched there."""
    if not _ENTERED or hasattr(type(answer), "entered"):
        return answer
    return Entered(_ENTERED[-1]).around(answer)


def all_called(answer: Callable[..., Any], names: Sequence[str], cases: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """What the learner's function returns in each case, as `called`; one in another process gets all at once.

    >>> from tcemu.course.answers import all_called
    >>> list(all_called(lambda n: n + 1, ["n"], [(1,), (2,)]))
    [2, 3]
    """
    every = list(cases)
    ahead = getattr(type(answer), "ahead", None)
    if ahead is not None:
        ahead(answer, every)
    return (called(answer, names, case) for case in every)


def _is_long(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size > 8


def named(answer: Any) -> str:
    """The name of a function; "your function" if it has none."""
    try:
        name = answer.__name__
    except Exception:  # noqa: BLE001 - an object may raise anything
        name = ""
    return name if isinstance(name, str) and name.isidentifier() else "your function"


@contextmanager
def overheard() -> Iterator[None]:
    """Limit what a function prints: it is called hundreds of times."""
    held = io.StringIO()
    try:
        with redirect_stdout(held):
            yield
    finally:
        text = held.getvalue()
        sys.stdout.write(text[:_PRINTED])
        if len(text) > _PRINTED:
            sys.stdout.write(f"\n... and {counted(len(text) - _PRINTED, 'more character')} printed.\n")


# ---------------------------------------------------------------------------------------------- numbers


def wholes(result: Any, names: Sequence[str], title: str) -> tuple[int, ...]:
    """The whole numbers that a function returned, one for each of `names`. Raises AnswerError."""
    answered(result)
    if isinstance(result, np.ndarray):
        parts = list(np.asarray(result).ravel()[: len(names) + 1])
    else:
        parts = parts_of(result) or [result]
    if len(parts) == len(names):
        whole = [_whole(part) for part in parts]
        if None not in whole:
            return tuple(part for part in whole if part is not None)
    count = _WORDS[len(names)] if len(names) < len(_WORDS) else str(len(names))
    numbers = f"{count} whole {'number' if len(names) == 1 else 'numbers'}"
    raise AnswerError(f"{title} returns {briefly(result)}. It should return {numbers}: {listing(names, 'and')}.")


def _whole(part: Any) -> int | None:
    """A whole number; a float that is one counts, because Python's / makes them. None for anything else."""
    if isinstance(part, np.ndarray | np.generic):
        part = np.asarray(part)
        part = part.item() if part.size == 1 else None
    if isinstance(part, float) and float.is_integer(part):
        return int(float.__mul__(part, 1.0))
    return int.__add__(part, 0) if isinstance(part, int) and not isinstance(part, bool) else None


# ---------------------------------------------------------------------------------------------- arrays


def array(answer: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, what: str) -> Array:
    """The answer as a plain array of that shape and dtype. Raises AnswerError.

    Numbers of another dtype count if `dtype` can hold every one of them; floats do not count as bit patterns.
    """
    answered(answer)
    wanted = np.dtype(dtype)
    try:
        given = np.array(_plain(answer), subok=False)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - an object may raise anything when it is read
        given = np.array(None)
    if given.dtype == object and _has_dots(given):
        raise Unanswered(DOTS)
    if given.dtype.kind not in "biufcV" or given.dtype.names:
        many = f"an array {shape} of {wanted}" if shape else f"one number, {wanted}"
        raise AnswerError(f"{what} must be {many}; got {briefly(answer)}.")
    if given.shape != shape:
        raise AnswerError(f"{what} must have the shape {shape}; got {given.shape}: {_advice(given.shape, shape)}.")
    if given.dtype == wanted:
        return np.array(given, wanted, order="C")
    return _converted(given, wanted, what, isinstance(answer, np.ndarray))


def _plain(answer: Any, depth: int = 0) -> Any:
    """Lists and numbers without their subclasses' methods. Raises TypeError for what numpy would have to ask."""
    if isinstance(answer, list | tuple) and depth < _DEEP:
        return [_plain(part, depth + 1) for part in parts_of(answer)]
    if isinstance(answer, bool | np.ndarray | np.generic | complex) or answer is ...:
        return answer
    if isinstance(answer, int):
        return int.__add__(answer, 0)
    if isinstance(answer, float):
        return float.__mul__(answer, 1.0)  # which keeps -0.0
    if type(answer) is range:
        return np.arange(answer.start, answer.stop, answer.step) if len(answer) < 1 << 20 else None
    return answer.__array__()


def _has_dots(given: Array) -> bool:
    return given.size < 1 << 16 and any(part is ... for part in given.ravel())


def _converted(given: Array, wanted: np.dtype[Any], what: str, from_array: bool) -> Array:
    """Numbers in another dtype, unless that would change them."""
    has, wants = _kind(given.dtype), _kind(wanted)
    if has == "float" and wants == "whole" and given.dtype.itemsize == wanted.itemsize and from_array:
        raise AnswerError(
            f"{what} must have elements of {wanted}: bits; got numbers of {given.dtype}. Use .view({wanted}) to "
            "keep the bits, not astype."
        )
    if has == "other" or wants == "other":
        raise AnswerError(f"{what} must have elements of {wanted}; got {given.dtype}.")
    with np.errstate(all="ignore"):
        converted = given.astype(wanted)
        # Python numbers are rounded as in an assignment to an array.
        rounds = wants == "float" and not from_array
        same = rounds or bool(
            np.all((converted.astype(given.dtype) == given) | (np.isnan(converted) & np.isnan(given)))
        )
    if not same or (wants == "whole" and has == "whole" and not _fits(given, wanted)):
        limits = f", from {np.iinfo(wanted).min} to {np.iinfo(wanted).max}" if wanted.kind in "iu" else ""
        if not given.shape:
            why = f": {_SIGNS}" if wanted.kind == "u" and given.dtype.kind == "i" and given < 0 else ""
            raise AnswerError(f"{what} must be one number, {wanted}{limits}; got {briefly(given.item())}{why}.")
        why = "rounding would change one" if has == wants == "float" else "one does not fit"
        why = "one is not a whole number" if has == "float" and wants == "whole" and not _all_whole(given) else why
        raise AnswerError(f"{what} must have elements of {wanted}{limits}; got {given.dtype}, and {why}.")
    return converted


def _all_whole(given: Array) -> bool:
    numbers = given.astype(np.float64)
    return bool(np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all())


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "biu":
        return "whole"
    return "float" if dtype.kind == "f" or (dtype.kind == "V" and dtype.num >= 256) else "other"  # ml_dtypes


def _fits(given: Array, wanted: np.dtype[Any]) -> bool:
    low, high = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
    return not given.size or (int(given.min()) >= low and int(given.max()) <= high)


def _advice(got: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if got[::-1] == wanted:
        return "transposed"
    if int(np.prod(got)) == int(np.prod(wanted)):
        return "the same number of elements in another shape"
    return f"{counted(int(np.prod(got)), 'element')}, not {int(np.prod(wanted)):,}"

"""Learners' answers as plain data: what cannot be an answer is refused with what was expected in its place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import CourseError, briefly, counted, listing
from tcemu.tracebacks import learners

Array = npt.NDArray[Any]


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
    """`answer`, unless nobody has answered yet. Raises Unanswered."""
    if answer is ... or answer is None or (isinstance(answer, tuple | list) and any(part is ... for part in answer)):
        raise Unanswered("Replace the three dots with your answer.")
    return answer


def function(answer: Any, arguments: Sequence[str]) -> Callable[..., Any]:
    """A function that can be called with `arguments`, by position. Raises AnswerError."""
    answered(answer)
    takes = listing(arguments, "and")
    if not callable(answer):
        raise AnswerError(f"The answer is a function of {takes}; got {briefly(answer)}.")
    try:
        inspect.signature(answer).bind(*arguments)
    except TypeError as error:
        raise AnswerError(f"The function is called with {takes}: {error}.") from None
    except ValueError:  # a callable without a known signature
        pass
    function: Callable[..., Any] = answer
    return function


def called(answer: Callable[..., Any], names: Sequence[str], values: Sequence[Any]) -> Any:
    """What the learner's function returns. Raises Unanswered for dots, AnswerError for what it raises."""
    title = f"{getattr(answer, '__name__', 'your function')}({', '.join(map(briefly, values))})"
    try:
        result = answer(*values)
    except Exception as error:
        raise AnswerError(f"{title} raises {described(error)}") from error
    if result is ... or result is None:
        raise Unanswered(
            "Replace the three dots with your answer."
            if result is ...
            else f"{title} returns nothing yet. It should end with a return statement."
        )
    return result


def described(error: BaseException) -> str:
    """An error in the learner's code: its type, its message and the line."""
    lines = list(learners(error))
    where = f" (line {lines[-1].first} of {lines[-1].function})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"


def wholes(result: Any, names: Sequence[str], title: str) -> tuple[int, ...]:
    """The whole numbers that a function returned, one for each of `names`. Raises AnswerError."""
    parts = [result] if len(names) == 1 and not isinstance(result, tuple | list) else result
    answered(parts)
    try:
        found = [_whole(part) for part in parts]
    except TypeError:
        found = []
    if len(found) != len(names):
        numbers = ("one whole number", "two whole numbers", "three whole numbers")[len(names) - 1]
        raise AnswerError(f"{title} returns {briefly(result)}. It should return {numbers}: {listing(names, 'and')}.")
    return tuple(found)


def _whole(part: Any) -> int:
    """A whole number; a float that is one counts, as Python's / makes them."""
    if isinstance(part, np.ndarray) and part.size == 1:
        part = part.item()
    if isinstance(part, float | np.floating) and float(part).is_integer():
        return int(part)
    if isinstance(part, bool | np.bool_) or not isinstance(part, int | np.integer):
        raise TypeError
    return int(part)


def array(answer: Any, shape: tuple[int, ...], dtype: npt.DTypeLike, what: str) -> Array:
    """The answer as an array of that shape and dtype, bits unchanged. Raises AnswerError.

    Integers may come in any integer dtype that holds them, and patterns as floats of the same width.
    """
    answered(answer)
    wanted = np.dtype(dtype)
    try:
        given = np.asarray(answer)
    except (TypeError, ValueError):
        given = np.asarray(None)
    if given.dtype == object:
        raise AnswerError(f"{what} is an array {shape} of {wanted}; got {briefly(answer)}.")
    if given.shape != shape:
        raise AnswerError(f"{what} has the shape {shape}; got {given.shape}: {_advice(given.shape, shape)}.")
    if given.dtype == wanted:
        return np.ascontiguousarray(given)
    if wanted.kind in "iu" and given.dtype.kind in "iub":
        limits = np.iinfo(wanted)
        if given.size and not (int(given.min()) >= limits.min and int(given.max()) <= limits.max):
            raise AnswerError(f"{what} has elements of {wanted}, from {limits.min} to {limits.max}; one does not fit.")
        return given.astype(wanted)
    if wanted.kind == "f" and isinstance(answer, int | float | list | tuple) and given.dtype.kind in "iuf":
        return given.astype(wanted)
    if wanted.kind in "iu" and given.dtype.kind == "f":
        raise AnswerError(
            f"{what} has elements of {wanted}: bits; got numbers of {given.dtype}. Use .view({wanted}) to keep the "
            "bits, not astype."
        )
    raise AnswerError(f"{what} has elements of {wanted}; got {given.dtype}.")


def _advice(got: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    if got[::-1] == wanted:
        return "transposed"
    if int(np.prod(got)) == int(np.prod(wanted)):
        return "the same number of elements in another shape"
    return f"{counted(int(np.prod(got)), 'element')} and not {int(np.prod(wanted)):,}"

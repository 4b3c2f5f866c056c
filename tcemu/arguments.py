"""Which argument of a public function does not fit: its annotations, in the words of a message.

An `explained` function works as before. If it fails with an error that is not tcemu's, its arguments are compared
with their annotations, and an OperandError names the first one that does not fit.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tcemu.errors import OperandError, TcemuError, briefly, is_whole, listing

__all__ = ["explained", "flag"]

Function = TypeVar("Function", bound=Callable[..., Any])
#: Nothing larger than this fits into memory.
_MOST = 1 << 31


class _ArrayLike:
    """Stands for npt.ArrayLike, a union of protocols that no value can be tested against."""


def explained(function: Function) -> Function:
    """The function, which no longer fails with an error of Python or numpy if an argument does not fit.

    >>> from tcemu.arguments import explained
    >>> @explained
    ... def upper(rows: list[str], first: int = 0) -> list[str]:
    ...     return [row.upper() for row in rows[first:]]
    >>> upper(["a"], "b")
    Traceback (most recent call last):
        ...
    tcemu.errors.OperandError: upper: first must be a whole number; got 'b'
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TcemuError:
            raise
        except Exception as error:
            message = _misfit(function, args, options)
            if message is None and isinstance(error, MemoryError):
                message = f"{function.__qualname__}: there is not enough memory for arguments of this size: {error}"
            if message is None:
                raise
        raise OperandError(message)

    return typing.cast("Function", call)


def flag(value: object, what: str, error: type[TcemuError] = OperandError) -> bool:
    """True or False, also from 0 or 1; anything else raises `error` with a message about `what`.

    >>> from tcemu.arguments import flag
    >>> flag("no", "read")
    Traceback (most recent call last):
        ...
    tcemu.errors.OperandError: read must be True or False; got 'no'
    """
    if isinstance(value, bool | np.bool_) or (is_whole(value) and value in (0, 1)):
        return bool(value)
    raise error(f"{what} must be True or False; got {briefly(value)}")


def _misfit(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> str | None:
    """What is wrong with the first argument that does not fit, or with one that is too large; None if all fit."""
    try:
        arguments = inspect.signature(function).bind(*args, **options).arguments
    except TypeError:
        return None  # Python's own message says which argument is missing or superfluous
    hints = _hints(function)
    name = function.__qualname__
    known = {each: value for each, value in arguments.items() if each in hints}
    for each, value in known.items():
        if not _fits(value, hints[each]):
            return f"{name}: {each} must be {_words(hints[each])}; got {briefly(value)}"
    large = next((each for each, value in known.items() if is_whole(value) and abs(value) >= _MOST), None)
    return None if large is None else f"{name}: {large} is too large; got {briefly(known[large])}"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations as objects; those of *args and **options are about all of them."""
    # numpy's own aliases have no origin: NDArray is opaque since Python 3.12, and ArrayLike is a long union
    numpy_typing = types.SimpleNamespace(ArrayLike=_ArrayLike, NDArray=np.ndarray)
    hints = typing.get_type_hints(function, localns={"npt": numpy_typing})
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _MANY and name in hints:
            hints[name] = _MANY[parameter.kind](hints[name])
    return hints


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is what an annotation says; unknown annotations fit everything."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _TESTS:
        return _TESTS[hint](value)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, each) for each in inner)
    if origin is typing.Literal:
        return isinstance(value, str | int | None) and value in inner
    if origin is tuple and Ellipsis not in inner:
        return isinstance(value, Sequence) and len(value) == len(inner) and all(map(_fits, value, inner))
    if origin in (Iterable, Sequence, list, tuple):
        if isinstance(value, Sequence | np.ndarray):  # an iterator would be used up
            return _is_many(value, origin) and all(_fits(each, inner[0]) for each in value)
        return _is_many(value, origin)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(each, inner[1]) for each in value.values())
    kind = origin or hint
    return not isinstance(kind, type) or getattr(kind, "_is_protocol", False) or isinstance(value, kind)


def _is_many(value: object, kind: type) -> bool:
    """Whether it is a sequence or another iterable; arrays count, strings do not."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable if kind is Iterable else Sequence) and not isinstance(value, str | bytes)


def _is_array(value: object) -> bool:
    """Whether numpy can make an array of numbers of it."""
    try:
        dtype = np.asarray(value).dtype
    except Exception:  # noqa: BLE001 - an object may raise anything
        return False
    return dtype.kind in "biufV" and dtype.type is not np.void  # the numbers of ml_dtypes are of kind V


def _words(hint: Any, *, several: bool = False) -> str:
    """A description of an annotation: ``a whole number or None``; for several things, the plural."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if (kind := hint if hint in _NOUNS else origin) in _NOUNS:
        return _NOUNS[kind][several]
    if origin in (types.UnionType, typing.Union):
        return listing(dict.fromkeys(_words(each, several=several) for each in inner))
    if origin is typing.Literal:
        return listing(map(repr, inner))
    if origin is tuple and Ellipsis not in inner:
        return f"{'tuples' if several else 'a tuple'} of {listing((_words(each) for each in inner), 'and')}"
    if origin in (Iterable, Sequence, list, tuple):
        return f"{'lists' if several else 'a list'} of {_words(inner[0], several=True)}"
    if origin is Mapping:
        return f"{'dicts' if several else 'a dict'} of {_words(inner[1], several=True)}"
    name = getattr(origin or hint, "__name__", str(hint))
    return f"{name} objects" if several else f"a {name} object"


#: The annotation of all arguments of a kind, from that of one of them.
_MANY: dict[Any, Callable[[Any], Any]] = {
    inspect.Parameter.VAR_POSITIONAL: lambda hint: types.GenericAlias(Sequence, (hint,)),
    inspect.Parameter.VAR_KEYWORD: lambda hint: types.GenericAlias(Mapping, (str, hint)),
}
#: Tests of annotations that isinstance cannot make.
_TESTS: dict[Any, Callable[[object], bool]] = {
    int: is_whole,
    float: lambda value: isinstance(value, Real),
    bool: lambda value: isinstance(value, bool | np.bool_ | int),
    _ArrayLike: _is_array,
    Any: lambda _: True,
}
#: Names of annotations, singular and plural.
_NOUNS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    Path: ("a path", "paths"),
    PathLike: ("a path", "paths"),
    bool: ("True or False", "True or False"),
    type(None): ("None", "None"),
    np.ndarray: ("a numpy array", "numpy arrays"),
    _ArrayLike: ("an array of numbers", "arrays of numbers"),
    Callable: ("a function", "functions"),
}

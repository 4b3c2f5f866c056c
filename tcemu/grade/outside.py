"""Answers of a box as judges see them: functions whose calls are messages, and kernels that the machine runs here.

A kernel's warps run on the real machine, under the sanitizer, in this process. Only the kernel's own code is in the
box: each warp asks it for the next operations. So its cost, the rules that it breaks and its results are determined
here, whatever has been patched in the box.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tcemu.grade.inside.wire import Malformed, Reads, record, recorded
from tcemu.grade.warps import NAME, Raised, Reference, Work, legible
from tcemu.machine.global_memory import Pointer
from tcemu.machine.lanes import Lanes
from tcemu.machine.warp import Warp

#: Asks the box to do something; returns its answer. Raises BoxEnded.
Ask = Callable[..., list[Any]]

#: Calls in one message.
_CASES = 512
#: Names of entered functions that are looked at, and their characters.
_NAMES, _NAMED = 1000, 200


class Remote:
    """The functions of one box, and their calls."""

    def __init__(self, ask: Ask, files: Sequence[str]) -> None:
        self._ask = ask
        #: the cells' names, which are the only files whose lines a report may quote
        self._files = frozenset(files)
        self._token = 0
        #: registers of all warps that are alive: banks and bytes
        self.held = [0, 0]
        #: warps whose launch is over
        self.dropped: list[int] = []
        #: what the box may call: the boxes that a Probe hands out
        self._callbacks: list[Callable[..., Any]] = []

    # ------------------------------------------------------------------------------------------ values

    @property
    def known(self) -> dict[str, Reads]:
        """How to read values from the box that are not plain."""
        return {"function": self._function, "record": recorded, "registers": Reference}

    def special(self, value: Any) -> list[Any] | None:
        """How to write values for the box that are not plain."""
        if type(value) is Pointer:
            return ["pointer", int(value), value.dtype.name, ["tuple", *value.shape]]
        if callable(value) and not isinstance(value, np.ndarray | np.generic | Lanes):
            self._callbacks.append(value)
            return ["function", len(self._callbacks) - 1]
        return record(value)

    def callback(self, number: int, arguments: Sequence[Any]) -> Any:
        """Call something that was handed to the box. Raises TcemuError or Malformed."""
        if type(number) is not int or not 0 <= number < len(self._callbacks) or type(arguments) is not tuple:
            raise Malformed("there is no such function")
        return self._callbacks[number](*arguments)

    def _function(self, number: int, name: str, parameters: Any) -> Function:
        return Function(self, number, name, parameters)

    def called(self, number: int, every: Sequence[Sequence[Any]]) -> Iterator[Callable[[], Any]]:
        """Call a function of the box in several cases: each callable returns a result or raises its error."""
        returned, error = self._ask("call", number, [tuple(case) for case in every])[1:]
        if len(returned) + (error is not None) > len(every):
            raise Malformed("more results than calls")
        if not all(map(_is_result, returned)) or not (error is None or _is_error(error)):
            raise Malformed("results that do not have the form of results")
        yield from (partial(_result, *each) for each in returned)
        if error is not None:
            yield partial(_raise, *error)

    def entered(self, number: int) -> list[str]:
        """The package's functions that a function of the box has entered since this was asked before."""
        (names,) = self._ask("entered", number)[1:]
        if not all(type(name) is str for name in names):
            raise Malformed("names that are no text")
        return [legible(name, _NAMED) for name in names[:_NAMES]]

    # ------------------------------------------------------------------------------------------ kernels

    def kernel(self, number: int, warp: Warp, arguments: tuple[Any, ...]) -> Any:
        """Run a warp: the box says which operation is next, until the kernel ends."""
        self._token += 1
        token, work = self._token, Work(warp, self._files, self.held)
        try:
            kind, operations, *rest = self._ask("start", token, number, work.place(), arguments)
            while kind == "operations":
                kind, operations, *rest = self._ask("resume", token, *work.perform(operations))
            token = 0  # the kernel has returned
        finally:
            if token:
                self.dropped.append(token)
                work.release()
        outcome, *said = work.perform(operations)
        work.release()
        warp.core.at = None
        if outcome == "error":  # of an operation that the kernel did not wait for
            raise work.error(said[-1])
        if kind == "raised at":
            raise work.error(*rest)
        return _stand_in(rest[0])


class Function:
    """A function of the box. As a kernel it runs on the machine here."""

    def __init__(self, remote: Remote, number: int, name: str, parameters: Any) -> None:
        self._remote, self._number = remote, number
        #: results that came before they were requested, and the cases that they belong to
        self._known: deque[tuple[tuple[Any, ...], Callable[[], Any]]] = deque()
        known = isinstance(name, str) and name.replace(".<locals>", "").replace(".", "").isidentifier()
        self.__qualname__ = legible(name, NAME) if known else "<lambda>"
        self.__name__ = self.__qualname__.rpartition(".")[2]
        if parameters is not None:
            self.__signature__ = _signature(parameters)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it in the box, or run it for a warp."""
        if named:
            arguments = inspect.signature(self).bind(*arguments, **named).args
        if arguments and type(arguments[0]) is Warp:
            return self._remote.kernel(self._number, arguments[0], arguments[1:])
        if self._known:
            case, result = self._known.popleft()
            if case == arguments:
                return result()
            self._known.clear()
        (result,) = self._remote.called(self._number, [arguments])
        return result()

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"

    def entered(self) -> list[str]:
        """The package's functions that it has entered since this was asked before."""
        return self._remote.entered(self._number)

    def ahead(self, cases: Sequence[Sequence[Any]]) -> None:
        """Call it in several cases at once; the next calls must be these. The first error ends them."""
        self._known.clear()
        for first in range(0, len(cases), _CASES):
            some = [tuple(case) for case in cases[first : first + _CASES]]
            results = list(self._remote.called(self._number, some))
            self._known.extend(zip(some, results, strict=False))
            if len(results) < len(some) or not results:
                break


def _is_result(held: Any) -> bool:
    """Whether it is a pair: what the result has to wait for, and the result."""
    return type(held) is tuple and len(held) == 2 and type(held[0]) is str


def _is_error(held: Any) -> bool:
    """Whether it is an error's name and message."""
    return type(held) is tuple and len(held) == 2 and all(type(part) is str for part in held)


def _result(awaited: Any, value: Any) -> Any:
    return _stand_in(awaited) or value


def _raise(name: Any, text: Any) -> Any:
    raise Raised.of(name, text)


def _stand_in(kind: Any) -> Any:
    """A generator or coroutine in place of the box's, so that the caller sees what kind of function it is."""
    if kind in ("generator", "asyncgen"):
        return (each for each in "")
    if kind == "coroutine":
        return _never()
    return None


async def _never() -> None:
    """A coroutine that is never awaited."""


_PLAIN = inspect.Parameter
#: The kinds of parameters, by their numbers.
_KINDS = (_PLAIN.POSITIONAL_ONLY, _PLAIN.POSITIONAL_OR_KEYWORD, _PLAIN.VAR_POSITIONAL, _PLAIN.KEYWORD_ONLY,
          _PLAIN.VAR_KEYWORD)  # fmt: skip


def _signature(parameters: Any) -> inspect.Signature:
    """The signature that a function of the box has. Raises Malformed."""
    try:
        return inspect.Signature([
            inspect.Parameter(name, _KINDS[kind], default=None if optional else inspect.Parameter.empty)
            for name, kind, optional in parameters[:64]
        ])  # fmt: skip
    except (ValueError, TypeError, IndexError):
        raise Malformed("not a signature") from None

"""The notebook's side of the conversation: it runs cells, calls functions and resumes warps on request.

    from outside        cell, value, facts, call, start, resume, drop, entered   each is answered with one message
    from the notebook   ask: check, given, fact, callback                        each is answered with reply or refuse

Both may be nested: while a check waits for its reply, the outside calls the function that is checked.
"""

from __future__ import annotations

import builtins
import inspect
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import tcemu.errors
from tcemu.cells import Cells
from tcemu.entered import Entered, watch_threads
from tcemu.errors import CourseError
from tcemu.grade.inside import absent, course
from tcemu.grade.inside.alone import Alone, place_of
from tcemu.grade.inside.outcomes import LONGEST, raised, said, unawaited
from tcemu.grade.inside.wire import PREFIX, READY, Reader, Writer, framed, lengths, record, recorded

#: Notes of one cell about what was left out; whole numbers that a name may stand for, such as a shape's, and entries of
#: a list or a dict with such numbers.
_NOTES, _FEW, _ENTRIES = 5, 3, 20


class Session:
    """One notebook in the box."""

    def __init__(self, incoming: int, outgoing: int, alone: bool = False) -> None:
        self._in, self._out = incoming, outgoing
        #: what the cell that runs asks for and does not get
        self._skipped: list[str] = []
        asking = partial(self._asked, "look"), partial(self._asked, "fact")
        self._cells = Alone(self._skipped.append, *asking) if alone else Cells(self._skipped.append)
        #: what the outside may call, by number
        self.functions: list[Callable[..., Any]] = []
        self._numbers: dict[int, int] = {}
        #: the package's functions that each of them has entered, by their numbers
        self.entered: defaultdict[int, Entered] = defaultdict(Entered)
        #: the warps of the kernel that runs
        self.warps: dict[int, Any] = {}
        #: errors that the outside raised, so that it recognises them when they come back
        self.errors: dict[int, int] = {}
        records = absent.record if alone else recorded
        self.reader = Reader({"function": self._callback, "record": records, "pointer": _pointer})
        watch_threads()
        sys.modules["tcemu.course"] = course.module(self)

    # ------------------------------------------------------------------------------------------ messages

    def serve(self) -> None:
        """Report that the box has started, and serve requests until the pipe is closed."""
        self._send(READY)
        while (message := self._receive()) is not None:
            self._send(self._answer(message))

    def ask(self, *question: Any) -> Any:
        """Send a request, and serve the outside's until the reply comes. Raises CourseError if it refuses."""
        self._send(["ask", *question])
        while (message := self._receive()) is not None:
            if message[0] == "reply":
                return message[1]
            if message[0] == "refuse":
                raise CourseError(message[1])
            self._send(self._answer(message))
        raise SystemExit

    def _answer(self, message: list[Any]) -> Any:
        kind, *rest = message
        return getattr(self, f"do_{kind}")(*rest)  # the outside can be trusted in here

    def _receive(self) -> Any:
        prefix = self._read(PREFIX)
        if prefix is None:
            return None
        header, body = lengths(prefix)
        return self.reader.read(self._read(header) or b"", self._read(body) or b"")

    def _read(self, size: int) -> bytes | None:
        held = bytearray()
        while len(held) < size:
            piece = os.read(self._in, size - len(held))
            if not piece:
                return None
            held += piece
        return bytes(held)

    def _send(self, value: Any) -> None:
        message = memoryview(framed(value, self.special))
        while message:
            message = message[os.write(self._out, message) :]

    def special(self, value: Any) -> list[Any] | None:
        """What is sent in a form of its own: registers, records, and functions by a number."""
        value = _source(value)
        warp = sys.modules.get("tcemu.grade.inside.warp")
        held: list[Any] | None = (warp.reference(value) if warp else None) or record(value) or absent.made(value)
        if held or not callable(value) or isinstance(value, str | np.ndarray | np.generic):
            return held
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.functions)
            self.functions.append(value)
        return ["function", number, _name(value), Writer().write(_parameters(value))]

    def _callback(self, number: int) -> Callable[..., Any]:
        return lambda *arguments: self.ask("callback", number, arguments)

    def _asked(self, *question: Any) -> Any:
        """What the outside tells a notebook without tcemu; None if it does not."""
        with suppress(CourseError):
            return self.ask(*question)
        return None

    # ------------------------------------------------------------------------------------------ commands

    def do_cell(self, source: str, file: str) -> list[Any]:
        """Run a cell; the answer is the error that it raised, in words, and what was left out."""
        message = ""
        try:
            self._in_time(self._cells.run, source, file)
        except BaseException as error:  # noqa: BLE001 - a learner's cell may raise anything
            message = said(error)
        skipped = [str(each)[:LONGEST] for each in self._skipped[:_NOTES]]
        self._skipped.clear()
        return ["ran", message, skipped]

    @staticmethod
    def _in_time(function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the notebook's code; a timer that it leaves running would end what comes after it, or the process."""
        try:
            return function(*arguments)
        finally:
            for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
                signal.setitimer(timer, 0)

    def do_value(self, name: str) -> list[Any]:
        """The value of a name at the end of the notebook, and whether there is one."""
        return ["value", name in self._cells.namespace, self._cells.namespace.get(name)]

    def do_call(self, number: int, cases: list[tuple[Any, ...]]) -> list[Any]:
        """Call a function in several cases, up to the first error."""
        results: list[Any] = []
        for case in cases:
            try:
                result = self._in_time(self.entered[number].call, self.functions[number], *case)
            except BaseException as error:  # noqa: BLE001 - a learner's function may raise anything
                return ["returned", results, raised(error)]
            if inspect.iscoroutine(result):
                result.close()
            results.append((unawaited(result), result))
        return ["returned", results, None]

    def do_facts(self, names: list[str]) -> list[Any]:
        """What these names stand for, if it is a whole number, or a few, or a function of the notebook."""
        return ["facts", [fact for name in names for fact in _facts(name, self._cells.namespace.get(name))]]

    def do_start(self, token: int, number: int, place: dict[str, Any], arguments: tuple[Any, ...]) -> Any:
        """Run a kernel for one warp, up to its first operation."""
        from tcemu.grade.inside.warp import begin

        kernel = self.entered[number].around(self.functions[number])
        return begin(self, token, kernel, SimpleNamespace(**place), arguments)

    def do_resume(self, token: int, *outcome: Any) -> Any:
        """Resume a warp with the outcome of its operation."""
        return self.warps[token].resume(outcome)

    def do_entered(self, number: int) -> list[Any]:
        """The package's functions that a function has entered since this was asked before."""
        return ["entered", sorted(self.entered.pop(number, Entered()).names)]

    def do_drop(self, tokens: list[int]) -> Any:
        """End warps whose launch is over."""
        for token in tokens:
            if token in self.warps:
                self.warps.pop(token).end()
        return ["dropped"]

    # ------------------------------------------------------------------------------------------ errors

    def error(self, name: str, text: str, number: int) -> BaseException:
        """The error that the outside raises in a kernel."""
        kind = getattr(tcemu.errors, name, None) or getattr(builtins, name, None)
        error: BaseException = RuntimeError(text)
        if isinstance(kind, type) and issubclass(kind, Exception):
            error = kind.__new__(kind)
            error.args = (text,)
        self.errors[id(error)] = number
        return error


def _facts(name: str, value: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """A name and its numbers, those in a short list or dict by name and key, or a function's own name and line."""
    if type(value) in (list, dict) and len(value) <= _ENTRIES:
        parts = list(value.items() if type(value) is dict else enumerate(value))
        return [(f"{name}[{key!r}]", (part,)) for key, part in parts if type(part) is int]
    if type(value) is not tuple:
        place = place_of(value)
        return [(name, place)] if place else [(name, (value,))] if type(value) is int else []
    return [(name, value)] if len(value) <= _FEW and all(type(each) is int for each in value) else []


def _source(value: Any) -> Any:
    """The CUDA C++ of a kernel that the notebook has compiled, which the outside compiles again; else the value."""
    module = sys.modules.get("tcemu.ptx.kernel")
    if module is None or type(value) is not module.Kernel or not getattr(value.module, "source", ""):
        return value
    return f"%%cuda --arch {value.module.target}\n{value.module.source}"


def _name(function: Any) -> str:
    try:
        return str(function.__qualname__)[:LONGEST]
    except Exception:  # noqa: BLE001 - an object may raise anything
        return type(function).__name__


def _parameters(function: Any) -> list[list[Any]] | None:
    """The parameters of a function: name, kind, and whether it has a default; None if that is unknown."""
    try:
        held = inspect.signature(function).parameters.values()
        return [[each.name, int(each.kind), each.default is not each.empty] for each in held]
    except Exception:  # noqa: BLE001 - a callable without a known signature is tried
        return None


def _pointer(address: int, dtype: str, shape: tuple[int, ...]) -> Any:
    from tcemu.grade.inside.wire import DTYPES
    from tcemu.machine.global_memory import Pointer

    return Pointer(address, DTYPES[dtype], shape)

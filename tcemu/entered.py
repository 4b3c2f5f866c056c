"""Which of the package's functions somebody's code enters while it runs, whatever names it calls them by.

Python's profiler reports every call of a function written in Python. One counts if the package's function is called by
code that is neither the package's nor Python's, numpy's or another library's: through an alias, `getattr`, `map`,
`functools.partial`, or an import of a private module all the same.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

_PACKAGE = f"{Path(__file__).parent}{os.sep}"
#: What stands between a caller and the function that it means: libraries, the wrapper around public functions, and
#: kernels, because numba calls Python functions of theirs while it loads them, and the notice while it compiles.
_BETWEEN = (
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(functools.__file__).parent),  # in a browser, Python's own modules are in an archive
    "<frozen ", "<string>", "<__array_function__",
)  # fmt: skip
_WRAPPERS = tuple(
    f"{_PACKAGE}{name}" for name in ("arguments.py", "entered.py", f"kernels{os.sep}", "notice.py", "progress.py")
)
#: What starts greenlets in a browser, where they are written in Python.
_GREENLET = getattr(find_spec("greenlet"), "origin", None)
#: The ends of names that do not count: an import, a name that is loaded when it is first used, and what print calls.
_NOTHING = ("<module>", "__getattr__", "__repr__", "__str__", "__format__", "__del__")
#: The name that is noted where somebody's code has replaced the profiler, so that nobody knows what it entered.
UNSEEN = "sys.setprofile"
#: ... and where it has started another process, or a thread that nobody watches, which has no profiler.
ELSEWHERE = "os.fork"
#: Functions written in C that do so, and what is noted then; `enable` is cProfile's.
_AWAY = {
    "setprofile": UNSEEN, "enable": UNSEEN,
    "fork": ELSEWHERE, "forkpty": ELSEWHERE, "fork_exec": ELSEWHERE, "system": ELSEWHERE,
    "posix_spawn": ELSEWHERE, "posix_spawnp": ELSEWHERE,
    "start_new_thread": ELSEWHERE, "start_joinable_thread": ELSEWHERE,
}  # fmt: skip
#: Those of them that the module threading calls, which watches its threads.
_THREADS = ("start_new_thread", "start_joinable_thread")
_OURS, _NEUTRAL, _THEIRS = "ours", "neutral", "theirs"


class _Kinds(dict[str, str]):
    """Whose code a file holds."""

    def __missing__(self, file: str) -> str:
        if file.startswith(_WRAPPERS):
            kind = _NEUTRAL
        elif file.startswith(_PACKAGE):  # which may be among the libraries
            kind = _OURS
        else:
            kind = _NEUTRAL if file.startswith(_BETWEEN) else _THEIRS
        self[file] = kind
        return kind


_kinds = _Kinds()


def _is_callback(frame: FrameType) -> bool:
    """Whether Python calls this because an object is gone, at whatever line that happens to be."""
    if frame.f_back is not None and frame.f_back.f_code.co_filename == weakref.__file__:
        return True
    arguments = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return any(isinstance(frame.f_locals.get(name), weakref.ref) for name in arguments)


class Entered:
    """Notes the package's functions that other code enters in this thread, or in this greenlet, and in new threads.

    >>> from tcemu.entered import Entered
    >>> from tcemu import formats
    >>> with Entered() as entered:
    ...     list(map(formats.lookup, ["f16"]))
    [<f16: 1 sign, 5 exponent, 10 mantissa bits, bias 15, largest 65504>]
    >>> sorted(entered.names)
    ['tcemu.formats.table.lookup']
    """

    def __init__(self, names: set[str] | None = None) -> None:
        #: the functions, as "module.name"
        self.names = set() if names is None else names

    def __enter__(self) -> Self:
        if not _active:
            _before.append(threading.getprofile())
            watch_threads()
        if not _here():
            _profilers[threading.get_ident()] = sys.getprofile()
        _active.append((threading.get_ident(), self))
        sys.setprofile(self.called)
        return self

    def __exit__(self, *_: object) -> None:
        here = threading.get_ident()
        _active.remove((here, self))
        own = _here()  # greenlets of a thread share its profiler, and end in any order
        sys.setprofile(own[-1].called if own else _profilers.pop(here))
        if not _active:
            threading.setprofile(_before.pop())

    def called(self, frame: FrameType, event: str, called: Any) -> None:
        """What Python calls as a profiler."""
        if event == "c_call":  # the most frequent by far
            if called.__name__ in _AWAY and frame.f_code.co_filename != __file__:
                self._away(called, frame)
            return
        if event != "call" or _kinds[frame.f_code.co_filename] is not _OURS:
            return
        outer = frame.f_back
        if outer is None or outer.f_code.co_filename == _GREENLET:  # a greenlet's first, which the package has started
            return
        while outer is not None and _kinds[outer.f_code.co_filename] is _NEUTRAL and outer.f_code is not _CALL:
            outer = outer.f_back
        if outer is None or outer.f_code is _CALL or _kinds[outer.f_code.co_filename] is _THEIRS:
            module, name = frame.f_globals.get("__name__"), frame.f_code.co_qualname
            # numba's own frames have no module
            if module is not None and not name.endswith(_NOTHING) and not _is_callback(frame):
                self.names.add(f"{module}.{name}")

    def _away(self, called: Any, frame: FrameType) -> None:
        """Note a function of Python's that takes what follows out of sight."""
        name = called.__name__
        watched = name in _THREADS and frame.f_code.co_filename == threading.__file__
        if not watched and (name != "enable" or hasattr(called.__self__, "getstats")):
            self.names.add(_AWAY[name])

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call somebody's function, and note what it enters, or itself if it is the package's."""
        code, module = _code_of(function)
        if code is not None and _kinds[code.co_filename] is _OURS:
            self.names.add(f"{module}.{code.co_qualname}")
        with self:
            try:
                return function(*arguments)
            finally:
                if sys.getprofile() is None:
                    self.names.add(UNSEEN)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which notes what each call of it enters. The calls may take turns: each has a profiler."""

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            return Entered(self.names).call(function, *arguments)

        return call


#: Those that take notes now, with their threads.
_active: list[tuple[int, Entered]] = []
#: The profilers that they replaced: of each thread, and of threads that start meanwhile.
_profilers: dict[int, Any] = {}
_before: list[Any] = []


def _here() -> list[Entered]:
    """Those that take notes in this thread."""
    return [each for thread, each in _active if thread == threading.get_ident()]


def _in_a_thread(*event: Any) -> None:
    """The profiler of other threads: whoever takes notes meanwhile gets theirs."""
    for _, each in _active[-1:]:
        each.called(*event)


def watch_threads() -> None:
    """Let threads that are started from now on be seen by whoever takes notes while they work."""
    threading.setprofile(_in_a_thread)


#: What calls the code that is watched: whatever lies between it and the package is not the package's, such as code that
#: `exec` made from a string, which looks like that of a dataclass.
_CALL = Entered.call.__code__


def _code_of(function: Any) -> tuple[CodeType | None, str]:
    """The code of a function and its module, also of a method, a decorated function or a partial object."""
    with suppress(Exception):  # an object may raise anything
        for name in ("func", "__func__", "__wrapped__") * 3:
            function = getattr(function, name, function)
        code = function.__code__
        return (code, str(function.__module__)) if isinstance(code, CodeType) else (None, "")
    return None, ""

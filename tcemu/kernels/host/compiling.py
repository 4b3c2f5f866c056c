"""Compiles each kernel when a process first calls it, once for a processor, and keeps it in a cache on disk.

`njit` is numba's, with a cache that processes share: if several need a kernel at the same time, one compiles it, and
the others wait and load what it has stored. All that is compiled, here and in tcemu/native, is in one folder,
`__pycache__` of tcemu/kernels or below the folder that NUMBA_CACHE_DIR names, and belongs to all sources of the two
rooms: `stamp`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite.binding as ll
import numba
from filelock import FileLock, Timeout
from numba.core import caching, event
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

#: The package, its rooms that have compiled functions, and the file beside which numba keeps all of these.
_PACKAGE = Path(__file__).parents[2]
ROOMS = "kernels", "native"
_FILE = str(_PACKAGE / ROOMS[0] / "__init__.py")
#: All functions that `njit` has made, generated ones included, in that order.
FUNCTIONS: list[Any] = []
#: Seconds to wait for another process that compiles the same function, before this one compiles it too.
_PATIENCE = 300.0


def sources() -> list[Path]:
    """The files of the rooms and their sub-rooms."""
    return sorted(path for room in ROOMS for path in (_PACKAGE / room).rglob("*.py"))


@cache
def stamp() -> tuple[tuple[str, float, int], ...]:
    """Name, time and size of each source of the kernels, in sub-rooms too: the cache key of all that is compiled."""
    stats = [(path.relative_to(_PACKAGE).as_posix(), path.stat()) for path in sources()]
    return tuple((name, each.st_mtime, each.st_size) for name, each in stats)


class _SharedCache(FunctionCache):  # type: ignore[misc] # numba is untyped here
    """numba's cache of one function. A process that does not find it there holds a lock until it has stored it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        # numba keeps what it compiles beside each file, and names it after the file; here all of it is in one folder.
        beside = FunctionType(function.__code__.replace(co_filename=_FILE), {})
        beside.__qualname__ = f"{function.__module__}.{function.__qualname__}"
        super().__init__(beside)
        self._py_func = function
        # numba looks at one file only; but what is compiled contains functions of the others.
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp())
        name = re.sub(r"\W+", "-", f"{function.__module__}.{function.__qualname__}")
        self._lock_file = Path(self.cache_path) / f"{name}.lock"
        self._lock: FileLock | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for a signature; None if the caller has to compile it."""
        stored = self._stored(sig, target_context)
        if stored is None:
            self._impl.locator.ensure_cache_path()
            self._lock = FileLock(self._lock_file, timeout=_PATIENCE)  # this process's: a fork does not inherit a lock
            with suppress(Timeout, OSError, NotImplementedError):  # without locks, each process compiles for itself
                self._lock.acquire()
            stored = self._stored(sig, target_context)
            if stored is not None:
                self.release()
        return stored

    def release(self) -> None:
        """Let other processes compile the function, if this one has kept them from it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release(force=True)

    def _stored(self, sig: Any, target_context: Any) -> Any:
        """The function that is stored for a signature; None if there is none, or if it may not be read."""
        with suppress(OSError):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the function compiled for a signature; where nothing can be written, it is for this process alone."""
        try:
            with suppress(OSError):
                super().save_overload(sig, data)
        finally:
            self.release()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba.njit; with `cache=True` processes share the cache."""
    cached = options.pop("cache", False)

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cached and hasattr(dispatcher, "enable_caching"):  # with NUMBA_DISABLE_JIT, numba.njit returns the function
            with suppress(RuntimeError):  # there is no folder to write to: each process compiles for itself
                cache = dispatcher._cache = _SharedCache(function)  # noqa: SLF001 - as enable_caching does with its own
                dispatcher.compile = _unlocked_afterwards(dispatcher.compile, cache)
            FUNCTIONS.append(dispatcher)
        return dispatcher

    return compiled


def _unlocked_afterwards(compiling: Callable[..., Any], cache: _SharedCache) -> Callable[..., Any]:
    """Compile, and let others have the lock even if that fails or a user interrupts it: they would wait for nothing."""

    def compiled(signature: Any) -> Any:
        try:
            return compiling(signature)
        finally:
            cache.release()

    return compiled


def merged(function: Callable[..., Any]) -> Any:
    """A function that numba inlines into its callers before it compiles them.

    numba compiles any other function by itself, and again as a part of each caller. Calls of this one may not unpack
    arguments with `*`.
    """
    return numba.njit(inline="always")(function)


def functions() -> list[Any]:
    """Every function of the kernels that may be compiled, including those generated so far."""
    for source in sources():
        parts = source.relative_to(_PACKAGE.parent).with_suffix("").parts
        import_module(".".join(parts).removesuffix(".__init__"))
    return FUNCTIONS


def cache_folder() -> Path | None:
    """The folder that holds the compiled functions; None if no folder is writable."""
    caches = (dispatcher._cache for dispatcher in functions())  # noqa: SLF001
    return next((Path(cache.cache_path) for cache in caches if isinstance(cache, _SharedCache)), None)


def below_cache_dir() -> str:
    """The folder, in a folder that NUMBA_CACHE_DIR names, where numba looks for the compiled functions."""
    return str(UserProvidedCacheLocator.get_suitable_cache_subpath(_FILE))


def fingerprint() -> str:
    """What compiled functions depend on: numba, Python, the processor as LLVM sees it, and the kernels' sources.

    Two processes with the same fingerprint find what each other has stored.
    """
    digest = hashlib.sha256()
    for source in sources():
        digest.update(source.read_bytes())
        digest.update(str(source.stat().st_mtime).encode())  # a part of `stamp`
    features = hashlib.sha256(get_host_cpu_features().encode()).hexdigest()[:16]
    parts = numba.__version__, sys.version, platform.machine(), ll.get_host_cpu_name(), features, digest.hexdigest()
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------------ why users wait


#: How often `prepare` tries: if it gives up, the first kernel waits.
_ATTEMPTS = 3
#: How the names of modules begin whose functions are announced.
_OWN = tuple(f"tcemu.{room}." for room in ROOMS)


class _Announcer(event.Listener):  # type: ignore[misc] # numba is untyped here
    """Calls `begin` with a kernel's name, and `end`, once for each kernel but not for the functions inside it."""

    def __init__(self, begin: Callable[[str], None], end: Callable[[], None]) -> None:
        self.begin, self.end = begin, end
        self.within: list[bool] = []

    def on_start(self, event: Any) -> None:
        """Call `begin` for a function of this package, unless it is compiled as a part of another."""
        function = event.data["dispatcher"].py_func
        own = function.__module__.startswith(_OWN) and not any(self.within)
        self.within.append(own)
        if own:
            self.begin(function.__qualname__)

    def on_end(self, event: Any) -> None:
        """Call `end` if `begin` was called."""
        if self.within.pop():
            self.end()


def announce_compilation(begin: Callable[[str], None], end: Callable[[], None]) -> None:
    """Call `begin` with the name of every kernel that is compiled from now on, and `end` when it is compiled."""
    event.register("numba:compile", _Announcer(begin, end))


def prepare() -> None:
    """Load numba's tables of types and functions, so that a process does not wait 0.1 s when it needs a kernel."""
    for _ in range(_ATTEMPTS):
        # numba goes through Python's builtins, to which IPython adds names while a cell runs in another thread.
        with suppress(RuntimeError):
            _refresh()
            return


def _refresh() -> None:
    # A context is made under a lock of its own and then takes the compiler's: with the compiler's held first, a thread
    # that imports kernels meanwhile could wait for this one, and this one for it.
    contexts = cpu_target.typing_context, cpu_target.target_context
    with global_compiler_lock:
        for each in contexts:
            each.refresh()


# ------------------------------------------------------------------------------------- where nothing may be written

#: numba changed the name when it let others choose a locator.
_Beside: Any = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator  # noqa: SLF001


class ReadOnlyCache(_Beside):  # type: ignore[misc]
    """The folder that another process has filled, which need not be writable.

    The grader's boxes name this class in NUMBA_CACHE_LOCATOR_CLASSES, and the folder in TCEMU_KERNEL_CACHE.
    """

    def ensure_cache_path(self) -> None:
        """Do nothing: cache misses compile, unsaved."""

    def get_cache_path(self) -> str:
        """The folder."""
        return os.environ.get("TCEMU_KERNEL_CACHE") or str(super().get_cache_path())

"""Compiles each kernel when a process first calls it, once for a processor.

`njit` is numba's, with a cache on disk that processes share: if several need a kernel at the same time, one compiles
it, and the others wait and load what it has stored.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import llvmlite.binding as ll
import numba
from filelock import FileLock, Timeout
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.codegen import get_host_cpu_features

#: All functions that `njit` has made, generated ones included, in that order.
FUNCTIONS: list[Any] = []
#: Seconds to wait for another process that compiles the same function, before this one compiles it too.
_PATIENCE = 300.0


@cache
def stamp() -> tuple[tuple[str, float, int], ...]:
    """Name, time and size of each source of the kernels: what is compiled belongs to just these."""
    found = [(path.name, path.stat()) for path in sorted(Path(__file__).parent.glob("*.py"))]
    return tuple((name, each.st_mtime, each.st_size) for name, each in found)


class _SharedCache(FunctionCache):  # type: ignore[misc] # numba is untyped here
    """numba's cache of one function. A process that does not find it there holds a lock until it has stored it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # numba looks at the function's own file only; but what is compiled contains functions of the others.
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp())
        name = re.sub(r"\W+", "-", f"{function.__module__}.{function.__qualname__}")
        self._lock = FileLock(Path(self.cache_path) / f"{name}.lock", timeout=_PATIENCE)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for a signature; None if the caller has to compile it."""
        found = self._stored(sig, target_context)
        if found is None:
            self._impl.locator.ensure_cache_path()
            with suppress(Timeout, OSError, NotImplementedError):  # without locks, each process compiles for itself
                self._lock.acquire()
            found = self._stored(sig, target_context)
            if found is not None:
                self._lock.release(force=True)
        return found

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
            self._lock.release(force=True)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba.njit; with `cache=True` processes share the cache."""
    cached = options.pop("cache", False)

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cached and hasattr(dispatcher, "enable_caching"):  # with NUMBA_DISABLE_JIT, numba.njit returns the function
            with suppress(RuntimeError):  # there is no folder to write to: each process compiles for itself
                dispatcher._cache = _SharedCache(function)  # noqa: SLF001 - as enable_caching does with numba's own
            FUNCTIONS.append(dispatcher)
        return dispatcher

    return compiled


def merged(function: Callable[..., Any]) -> Any:
    """A function that numba inlines into its callers before it compiles them.

    numba compiles any other function by itself, and again as a part of each caller. Calls of this one may not unpack
    arguments with `*`.
    """
    return numba.njit(inline="always")(function)


def functions() -> list[Any]:
    """Every function of the kernels that may be compiled, including those generated so far."""
    folder = Path(__file__).parent
    for module in iter_modules([str(folder)]):
        import_module(f"{__package__}.{module.name}")
    return FUNCTIONS


def cache_folder() -> Path | None:
    """The folder that holds the compiled functions; None if no folder is writable."""
    caches = (dispatcher._cache for dispatcher in functions())  # noqa: SLF001
    return next((Path(cache.cache_path) for cache in caches if isinstance(cache, _SharedCache)), None)


def below_cache_dir() -> str:
    """The folder, in a folder that NUMBA_CACHE_DIR names, where numba looks for the compiled functions."""
    return str(UserProvidedCacheLocator.get_suitable_cache_subpath(__file__))


def fingerprint() -> str:
    """What compiled functions depend on: numba, Python, the processor as LLVM sees it, and the kernels' sources.

    Two processes with the same fingerprint find what each other has stored.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
        digest.update(str(source.stat().st_mtime).encode())  # a part of `stamp`
    features = hashlib.sha256(get_host_cpu_features().encode()).hexdigest()[:16]
    parts = numba.__version__, sys.version, platform.machine(), ll.get_host_cpu_name(), features, digest.hexdigest()
    return "\n".join(parts)

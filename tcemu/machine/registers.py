"""Registers of a warp: an array (32, n) that notices who touches it.

A kernel treats them as the numpy array that they stand for: index them, assign to them, compute with them. What is read
and written is told to the observers; results that are still under way read as poison.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from tcemu.errors import LaunchError, OperandError

Array = npt.NDArray[Any]

#: What a register holds that nobody has written, or whose result is still under way: a NaN in f32, f16 and bf16.
POISON = 0x7FFFDEAD


class Watcher(Protocol):
    """Whom registers tell that they are touched: the warp they belong to."""

    @property
    def active(self) -> Array:
        """Lanes that take part in what happens now, bool (32,)."""

    def touched(self, registers: Registers, writes: bool, which: tuple[int, ...], unwritten: tuple[int, ...]) -> None:
        """Registers `which` are read or written; of `unwritten`, read, some lane was never written."""


class Registers(NDArrayOperatorsMixin):
    """Registers (32, n) of uint32 or uint64 of one warp.

    `origin` says which instruction they came from, as (instruction, role, target). Reading (indexing, any numpy
    function) answers copies; assigning to `registers[...]` writes. `bits` is the content as it is, unobserved.
    """

    def __init__(self, bits: Array, watcher: Watcher | None = None) -> None:
        if bits.ndim != 2 or bits.dtype not in (np.uint32, np.uint64):
            raise OperandError(
                f"registers of a warp are an array (32, n) of uint32 or uint64; got {bits.dtype} {bits.shape}"
            )
        self.bits = bits
        self.origin: tuple[Any, str, str] | None = None
        #: mma_asyncs under way that write them
        self.pending = 0
        #: whether a pending result hides the content
        self.veiled = False
        self._watcher = watcher
        self._numbers = np.arange(bits.shape[1])
        self._unwritten: Array | None = None

    # ---------------------------------------------------------------------------------------- as an array

    @property
    def shape(self) -> tuple[int, ...]:
        """(32, n)."""
        return self.bits.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint32, or uint64 for f64."""
        return self.bits.dtype

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, key: Any) -> Any:
        self.touch(False, key, moves=True)
        return self._seen()[key].copy() if self._is_view(key) else self._seen()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write active lanes; the others keep what they have."""
        given = self._patterns(value)
        self.touch(True, key)
        kept = np.zeros(len(self), bool) if self._watcher is None else ~self._watcher.active
        before = self.bits[kept]
        try:
            self.bits[key] = given
        except ValueError as error:
            raise OperandError(f"{self!r}[{key!r}] does not hold a value of shape {given.shape}: {error}") from None
        self.bits[kept] = before
        if self._unwritten is not None:
            before = self._unwritten[kept]
            self._unwritten[key] = False
            self._unwritten[kept] = before

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        self.touch(False, moves=True)
        return self._seen().astype(self.dtype if dtype is None else dtype, copy=True)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
        given = [value.used() if isinstance(value, Registers) else value for value in inputs]
        if out is None:
            return getattr(ufunc, method)(*given, **keywords)
        (target,) = out
        result = getattr(ufunc, method)(*given, **keywords)
        target[...] = result
        return target

    def used(self) -> Array:
        """A numpy array of the content, for an operation that uses every active lane of it."""
        self.touch(False)
        return self._seen().copy()

    def copy(self) -> Array:
        """A numpy array of the content, read now."""
        return np.asarray(self)

    def view(self, dtype: npt.DTypeLike) -> Array:
        """The content, read now, as another dtype."""
        return np.asarray(self).view(dtype)

    def __repr__(self) -> str:
        came = f" of {self.origin[0]}" if self.origin else ""
        state = ", result under way" if self.pending else ""
        return f"<registers{came} {self.shape} {self.dtype}{state}>"

    # ---------------------------------------------------------------------------------------- being watched

    def touch(self, writes: bool, key: Any = ..., *, moves: bool = False) -> None:
        """Tell the watcher that the kernel reads or writes `registers[key]`.

        What only `moves` may be chosen from later: it is read where some active lane of a register was written.
        """
        if self._watcher is None:
            return
        which = self._which(key)
        unwritten: tuple[int, ...] = ()
        if self._unwritten is not None and not writes:
            if not self._unwritten.any():
                self._unwritten = None
            else:
                read = np.zeros(self.shape, bool)
                read[key] = True
                missing = read & self._unwritten & self._watcher.active[:, None]
                wanted = missing.any(axis=0)
                if moves:
                    wanted &= ~(read & ~self._unwritten & self._watcher.active[:, None]).any(axis=0)
                unwritten = tuple(np.flatnonzero(wanted).tolist())
        self._watcher.touched(self, writes, which, unwritten)

    def leave_unwritten(self, lanes: Array) -> None:
        """Nobody has written them in these lanes, bool (32,)."""
        self._unwritten = np.repeat(lanes[:, None], self.bits.shape[1], axis=1) if lanes.any() else None

    def unwritten(self) -> tuple[int, ...]:
        """Numbers of the registers that some lane never wrote."""
        return () if self._unwritten is None else tuple(np.flatnonzero(self._unwritten.any(axis=0)).tolist())

    def filled(self) -> None:
        """An instruction has written all of them."""
        self._unwritten = None

    def _patterns(self, value: Any) -> Array:
        """What is to be written, as integers."""
        try:
            array = np.asarray(value)
        except LaunchError:  # the sanitizer's, about registers that are read here
            raise
        except Exception as error:  # noqa: BLE001 - whatever an object's __array__ raises
            raise OperandError(f"not an array: {error}") from None
        if array.dtype.kind not in "iub":
            raise OperandError(
                f"registers hold bits, written as integers; got dtype {array.dtype}. Say which bits are meant: "
                f".view(np.{self.dtype}), or Fragment.pack"
            )
        return array

    def _which(self, key: Any) -> tuple[int, ...]:
        if key is Ellipsis:
            return tuple(range(self.bits.shape[1]))
        try:
            chosen = np.broadcast_to(self._numbers, self.shape)[key]
        except IndexError as error:
            raise OperandError(f"{self!r} has no [{key!r}]: {error}") from None
        return tuple(np.unique(chosen).tolist())

    def _seen(self) -> Array:
        return np.full_like(self.bits, POISON) if self.veiled and self.pending else self.bits

    @staticmethod
    def _is_view(key: Any) -> bool:
        """Whether numpy answers `key` with a view, which a later write would change."""
        parts = key if isinstance(key, tuple) else (key,)
        return any(part is Ellipsis or part is None or isinstance(part, slice) for part in parts)

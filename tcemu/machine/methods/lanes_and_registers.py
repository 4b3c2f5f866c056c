"""The lanes of a warp and its registers: only, exit, registers (PTX ISA 9.1, 9.7.12.7)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly, is_whole
from tcemu.machine.core import Core
from tcemu.machine.masks import FULL, bits_of
from tcemu.machine.registers import WARP, Registers

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp

#: The shapes of a mask of lanes: one bool for all of them, or one for each.
_SHAPES = (), (WARP,)
#: The most registers that `registers` allocates at once, more than any thread has.
_MOST = 1024


def only(self: Warp, mask: npt.ArrayLike) -> AbstractContextManager[None]:
    """Within `with warp.only(mask):` only the lanes of `mask` are active: bool (32,), or one bool for all.

    The mask may be empty. An operation without active lanes does nothing; the registers that it returns are
    unwritten. Raises OperandError for anything but bools.
    """
    wanted = self.core.values(mask)
    if wanted.dtype.kind != "b" or wanted.shape not in _SHAPES:
        raise OperandError(f"a mask of lanes is bool (32,); got dtype {wanted.dtype}, shape {wanted.shape}")
    return _Only(self.core, bits_of(wanted) if wanted.ndim else FULL * bool(wanted))


def exit(self: Warp) -> None:  # noqa: A001 - PTX's name
    """exit: the active lanes exit and take part in nothing that follows (PTX ISA 9.7.12.7).

    After the last lane has exited, the Python function still runs to its end, but its operations do nothing.
    """
    if self.core.bits:
        self.core.by()
    self.core.exit()


def registers(self: Warp, count: int, fill: int | None = None, dtype: npt.DTypeLike = np.uint32) -> Registers:
    """New registers (32, count) of the warp, filled with `fill` or, without it, unwritten.

    Raises OperandError for a count that is not 1 to 1024, a `fill` that does not fit, or a dtype other than uint32
    and uint64.
    """
    if not is_whole(count) or not 1 <= count <= _MOST:
        raise OperandError(f"the number of registers is an integer from 1 to {_MOST}; got {briefly(count)}")
    kind = _register_dtype(dtype)
    if fill is None:
        return self.core.blank(int(count), kind)
    bits = 8 * kind.itemsize
    if not isinstance(fill, int | np.integer) or not -(1 << bits - 1) <= fill < 1 << bits:
        raise OperandError(f"registers are filled with an integer of {bits} bits; got {briefly(fill)}")
    return self.core.made(np.full((WARP, count), int(fill) % (1 << bits), kind), FULL)


class _Only:
    """Inside the with block, only lanes of a mask are active. Lanes that exit inside do not become active again."""

    __slots__ = ("_before", "_core", "_mask")

    def __init__(self, core: Core, mask: int) -> None:
        self._core, self._mask, self._before = core, mask, 0

    def __enter__(self) -> None:
        self._before = self._core.bits
        self._core.bits &= self._mask

    def __exit__(self, *_: object) -> None:
        self._core.bits = self._before & self._core.present


def _register_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except Exception:  # noqa: BLE001 - numpy raises many errors, even SyntaxError
        kind = np.dtype(object)
    if kind not in (np.uint32, np.uint64):
        raise OperandError(f"registers are uint32, or uint64 for f64; got dtype {briefly(dtype)}")
    return kind

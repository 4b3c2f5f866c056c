"""What every operation of a warp needs: who and where, which lanes take part, registers, whom to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, LaunchError, MemoryFault, OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.machine.barriers import WARP
from tcemu.machine.block import Block, Index3
from tcemu.machine.events import By, Faulted, Issued, Site, Space, Touched, Waiting
from tcemu.machine.memory import Bytes
from tcemu.machine.operations import changes_something, check_gate
from tcemu.machine.registers import POISON, Registers
from tcemu.machine.sites import site

Array = npt.NDArray[Any]
Wait = Literal["barrier", "mbarrier", "warpgroup", "registers"]

#: More registers than any thread has.
_MOST = 1024


def _constant(array: Array) -> Array:
    array.flags.writeable = False
    return array


class Core:
    """A warp of a block. Operations are added by the classes that derive from it."""

    def __init__(self, block: Block, index: int) -> None:
        self._block = block
        #: The warp's number in its block.
        self.index = index
        #: 0 to 31.
        self.lanes = _constant(np.arange(WARP))
        #: Each lane's number in the block, (32,).
        self.threads = _constant(index * WARP + self.lanes)
        #: Lanes that exist; the last warp of a block may not be full.
        self._there = self.threads < block.shape.threads
        self._active = self._there.copy()
        #: The line of the latest operation.
        self._latest = Site("?", 0, "?")

    # ---------------------------------------------------------------------------------------- who and where

    @property
    def block(self) -> Index3:
        """%ctaid: the block's place in the grid, (x, y, z)."""
        return self._block.index

    @property
    def grid(self) -> Index3:
        """%nctaid: blocks of the grid, (x, y, z)."""
        return self._block.shape.grid

    @property
    def block_shape(self) -> Index3:
        """%ntid: threads of a block, (x, y, z)."""
        return self._block.shape.block

    @property
    def thread(self) -> tuple[Array, Array, Array]:
        """%tid: each lane's place in its block, x, y and z (32,)."""
        x, y, _ = self._block.shape.block
        return self.threads % x, self.threads // x % y, self.threads // (x * y)

    @property
    def warpgroup(self) -> int:
        """The number of the warpgroup: four warps that begin at a multiple of four."""
        return self.index // 4

    @property
    def target(self) -> str:
        """The target that the launch runs on: "sm_90a"."""
        return self._block.shape.target

    @property
    def active(self) -> Array:
        """Which lanes take part in operations now, bool (32,)."""
        return self._active.copy()

    @contextmanager
    def only(self, mask: npt.ArrayLike) -> Iterator[None]:
        """Only lanes of `mask` (bool, (32,) or one for all) take part in what is done inside; none is allowed.

        An operation without active lanes does nothing; registers that it would bring are unwritten.
        """
        wanted = self._values(mask)
        if wanted.dtype != np.bool_ or wanted.shape not in ((), (WARP,)):
            raise OperandError(f"a mask of lanes is bool (32,); got dtype {wanted.dtype}, shape {wanted.shape}")
        before = self._active
        self._active = before & wanted
        try:
            yield
        finally:
            self._active = before

    def __repr__(self) -> str:
        return f"<warp {self.index} of block {self.block}: {int(self._active.sum())} active lanes>"

    def _exit(self) -> None:
        """exit: the warp's end, which the machine lets it come to when the kernel returns."""
        self._block.leave(self._by(self._latest))

    # ---------------------------------------------------------------------------------------- registers

    def registers(self, count: int, fill: int | None = None, dtype: npt.DTypeLike = np.uint32) -> Registers:
        """Registers (32, count) of the warp, all of them `fill`, or never written."""
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 1 <= count <= _MOST:
            raise OperandError(f"a number of registers is an integer from 1 to {_MOST}; got {briefly(count)}")
        kind = self._register_dtype(dtype)
        if fill is not None and (
            not isinstance(fill, int | np.integer) or not -(1 << 8 * kind.itemsize - 1) <= fill < 1 << 8 * kind.itemsize
        ):
            raise OperandError(f"registers are filled with an integer of {8 * kind.itemsize} bits; got {briefly(fill)}")
        bits = np.full((WARP, count), (POISON if fill is None else int(fill)) % (1 << 8 * kind.itemsize), kind)
        return self._made(bits, np.ones(WARP, bool) if fill is not None else np.zeros(WARP, bool))

    @staticmethod
    def _register_dtype(given: npt.DTypeLike) -> np.dtype[Any]:
        try:
            found = np.dtype(given)
        except Exception:  # noqa: BLE001 - numpy raises much, SyntaxError too
            found = np.dtype(object)
        if found not in (np.uint32, np.uint64):
            raise OperandError(f"registers are uint32, or uint64 for f64; got dtype {briefly(given)}")
        return found

    def _made(self, bits: Array, written: Array, origin: tuple[Any, str, str] | None = None) -> Registers:
        """Registers with content, of which only lanes in `written` were written."""
        made = Registers(bits, self)
        made.origin = origin
        made.leave_unwritten(~written & self._there)
        if written.any():
            made.touch(True)
        return made

    def touched(self, registers: Registers, writes: bool, which: tuple[int, ...], unwritten: tuple[int, ...]) -> None:
        """The kernel touches registers of this warp."""
        if self._block.observers:
            self._block.tell(Touched, self._by(), registers, writes, which, unwritten)

    def _values(self, given: Any) -> Array:
        """The content of an operand, read now."""
        try:
            return given.used() if isinstance(given, Registers) else np.asarray(given)
        except LaunchError:  # the sanitizer's, about registers that are read here
            raise
        except Exception as error:  # noqa: BLE001 - whatever an object's __array__ raises
            raise OperandError(f"not an array: {error}") from None

    # ---------------------------------------------------------------------------------------- operations

    def _by(self, where: Site | None = None) -> By:
        bits = int(np.packbits(self._active, bitorder="little").view("<u4")[0])
        self._latest = where or site()
        return By(self._block.number, self.index, bits, self._latest)

    def _issue(
        self,
        opcode: str,
        *,
        aligned: bool = False,
        instruction: Instruction | None = None,
        operands: tuple[tuple[str, Registers], ...] = (),
    ) -> By | None:
        """An operation begins: others may go first, observers hear of it. None where no lane takes part."""
        check_gate(opcode, self.target)
        if not self._active.any():
            return None
        self._block.scheduler.pause(self.index, changes=changes_something(opcode))
        if self._block.failure is not None:
            raise self._block.failure
        self._block.counts[opcode] += 1
        by = self._by()
        self._block.tell(Issued, by, opcode, aligned, instruction, operands)
        return by

    def _wait(self, by: By, kind: Wait, key: int, ready: Callable[[], bool], what: Callable[[], str]) -> None:
        self._block.scheduler.wait(self.index, ready, lambda: Waiting(by, what(), kind, key))

    def _look(self, by: By, kind: Wait, key: int, found: bool, what: Callable[[], str]) -> None:
        """The warp asked whether something has happened; if not, others go first."""
        self._block.scheduler.looked(self.index, found, lambda: Waiting(by, what(), kind, key))

    def _space(self, space: Space) -> Bytes:
        return self._block.shared if space == "shared" else self._block.memory

    def _fault(self, by: By, opcode: str, space: Space, error: AddressError) -> NoReturn:
        """An access that the hardware would not make: the launch ends."""
        self._block.tell(Faulted, by, opcode, error.kind, space, str(error))
        self._block.fail(MemoryFault(f"{error} ({by})"))

    def _lanes_of(self, given: Any, what: str) -> Array:
        """An integer for each lane, int64 (32,), from one for all or one for each."""
        array = self._values(given)
        if array.dtype.kind not in "iu" or array.shape not in ((), (WARP,), (WARP, 1)):
            raise OperandError(
                f"{what}: one integer for all lanes or (32,), one for each; got {array.dtype} {array.shape}"
            )
        return np.broadcast_to(array.reshape(-1) if array.ndim else array, (WARP,)).astype(np.int64)

    def _distinct(self, given: Any, what: str) -> list[tuple[int, int]]:
        """(value, how many active lanes give it), in the order of lanes."""
        values = self._lanes_of(given, what)[self._active].tolist()
        return [(value, values.count(value)) for value in dict.fromkeys(values)]

"""Atomic operations on memory: atom and red (PTX ISA 9.1, 9.7.13.5 and 9.7.13.6), scalar and packed types.

Lanes that name the same place come one after the other, under seed 0 in their order, under others in any.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tcemu.errors import IllegalInstruction, OperandError
from tcemu.instructions.targets import Gate, target_named
from tcemu.machine.barriers import WARP
from tcemu.machine.core import Array
from tcemu.machine.events import Order, Space
from tcemu.machine.loads import Form, Loads, form_of
from tcemu.machine.orders import ATOM as ORDERS_OF_ATOM
from tcemu.machine.orders import RED as ORDERS_OF_RED
from tcemu.machine.orders import ordered
from tcemu.machine.reductions import ATOM, CAS, RED, Reduction, reduction
from tcemu.machine.registers import POISON, Registers

ATOM_SECTION, RED_SECTION = "9.7.13.5", "9.7.13.6"
#: Types that came later than the instructions.
_GATES = {"bf16": Gate("7.8", ("sm_90",)), "bf16x2": Gate("7.8", ("sm_90",))}
#: What an order says of the reading and of the writing.
_READS: dict[Order, Order] = {"acquire": "acquire", "acq_rel": "acquire"}
_WRITES: dict[Order, Order] = {"release": "release", "acq_rel": "release"}

#: New bytes of one place, from what is there and what a lane gives.
_Step = Callable[..., Array]


class Atomics(Loads):
    """atom and red of shared and global memory."""

    def atom_shared(
        self,
        operation: str,
        addresses: npt.ArrayLike,
        b: npt.ArrayLike,
        c: npt.ArrayLike | None = None,
        *,
        order: str = "",
    ) -> Registers:
        """atom.shared: registers (32, 1) of what stood at each lane's address before.

        `operation` has its type, as PTX spells it: "add.u32", "min.s32", "exch.b32", "add.noftz.f16x2", "cas.b32". `b`
        is (32,), or one for all; "cas" compares with `b` and stores `c`. `order` is "relaxed", "acquire", "release" or
        "acq_rel", with a scope behind it or not.
        """
        return self._atom("shared", operation, addresses, b, c, order)

    def atom_global(
        self,
        operation: str,
        addresses: npt.ArrayLike,
        b: npt.ArrayLike,
        c: npt.ArrayLike | None = None,
        *,
        order: str = "",
    ) -> Registers:
        """atom.global, as atom_shared. Additions of f32 take subnormals for zeros, those in shared memory do not."""
        return self._atom("global", operation, addresses, b, c, order)

    def red_shared(self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
        """red.shared: as atom_shared, without an answer; no "exch", no "cas", no order "acquire" or "acq_rel"."""
        self._red("shared", operation, addresses, b, order)

    def red_global(self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
        """red.global, as red_shared."""
        self._red("global", operation, addresses, b, order)

    # ---------------------------------------------------------------------------------------- how

    def _atom(
        self,
        space: Space,
        operation: str,
        addresses: npt.ArrayLike,
        b: npt.ArrayLike,
        c: npt.ArrayLike | None,
        said: str,
    ) -> Registers:
        order, spelling = ordered("atom", said, ORDERS_OF_ATOM, space)
        swaps = isinstance(operation, str) and operation.startswith("cas")
        if swaps != (c is not None):
            raise OperandError(
                f"atom.{space}.{operation} takes {'b, which is compared, and c' if swaps else 'one operand, b'} (PTX "
                f"ISA {ATOM_SECTION})"
            )
        size, step = _swap(operation) if swaps else _apply(operation, space)
        opcode = f"atom{spelling}.{space}.{operation}"
        given = (b,) if c is None else (b, c)
        return self._exchange(opcode, space, addresses, given, size, step, order, ATOM_SECTION)

    def _red(self, space: Space, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, said: str) -> None:
        order, spelling = ordered("red", said, ORDERS_OF_RED, space)
        reduction("red", operation, RED, RED_SECTION)
        size, step = _apply(operation, space)
        opcode = f"red{spelling}.{space}.{operation}"
        self._exchange(opcode, space, addresses, (b,), size, step, order, RED_SECTION)

    def _exchange(
        self,
        opcode: str,
        space: Space,
        addresses: npt.ArrayLike,
        given: tuple[npt.ArrayLike, ...],
        size: int,
        step: _Step,
        order: Order,
        section: str,
    ) -> Registers:
        """Every active lane, one after the other: what was there, and what it becomes."""
        self._check_type(opcode)
        form = form_of(f"b{8 * size}")
        found = np.full((WARP, 1), POISON, form.register)
        by = self._issue(opcode)
        active = self._active
        if by is None:
            return self._made(found, active & False)
        where = self._lanes_of(addresses, f"{opcode}: addresses")[active]
        patterns = [self._operand(opcode, each, form)[active] for each in given]
        if ".exch." not in opcode:
            self._access(by, opcode, space, False, where, form, section, _READS.get(order, "relaxed"))
        self._access(by, opcode, space, True, where, form, section, _WRITES.get(order, "relaxed"))
        memory = self._space(space)
        before = memory.read(where, size)
        lanes = list(range(len(where)))
        if self._block.shape.seed:
            self._block.scheduler.random.shuffle(lanes)
        old = np.zeros_like(before)
        for lane in lanes:
            place = where[lane : lane + 1]
            old[lane] = memory.read(place, size)
            memory.write(place, step(old[lane], *(each[lane] for each in patterns)).reshape(1, size))
        if np.array_equal(memory.read(where, size), before):
            self._loaded(by, space, where, before)
        else:
            self._block.scheduler.changed(self.index)
        found[active] = old.view(form.element).astype(form.register)
        return self._made(found, active)

    def _operand(self, opcode: str, given: npt.ArrayLike, form: Form) -> Array:
        """Bytes (32, size) of an operand; of halves in registers the low bits count."""
        values = self._values(given)
        wide = form_of("b32") if form.bits < 32 and values.dtype.kind != "f" else form
        return np.ascontiguousarray(self._patterns(opcode, values, wide).astype(form.element)).view(np.uint8)

    def _check_type(self, opcode: str) -> None:
        gate = _GATES.get(opcode.rpartition(".")[2])
        if gate is not None and not gate.admits(target_named(self.target)):
            raise IllegalInstruction(
                f"{opcode} does not exist on {self.target}: it needs {gate.targets} (PTX ISA {ATOM_SECTION})"
            )


def _apply(operation: str, space: Space) -> tuple[int, _Step]:
    """The bytes of an operation, and what it does."""
    row: Reduction = reduction("atom", operation, ATOM, ATOM_SECTION)
    flush = space == "global" and row.element == "f32"
    return row.bytes, lambda old, b: row(old, b, flush=flush)


def _swap(operation: str) -> tuple[int, _Step]:
    """The same for compare and swap."""
    size = CAS.get(operation)
    if size is None:
        raise OperandError(f"atom.cas has the types b16, b32 and b64; got {operation!r} (PTX ISA {ATOM_SECTION})")
    return size, lambda old, b, c: c if np.array_equal(old, b) else old

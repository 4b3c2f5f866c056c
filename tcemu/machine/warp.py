"""The warp that a kernel is called with."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import signature
from itertools import zip_longest
from typing import Any

import numpy as np

from tcemu.errors import AddressError, IllegalInstruction, OperandError, briefly, listing
from tcemu.instructions import Instruction, parse, run
from tcemu.instructions.family import Family
from tcemu.instructions.memory import Told, uniform
from tcemu.instructions.table import family_of
from tcemu.machine.atomics import Atomics
from tcemu.machine.bar_red import BarrierReductions
from tcemu.machine.barriers import WARP
from tcemu.machine.copies import Copies
from tcemu.machine.core import Array
from tcemu.machine.events import Accessed, By, Space
from tcemu.machine.exchange import Exchange
from tcemu.machine.fences import Fences
from tcemu.machine.memory import SHARED_WINDOW
from tcemu.machine.operations import Call, check_gate, spoken, unspoken
from tcemu.machine.registers import Registers
from tcemu.machine.warpgroup import Warpgroups

#: Arguments of tcemu.run that hold memory, and the state spaces behind them.
_SPACES: dict[str, Space] = {"shared": "shared", "memory": "global"}

#: Operands of which a lane gives one: addresses of rows, and a pointer, which all lanes give alike.
_A_LANE = ("addresses", "pointer")


class Warp(Atomics, Exchange, BarrierReductions, Fences, Copies, Warpgroups):
    """A warp of a running kernel: what it is, and everything it can do.

    The operations are named after the PTX opcode, with underscores. Addresses are bytes: shared ones count from the
    start of the block's shared memory, global ones are pointers. An integer, or a (32,) array with one a
    lane, will do. Results are registers of the warp, arrays (32, n); predicates are bool (32,).
    """

    def run(self, instruction: str | Instruction, *operands: Any) -> Any:
        """Execute a PTX instruction, given as the opcode with all its qualifiers, on operands in PTX's order.

        As tcemu.run for one warp, with the block's memory understood. The answer is registers (32, n), or None for a
        store. Each warp of a warpgroup gives wgmma.mma_async its own (32, n) of the accumulator, which the answer is
        too, once a wgmma.wait_group covers it. Other instructions of the machine are spelt in full as well:
        `warp.run("bar.sync", 0)`.
        """
        said = spoken(instruction)
        if said is not None:
            return self._call(str(instruction), said, operands)
        found = self._parsed(instruction)
        ordered = _ORDERING.get(found.family)
        if ordered is not None:
            return ordered(self, found, *operands)
        if found.lanes > WARP:
            return self._mma_async(found, operands)
        return self._execute(found, operands)

    def _parsed(self, instruction: str | Instruction) -> Instruction:
        try:
            return parse(instruction, self.target)
        except IllegalInstruction:
            told = unspoken(instruction)
            if told:
                raise IllegalInstruction(told) from None
            raise

    def _call(self, opcode: str, said: Call, operands: tuple[Any, ...]) -> Any:
        """An instruction of the machine, by its method."""
        check_gate(opcode.strip(" ;"), self.target)
        names, least = _parameters(said.operation.method, len(said.first), frozenset(said.named))
        given = operands
        if said.operation.membermask and len(operands) == len(names) + 1:
            *given, mask = operands  # type: ignore[assignment]
            self._check_membermask(opcode, said, mask)
        if not least <= len(given) <= len(names):
            told = [*names[:least], *(f"[{name}]" for name in names[least:])]
            raise OperandError(
                f"{opcode} takes {listing(told, 'and') if told else 'no operands'}; got {len(operands)} operands "
                f"(PTX ISA {said.operation.section})"
            )
        return getattr(self, said.operation.method)(*said.first, *given, **said.named)

    def _check_membermask(self, opcode: str, said: Call, given: Any) -> None:
        active = self._by().active
        if not isinstance(given, int | np.integer) or int(given) != active:
            raise OperandError(
                f"{opcode}: the membermask names the lanes that execute it, {active:#010x}; got {briefly(given)} "
                f"(PTX ISA {said.operation.section})"
            )

    def _execute(self, instruction: Instruction, operands: tuple[Any, ...]) -> Any:
        """An instruction of one warp, at once."""
        family, names = _known(instruction)
        held = tuple((name, each) for name, each in zip(names, operands, strict=False) if isinstance(each, Registers))
        opcode = str(instruction)
        by = self._issue(opcode, aligned="aligned" in opcode, instruction=instruction, operands=held)
        if by is None:
            return self._nothing(instruction, family)
        self._check_axes(instruction, family, names, operands)
        given = [self._values(each) if isinstance(each, Registers) else each for each in operands]
        memories: dict[str, Any] = {}
        if family.memories:
            if not given:
                raise OperandError(f"{instruction} begins with an address (PTX ISA {instruction.section})")
            name, given[0] = self._addressed(instruction, family, given[0])
            given = [
                uniform(instruction, "the stride", each) if _each_lane(what, each) else each
                for what, each in zip_longest(names[: len(given)], given, fillvalue="")
            ]
            space = _SPACES[name]
            memories[name] = Told(self._bytes(space), self._teller(by, instruction, space))
        try:
            out = run(instruction, *given, target=self.target, **memories)
        except AddressError as error:
            self._fault(by, opcode, space, error)
        if out is None:
            return None
        if out.ndim != 2:
            raise OperandError(
                f"{instruction}: in a kernel each warp gives its own 32 lanes; got {out.shape[:-2]} warps (PTX ISA "
                f"{instruction.section})"
            )
        return self._made(out, np.ones(WARP, bool), (instruction, instruction.words.get("matrix", "d"), self.target))

    def _nothing(self, instruction: Instruction, family: Family) -> Registers | None:
        """What an instruction that no lane executes brings: registers that nobody has written, or None for a store."""
        role = next((each.role for each in instruction.operands if each.written), "")
        if not role:
            return None
        fragment = instruction.fragments[role]
        return self.registers(fragment.registers, dtype=fragment.container.register_dtype)

    def _check_axes(
        self, instruction: Instruction, family: Family, names: list[str], operands: tuple[Any, ...]
    ) -> None:
        """Raise OperandError where an access to memory is given for several warps."""
        for name, given in zip(names, operands, strict=False) if family.memories else ():
            axes = 2 if name in instruction.fragments else 1 if name in _A_LANE or _each_lane(name, given) else 0
            if np.ndim(given.bits if isinstance(given, Registers) else self._values(given)) > axes:
                raise OperandError(
                    f"{instruction}: in a kernel each warp gives its own 32 lanes; got {name} of shape "
                    f"{np.shape(given)} (PTX ISA {instruction.section})"
                )

    def _addressed(self, instruction: Instruction, family: Family, given: Any) -> tuple[str, Any]:
        """Which memory an address means, as the argument of tcemu.run, and the address inside it."""
        addresses = self._values(given)
        if addresses.dtype.kind not in "iu":
            raise OperandError(
                f"{instruction}: addresses are integers; got dtype {addresses.dtype} (PTX ISA {instruction.section})"
            )
        if "memory" in family.memories:
            addresses = uniform(instruction, "the pointer", addresses)
        word = instruction.words.get("ss", "")
        if word:
            return ("memory" if word == "global" else "shared"), addresses
        shared = bool((addresses >= SHARED_WINDOW).all())
        if "memory" not in family.memories or shared:
            return "shared", addresses - SHARED_WINDOW if shared else addresses
        return "memory", addresses

    def _bytes(self, space: Space) -> Array:
        block = self._block
        return block.shared.bytes[: block.shape.shared] if space == "shared" else block.memory.bytes

    def _teller(self, by: By, instruction: Instruction, space: Space) -> Callable[[bool, Array, int], None]:
        """What hears of the accesses of an instruction, and tells the observers."""

        def tell(writes: bool, addresses: Array, size: int) -> None:
            flat = addresses.reshape(-1).astype(np.int64)
            if space == "global":
                self._block.memory.check(str(instruction), flat, size, 1, instruction.section)
            lanes = np.arange(flat.size) % WARP
            self._block.tell(Accessed, by, str(instruction), space, writes, flat, size, lanes, True)

        return tell


def _each_lane(name: str, given: Any) -> bool:
    """Whether it is a stride given lane by lane."""
    return name == "stride" and isinstance(given, np.ndarray) and given.shape == (WARP,)


@lru_cache(maxsize=1024)
def _known(instruction: Instruction) -> tuple[Family, list[str]]:
    family = family_of(instruction)
    return family, [each.role for each in instruction.sources]


@lru_cache(maxsize=256)
def _parameters(method: str, first: int, named: frozenset[str]) -> tuple[tuple[str, ...], int]:
    """The operands that a method takes after what the opcode says, and how many of them it needs."""
    all_of_them = list(signature(getattr(Warp, method)).parameters.values())[1 + first :]
    there = [each for each in all_of_them if each.name not in named]
    return tuple(each.name for each in there), sum(each.default is each.empty for each in there)


#: What the instructions that order others are here.
_ORDERING: dict[str, Callable[..., None]] = {
    "wgmma.fence": lambda warp, _: warp.wgmma_fence(),
    "wgmma.commit_group": lambda warp, _: warp.wgmma_commit_group(),
    "wgmma.wait_group": lambda warp, _, pending: warp.wgmma_wait_group(pending),
    "fence.proxy.async": lambda warp, found: warp.fence_proxy_async(found.words.get("space", "")),
}

"""Instructions of a warpgroup: wgmma and its groups, which run while the warps go on (PTX ISA 9.1, 9.7.15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tcemu.errors import AddressError, LaunchError, OperandError, briefly, listing
from tcemu.instructions import Instruction, parse, run
from tcemu.instructions.instruction import placed
from tcemu.instructions.mma_sp import stored_places
from tcemu.instructions.wgmma import FAMILY, Operands
from tcemu.machine.barriers import WARP
from tcemu.machine.block import Block
from tcemu.machine.core import Array, Core
from tcemu.machine.events import (
    By,
    Wgmma,
    WgmmaCommitted,
    WgmmaEnded,
    WgmmaFenced,
    WgmmaIssued,
    WgmmaWaited,
)
from tcemu.machine.meeting import GROUP, Meetings
from tcemu.machine.pending import Groups, Task
from tcemu.machine.registers import Registers

FENCE, COMMIT, WAIT = (f"wgmma.{word}.sync.aligned" for word in ("fence", "commit_group", "wait_group"))

#: Which operands may be registers (D, A, metadata of a sparse A), and which descriptors.
_REGISTERS, _DESCRIPTORS = (0, 1, 3), (1, 2)


@dataclass
class _Group:
    """What a warpgroup has under way."""

    meetings: Meetings
    groups: Groups = field(default_factory=Groups)


def _group(block: Block, number: int) -> _Group:
    found = block.kept.setdefault("warpgroups", {})
    if number not in found:
        found[number] = _Group(Meetings(block, number))
    return found[number]  # type: ignore[no-any-return]


class Warpgroups(Core):
    """wgmma."""

    def wgmma_fence(self) -> None:
        """wgmma.fence.sync.aligned: orders this warp's register accesses before with the mma_asyncs after."""
        parse(FENCE, self.target)
        by = self._issue(FENCE, aligned=True)
        if by is not None:
            self._block.tell(WgmmaFenced, by)
            self._together(by, FENCE, None, lambda *_: None)

    def wgmma_commit_group(self) -> None:
        """wgmma.commit_group.sync.aligned: the warpgroup's mma_asyncs since the last one become a group."""
        parse(COMMIT, self.target)
        by = self._issue(COMMIT, aligned=True)
        if by is not None:
            self._together(by, COMMIT, None, self._commit)

    def wgmma_wait_group(self, pending: int) -> None:
        """wgmma.wait_group.sync.aligned N: wait until at most the N youngest groups are under way."""
        if isinstance(pending, bool) or not isinstance(pending, int | np.integer) or pending < 0:
            raise OperandError(f"{WAIT} takes an integer of at least 0; got {briefly(pending)} (PTX ISA 9.7.15.7.3)")
        parse(WAIT, self.target)
        by = self._issue(WAIT, aligned=True)
        if by is not None:
            self._together(by, WAIT, int(pending), self._end_groups)

    def _together(self, by: By, opcode: str, given: Any, act: Callable[[tuple[By, ...], list[Any]], None]) -> None:
        meetings = _group(self._block, self.warpgroup).meetings
        here = meetings.meet(by, opcode, given, act)
        self._wait(by, "warpgroup", self.warpgroup, lambda: here.done, lambda: meetings.missing(opcode))

    def _commit(self, bys: tuple[By, ...], _: Sequence[Any]) -> None:
        number = _group(self._block, self.warpgroup).groups.commit()
        self._block.tell(WgmmaCommitted, bys, self.warpgroup, number)

    def _end_groups(self, bys: tuple[By, ...], given: Sequence[int]) -> None:
        if len(set(given)) > 1:
            raise LaunchError(f"{WAIT} is to leave {given} groups in the four warps: it is the same number ({bys[0]})")
        below = _group(self._block, self.warpgroup).groups.wait(self._block.pending, given[0])
        self._block.tell(WgmmaWaited, bys, self.warpgroup, below)

    # ---------------------------------------------------------------------------------------- mma_async

    def _mma_async(self, instruction: Instruction, operands: Sequence[Any]) -> Registers:
        """Issue an mma_async with this warp's part of its operands; the accumulator, whose result is under way."""
        names = [each.role for each in instruction.sources]
        if len(operands) < 3:
            raise OperandError(
                f"{instruction} takes {', '.join(names)} and its immediates; got {len(operands)} operands (PTX ISA "
                f"{instruction.section})"
            )
        d = operands[0] if isinstance(operands[0], Registers) else self._adopted(operands[0])
        mine = [d, *operands[1:]]
        by = self._issue(str(instruction), aligned=True, instruction=instruction, operands=_named(names, mine))
        if by is None:
            return d
        try:
            self._together(
                by, str(instruction), mine, lambda bys, given: _issue_mma(self._block, instruction, bys, given)
            )
        except AddressError as error:
            self._fault(by, str(instruction), "shared", error)
        return d

    def _adopted(self, given: Any) -> Registers:
        """A numpy array as registers; what was done to it before is not known."""
        array = self._values(given)
        if array.ndim != 2 or len(array) != WARP or array.dtype != np.uint32:
            raise OperandError(
                f"D of wgmma.mma_async is this warp's registers, uint32 (32, n); got dtype {array.dtype}, shape "
                f"{array.shape} (PTX ISA {FAMILY.section})"
            )
        return Registers(array.copy(), self)


def _named(names: Sequence[str], operands: Sequence[Any]) -> tuple[tuple[str, Registers], ...]:
    """The register operands by role."""
    return tuple((name, value) for name, value in zip(names, operands, strict=False) if isinstance(value, Registers))


def _issue_mma(block: Block, instruction: Instruction, bys: tuple[By, ...], given: list[list[Any]]) -> None:
    """All four warps have come to an mma_async: it begins."""
    groups = _group(block, bys[0].warp // GROUP).groups
    try:
        found = Operands.of(instruction, _joined(instruction, given))
        if found.metadata is not None:
            stored_places(instruction, found.metadata.reshape(-1, WARP * GROUP), found.chosen)
    except OperandError as error:
        raise OperandError(f"{placed(error, instruction)} ({bys[-1]})") from None
    reads = found.reads(instruction)
    for role, addresses, size in reads:
        block.shared.check(f"{instruction}: element of {role}", addresses.reshape(-1), size, size, FAMILY.section)
    d = tuple(mine[0] for mine in given)
    a = () if found.described else tuple(mine[1] for mine in given if isinstance(mine[1], Registers))
    described = tuple(
        tuple(int(np.asarray(value)) for value in mine[1 if found.described else 2 : 3]) for mine in given
    )
    wgmma = Wgmma(
        instruction,
        bys,
        bys[0].warp // GROUP,
        groups.next,
        d,
        a,
        tuple((role, addresses.reshape(-1), size) for role, addresses, size in reads),
        described,
        bool(np.any(found.last.scale_d)),
    )
    block.tell(WgmmaIssued, wgmma)
    for registers in d:
        registers.pending += 1
        registers.veiled = block.pending.policy != "early"

    def end() -> None:
        try:
            now = _joined(instruction, given)
            out = run(instruction, *now, target=block.shape.target, shared=block.shared.bytes)
        except OperandError as error:  # metadata that was legal, and was overwritten
            block.fail(OperandError(f"{error} ({bys[0]})"))
        for number, registers in enumerate(d):
            registers.bits[...] = out[WARP * number : WARP * (number + 1)]
            registers.pending -= 1
            registers.filled()
        block.tell(WgmmaEnded, wgmma)

    task = Task(("wgmma", bys[0].warp // GROUP), end)
    groups.open.append(task)
    block.pending.add(task)


def _joined(instruction: Instruction, given: list[list[Any]]) -> list[Any]:
    """The warpgroup's operands from the four warps': registers one after the other, the rest as the first has it."""
    registers = _REGISTERS if "e" in instruction.fragments else _REGISTERS[:2]
    if len({len(mine) for mine in given}) > 1:
        counts = listing([len(mine) for mine in given], "and")
        raise OperandError(f"the four warps give {counts} operands; they execute the same")
    joined: list[Any] = []
    for number, values in enumerate(zip(*given, strict=True)):
        parts = [_content(value) for value in values]
        if all(part.ndim == 0 for part in parts):
            if number in _DESCRIPTORS and any(part.dtype.kind not in "iu" for part in parts):
                told = listing([briefly(value) for value in values], "and")
                raise OperandError(f"operand {number} is a matrix descriptor, 64 bits; the four warps give {told}")
            if number not in _DESCRIPTORS and any(part != parts[0] for part in parts):
                told = listing([briefly(value) for value in values], "and")
                raise OperandError(f"operand {number} is {told} in the four warps; it is the same in all")
            joined.append(values[0])
        elif number in registers and {part.shape[:1] for part in parts} == {(WARP,)} and _alike(parts):
            joined.append(np.concatenate(parts))
        else:
            shapes = listing([part.shape for part in parts], "and")
            raise OperandError(
                f"in a kernel each warp gives its own 32 lanes of registers, all warps alike, and one of everything "
                f"else; operand {number} has shapes {shapes}"
            )
    return joined


def _content(value: Any) -> Array:
    """An operand as it is now, unobserved: the four warps' are read when the last has come, and when it ends."""
    try:
        return value.bits if isinstance(value, Registers) else np.asarray(value)
    except Exception as error:  # noqa: BLE001 - whatever an object's __array__ raises
        raise OperandError(f"not an array: {error}") from None


def _alike(parts: Sequence[Array]) -> bool:
    return len({(part.shape, part.dtype) for part in parts}) == 1

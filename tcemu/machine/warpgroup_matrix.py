"""Asynchronous matrix instructions of a warpgroup: wgmma and its groups (PTX ISA 9.1, 9.7.15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, Disagreement, LaunchError, OperandError, briefly, listing
from tcemu.instructions import Instruction
from tcemu.instructions.instruction import placed
from tcemu.instructions.run import operation_on
from tcemu.instructions.wgmma_issue import Issue, issues_of
from tcemu.instructions.wgmma_operands import one_descriptor
from tcemu.layouts.descriptor import Descriptor
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import (
    By,
    DescriptorsDisagreed,
    Disagreed,
    OperandChanged,
    Wgmma,
    WgmmaCommitted,
    WgmmaEnded,
    WgmmaFenced,
    WgmmaIssued,
    WgmmaWaited,
)
from tcemu.machine.meeting import Meetings
from tcemu.machine.pending import Groups, Task, youngest_of
from tcemu.machine.registers import WARP, Registers

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: The usual types of A.
_TILES = (Descriptor, Registers)
#: The usual types of the other operands: one number for the warpgroup.
_ONE = frozenset((int, bool))
#: The types of operands that hold no plain array.
_PLAIN = _ONE.union(_TILES)


class Issued(NamedTuple):
    """An mma_async, its plain arrays, and what each of them held: (its warp's origin, role, array, content)."""

    wgmma: Wgmma
    arrays: list[tuple[By, str, Array, Array]]


class Warpgroup:
    """Four consecutive warps that start at a multiple of four, with their meetings and their pending groups."""

    def __init__(self, block: Block, number: int) -> None:
        self.number = number
        self.meetings = Meetings(block, number)
        self.groups = Groups()
        #: the mma_asyncs that no wait has covered, whether they have ended or not; none without observers
        self.issued: list[Issued] = []

    def cover(self, below: int, tell: Callable[..., None]) -> None:
        """A wait covers the groups before `below`: report their arrays that have changed; from now on they may."""
        for each in self.issued:
            for by, role, array, before in each.arrays if each.wgmma.group < below else ():
                if not np.array_equal(array, before):
                    tell(OperandChanged, by, each.wgmma, role)
        self.issued = [each for each in self.issued if each.wgmma.group >= below]


# ---------------------------------------------------------------------------------------------------- order


@executes("wgmma.fence")
def fence(instruction: Instruction) -> Act:
    """wgmma.fence (9.7.15.7.1): orders this warp's register accesses before with the mma_asyncs after."""

    def nothing(core: Core, bys: tuple[By, ...], brought: Sequence[None]) -> None:
        """The warps only meet."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(WgmmaFenced, by)
            core.warpgroup.meetings.meet(core, by, instruction, None, nothing)

    return act


@executes("wgmma.commit_group")
def commit_group(instruction: Instruction) -> Act:
    """wgmma.commit_group (9.7.15.7.2): the warpgroup's mma_asyncs since the last one become a group."""

    def commit(core: Core, bys: tuple[By, ...], brought: Sequence[None]) -> None:
        group = core.warpgroup
        core.tell(WgmmaCommitted, bys, group.number, group.groups.commit())

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.warpgroup.meetings.meet(core, by, instruction, None, commit)

    return act


@executes("wgmma.wait_group")
def wait_group(instruction: Instruction) -> Act:
    """wgmma.wait_group N (9.7.15.7.3): wait until at most the N latest groups are pending."""

    def end_groups(core: Core, bys: tuple[By, ...], numbers: Sequence[int]) -> None:
        if len(set(numbers)) > 1:
            listed = listing(numbers, "and")
            other = next(by for by, number in zip(bys, numbers, strict=True) if number != numbers[0])
            core.tell(Disagreed, (bys[0], other), (instruction, instruction), f"N, which is {listed} in the four")
            raise LaunchError(
                f"{instruction}: N is {listed} in the four warps, but it must be the same in all ({bys[0]}; PTX ISA "
                f"{instruction.section})"
            )
        group = core.warpgroup
        below = group.groups.wait(core.block.pending, numbers[0])
        if group.issued:
            group.cover(below, core.tell)
        core.tell(WgmmaWaited, bys, group.number, below)

    def act(core: Core, pending: int) -> None:
        youngest = youngest_of(instruction, pending)
        by = core.begin(instruction)
        if by is not None:
            core.warpgroup.meetings.meet(core, by, instruction, youngest, end_groups)

    return act


# ---------------------------------------------------------------------------------------------------- mma_async


@executes("wgmma")
def mma_async(instruction: Instruction) -> Act:
    """wgmma.mma_async (9.7.15.5.2): each warp gives its own (32, n) of the registers.

    Returns the accumulator, whose result is pending until a wgmma.wait_group covers it. A plain array may stand for
    registers; the machine reports it if the kernel changes the array while the instruction is pending.
    """
    return _MmaAsync(instruction).act


def _arrays(names: Sequence[str], operands: Sequence[Any]) -> list[tuple[str, Array, Array]]:
    """The plain arrays among the operands: role, array, and a copy of its content."""
    arrays = [(role, each) for role, each in zip(names, operands, strict=False) if isinstance(each, np.ndarray)]
    return [(role, each, each.copy()) for role, each in arrays if each.ndim]


def _checked_operands(
    core: Core, instruction: Instruction, names: Sequence[str], operands: Sequence[Any]
) -> tuple[Any, ...]:
    """What one warp gives: registers or arrays of d, a and e, one number of everything else. Raises OperandError."""
    d, a, b, *rest = operands
    plain = type(d) is Registers and type(a) in _TILES and type(b) is Descriptor
    if plain and _ONE.issuperset(map(type, rest)):
        return (d, a.bits if type(a) is Descriptor else a, b.bits, *rest)
    mine: list[Any] = [d if isinstance(d, Registers) else _adopted(core, instruction, d)]
    held = a.encode() if isinstance(a, Descriptor) else a if isinstance(a, Registers) else core.values(a)
    if isinstance(held, np.ndarray) and not held.ndim:
        held = one_descriptor(instruction, "a", _number(core, instruction, "a", a))
    mine.append(held)
    if not isinstance(held, int):
        names = [name for name in names if name != "imm_trans_a"]
    for number, each in enumerate(operands[2:], 2):
        role = names[number] if number < len(names) else "what follows"
        if role == "e":
            mine.append(each if isinstance(each, Registers) else core.values(each))
        elif role == "b" and isinstance(each, Descriptor):
            mine.append(each.encode())
        elif role == "b":
            mine.append(one_descriptor(instruction, role, _number(core, instruction, role, each)))
        else:
            mine.append(_number(core, instruction, role, each))
    return tuple(mine)


def _adopted(core: Core, instruction: Instruction, operand: Any) -> Registers:
    """A numpy array as registers without known earlier accesses."""
    array = core.values(operand)
    if array.ndim != 2 or len(array) != WARP or array.dtype != np.uint32:
        raise OperandError(
            f"{instruction}: d is this warp's registers, uint32 (32, n); got dtype {array.dtype}, shape {array.shape} "
            f"(PTX ISA {instruction.section})"
        )
    return core.adopted(array.copy())


def _number(core: Core, instruction: Instruction, role: str, operand: Any) -> Any:
    """An operand that is one value for the whole warpgroup."""
    if isinstance(operand, int):
        return operand
    array = core.values(operand)
    if array.ndim:
        raise OperandError(
            f"{instruction}: {role} must be one value for the whole warpgroup; got an array of shape {array.shape}"
        )
    return array.item() if array.dtype.kind in "biu" else operand


class _MmaAsync:
    """One opcode, with what is known about it before a kernel executes it."""

    def __init__(self, instruction: Instruction) -> None:
        self._instruction, self._sparse = instruction, "e" in instruction.fragments
        self._names = [operand.role for operand in instruction.sources]
        self._decode, self._operation = issues_of(instruction), cache(partial(operation_on, instruction))

    def act(self, core: Core, *operands: Any) -> Registers:
        """A warp executes it; returns the accumulator."""
        mine = _checked_operands(core, self._instruction, self._names, operands)
        d: Registers = mine[0]
        by = core.begin(self._instruction, self._names, mine)
        if by is None:
            return d
        plain = not core.grid.observers or _PLAIN.issuperset(map(type, operands))
        brought = mine, [] if plain else _arrays(self._names, operands)
        try:
            core.warpgroup.meetings.meet(core, by, self._instruction, brought, self._issue)
        except AddressError as error:
            core.fault(by, self._instruction, "shared", error)
        return d

    def _issue(self, core: Core, bys: tuple[By, ...], brought: Sequence[Any]) -> None:
        """All four warps have reached it: it begins."""
        instruction, block, group = self._instruction, core.block, core.warpgroup
        mine, kept = zip(*brought, strict=True)
        described = type(mine[0][1]) is int
        if not _alike(mine, described):
            _check_alike(core, instruction, bys, mine, described)
        d, a, *_ = zip(*mine, strict=True)
        issue = self._checked(block, bys, mine, described)
        operation = self._operation(block.shape.target)
        wgmma: Wgmma | None = None
        if core.grid.observers:
            wgmma = _as_observed(issue, bys, group, mine)
            core.tell(WgmmaIssued, wgmma)
            arrays = [(by, *each) for by, some in zip(bys, kept, strict=True) for each in some]
            group.issued.append(Issued(wgmma, arrays))
        for registers in d:
            registers.begin(veiled=block.pending.policy != "early")

        def end() -> None:
            held = np.concatenate([registers.bits for registers in d])
            try:
                out = issue.result(
                    operation,
                    held,
                    None if described else _joined(a, "a"),
                    block.shared.units,
                    _metadata(mine) if self._sparse else None,
                )
            except OperandError as error:  # the metadata was legal, and was then overwritten
                block.grid.fail(OperandError(f"{error} ({bys[0]})"))
            for number, registers in enumerate(d):
                registers.end(out[WARP * number : WARP * (number + 1)])
            if wgmma is not None:
                core.tell(WgmmaEnded, wgmma)

        task = Task(("wgmma", group.number), end)
        group.groups.open.append(task)
        block.pending.add(task)

    def _checked(self, block: Block, bys: tuple[By, ...], mine: Sequence[Any], described: bool) -> Issue:
        """What the operands of the four warps say. Raises OperandError, or AddressError for what lies outside."""
        instruction, (d, a, *_) = self._instruction, zip(*mine, strict=True)
        shared = mine[0][1 if described else 2 : 3] + mine[0][5 if self._sparse else 3 :]
        try:
            _check_registers(instruction, "d", d)
            if not described:
                _check_registers(instruction, "a", a)
            issue = self._decode(described, shared)
            if self._sparse:
                issue = issue.with_metadata(_metadata(mine), mine[0][4])
        except OperandError as error:
            raise OperandError(f"{placed(error, instruction)} ({bys[-1]})") from None
        for read in issue.reads:
            if read.end > block.shape.shared:
                block.shared.check(instruction, read.addresses, read.size, read.size, what=f"element of {read.role}")
        return issue


def _as_observed(issue: Issue, bys: tuple[By, ...], group: Warpgroup, mine: Sequence[Any]) -> Wgmma:
    """An mma_async as observers receive it."""
    instruction, (d, a, *_) = issue.instruction, zip(*mine, strict=True)
    return Wgmma(
        instruction,
        bys,
        group.number,
        group.groups.next,
        d,
        tuple([each for each in a if isinstance(each, Registers)]),
        issue.reported_reads,
        issue.adds,
        tuple([each[3] for each in mine if isinstance(each[3], Registers)]) if "e" in instruction.fragments else (),
        issue.tiles,
    )


def _alike(mine: Sequence[Sequence[Any]], described: bool) -> bool:
    """Whether the four warps give the same plain numbers, and A in the same way: the usual case, tested quickly."""
    start = 1 if described else 2
    first = mine[0][start:]
    for each in mine:
        rest = each[start:]
        if (type(each[1]) is int) != described or not _ONE.issuperset(map(type, rest)) or rest != first:
            return False
    return True


def _check_alike(
    core: Core, instruction: Instruction, bys: tuple[By, ...], mine: Sequence[Any], described: bool
) -> None:
    """Raise an error unless the operands that are one for the warpgroup are the same in all four warps.

    Descriptors that differ are reported, and end the launch: the manual leaves open which of them counts. An H100 took
    the first warp's for B in every trial; a kernel that relies on it has a bug.
    """
    if len({len(each) for each in mine}) > 1:
        counts = listing([len(each) for each in mine], "and")
        raise OperandError(f"{instruction}: the four warps give {counts} operands, not the same number ({bys[-1]})")
    if any(isinstance(each[1], int) != described for each in mine):
        ways = listing(["a descriptor" if isinstance(each[1], int) else "registers" for each in mine], "and")
        raise OperandError(f"{instruction}: the four warps give a as {ways}, not in the same way ({bys[-1]})")
    first = 1 if described else 2
    start = 4 if "e" in instruction.fragments else 3  # at the selector, or at scale_d
    ends = [tuple(each[start:]) for each in mine]
    tops = [tuple(each[first:3]) for each in mine]
    names = [operand.role for operand in instruction.sources if described or operand.role != "imm_trans_a"]
    for by, descriptors, end in zip(bys[1:], tops[1:], ends[1:], strict=True):
        if descriptors != tops[0]:
            numbers = tops[0], descriptors
            core.tell(DescriptorsDisagreed, (bys[0], by), instruction, numbers)
            shown = [" and ".join(f"{number:#018x}" for number in each) for each in numbers]
            raise LaunchError(
                f"{instruction}: the warps of a warpgroup must give the same descriptors; {bys[0]} gives {shown[0]}, "
                f"but {by} gives {shown[1]} (PTX ISA {instruction.section})"
            )
        for role, one, other in zip(names[start:], end, ends[0], strict=False):
            if _differ(one, other):
                core.tell(Disagreed, (bys[0], by), (instruction, instruction), role)
                raise Disagreement(
                    f"{instruction}: {role} is {briefly(other)} in warp {bys[0].warp} and {briefly(one)} in warp "
                    f"{by.warp}, but it must be the same in all four ({by})"
                )


def _differ(one: Any, other: Any) -> bool:
    try:
        return one is not other and bool(one != other)
    except Exception as error:  # noqa: BLE001 - whatever an object's __eq__ raises
        raise OperandError(f"not a number: {error}") from None


def _metadata(mine: Sequence[Any]) -> Array:
    """The warpgroup's metadata (128,): one register of each lane."""
    registers = _joined([each[3] for each in mine], "e")
    return registers[:, 0] if registers.shape[1:] == (1,) else registers


def _check_registers(instruction: Instruction, role: str, parts: Sequence[Any]) -> None:
    """Raise OperandError unless the four warps' registers are those of the fragment."""
    fragment = instruction.fragments[role]
    shape = WARP, fragment.registers
    for each in parts:
        bits = each.bits if type(each) is Registers else each
        if type(bits) is not np.ndarray or bits.shape != shape or bits.dtype != np.uint32:
            fragment.check(_joined(parts, role))


def _joined(parts: Sequence[Any], role: str) -> Array:
    """The warpgroup's registers from the four warps', one after the other, as they are now."""
    try:
        arrays = [each.bits if isinstance(each, Registers) else np.asarray(each) for each in parts]
    except Exception as error:  # noqa: BLE001 - whatever an object's __array__ raises
        raise OperandError(f"not an array: {error}") from None
    if any(each.shape[:1] != (WARP,) or each.shape != arrays[0].shape for each in arrays):
        raise OperandError(
            f"in a kernel each warp gives its own 32 lanes of registers, in the same shape; {role} has shapes "
            f"{listing([each.shape for each in arrays], 'and')}"
        )
    if any(each.dtype != arrays[0].dtype for each in arrays):
        raise OperandError(f"{role} has dtypes {listing([each.dtype for each in arrays], 'and')} in the four warps")
    return np.concatenate(arrays)

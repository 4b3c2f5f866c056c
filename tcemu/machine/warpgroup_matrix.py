"""Asynchronous matrix instructions of a warpgroup: wgmma and its groups (PTX ISA 9.1, 9.7.15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, Disagreement, LaunchError, OperandError, briefly, listing
from tcemu.instructions import Instruction
from tcemu.instructions.instruction import placed
from tcemu.instructions.run import operation_on
from tcemu.instructions.wgmma_issue import Issue
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
#: What the four warps do together: called with their origins and what each of them gives.
Together = Callable[[tuple[By, ...], list[Any]], None]


class Given(NamedTuple):
    """The plain arrays of an mma_async, and what each of them held: (its warp's origin, role, array, content)."""

    wgmma: Wgmma
    arrays: list[tuple[By, str, Array, Array]]

    def compare(self, tell: Callable[..., None]) -> None:
        """Report the arrays that have changed."""
        for by, role, array, before in self.arrays:
            if not np.array_equal(array, before):
                tell(OperandChanged, by, self.wgmma, role)


class Warpgroup:
    """Four consecutive warps that start at a multiple of four, with their meetings and their pending groups."""

    def __init__(self, block: Block, number: int) -> None:
        self.number = number
        self.meetings = Meetings(block, number)
        self.groups = Groups()
        #: the plain arrays that pending mma_asyncs were given, until a wait covers them
        self.given: list[Given] = []


def _together(core: Core, by: By, instruction: Instruction, given: Any, act: Together) -> None:
    """Wait until the four warps have reached the instruction; the last to arrive acts for all."""
    group = core.block.warpgroups[core.index // 4]
    here = group.meetings.meet(by, instruction, given, act)
    if not here.done:
        core.wait(by, "warpgroup", group.number, lambda: here.done, lambda: group.meetings.missing(instruction))


# ---------------------------------------------------------------------------------------------------- order


@executes("wgmma.fence")
def fence(instruction: Instruction) -> Act:
    """wgmma.fence (9.7.15.7.1): orders this warp's register accesses before with the mma_asyncs after."""

    def nothing(bys: tuple[By, ...], given: list[Any]) -> None:
        """The warps only meet."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(WgmmaFenced, by)
            _together(core, by, instruction, None, nothing)

    return act


@executes("wgmma.commit_group")
def commit_group(instruction: Instruction) -> Act:
    """wgmma.commit_group (9.7.15.7.2): the warpgroup's mma_asyncs since the last one become a group."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        group = core.block.warpgroups[core.index // 4]

        def commit(bys: tuple[By, ...], _: list[Any]) -> None:
            core.tell(WgmmaCommitted, bys, group.number, group.groups.commit())

        _together(core, by, instruction, None, commit)

    return act


@executes("wgmma.wait_group")
def wait_group(instruction: Instruction) -> Act:
    """wgmma.wait_group N (9.7.15.7.3): wait until at most the N latest groups are pending."""

    def act(core: Core, pending: int) -> None:
        youngest = youngest_of(instruction, pending)
        by = core.begin(instruction)
        if by is None:
            return
        group = core.block.warpgroups[core.index // 4]

        def end_groups(bys: tuple[By, ...], given: list[int]) -> None:
            if len(set(given)) > 1:
                told = listing(given, "and")
                other = next(by for by, number in zip(bys, given, strict=True) if number != given[0])
                core.tell(Disagreed, (bys[0], other), (instruction, instruction), f"N, which is {told} in the four")
                raise LaunchError(
                    f"{instruction}: N is {told} in the four warps, but it must be the same in all ({bys[0]}; PTX ISA "
                    f"{instruction.section})"
                )
            below = group.groups.wait(core.block.pending, given[0])
            for each in group.given:
                if each.wgmma.group < below:
                    each.compare(core.tell)
            group.given = [each for each in group.given if each.wgmma.group >= below]
            core.tell(WgmmaWaited, bys, group.number, below)

        _together(core, by, instruction, youngest, end_groups)

    return act


# ---------------------------------------------------------------------------------------------------- mma_async


@executes("wgmma")
def mma_async(instruction: Instruction) -> Act:
    """wgmma.mma_async (9.7.15.5.2): each warp gives its own (32, n) of the registers.

    Returns the accumulator, whose result is pending until a wgmma.wait_group covers it. A plain array may stand for
    registers; the machine reports it if the kernel changes the array while the instruction is pending.
    """
    names = [operand.role for operand in instruction.sources]

    def act(core: Core, *operands: Any) -> Registers:
        mine = _given(core, instruction, names, operands)
        d: Registers = mine[0]
        by = core.begin(instruction, names, mine)
        if by is None:
            return d
        kept = _arrays(names, operands) if core.watched else []

        def issue(bys: tuple[By, ...], given: list[Any]) -> None:
            _issue(core, instruction, bys, given)

        try:
            _together(core, by, instruction, (mine, kept), issue)
        except AddressError as error:
            core.fault(by, instruction, "shared", error)
        return d

    return act


def _arrays(names: Sequence[str], given: Sequence[Any]) -> list[tuple[str, Array, Array]]:
    """The plain arrays among the operands: role, array, and a copy of its content."""
    arrays = [(role, each) for role, each in zip(names, given, strict=False) if isinstance(each, np.ndarray)]
    return [(role, each, each.copy()) for role, each in arrays if each.ndim]


def _given(core: Core, instruction: Instruction, names: Sequence[str], operands: Sequence[Any]) -> list[Any]:
    """What one warp gives: registers or arrays of d, a and e, one number of everything else. Raises OperandError."""
    d, a, b, *rest = operands
    usual = type(d) is Registers and type(a) in _TILES and type(b) is Descriptor
    if usual and _ONE.issuperset(map(type, rest)):
        return [d, a.encode() if type(a) is Descriptor else a, b.encode(), *rest]
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
    return mine


def _adopted(core: Core, instruction: Instruction, given: Any) -> Registers:
    """A numpy array as registers without known earlier accesses."""
    array = core.values(given)
    if array.ndim != 2 or len(array) != WARP or array.dtype != np.uint32:
        raise OperandError(
            f"{instruction}: d is this warp's registers, uint32 (32, n); got dtype {array.dtype}, shape {array.shape} "
            f"(PTX ISA {instruction.section})"
        )
    return core.adopted(array.copy())


def _number(core: Core, instruction: Instruction, role: str, given: Any) -> Any:
    """An operand that is one value for the whole warpgroup."""
    if isinstance(given, int):
        return given
    array = core.values(given)
    if array.ndim:
        raise OperandError(
            f"{instruction}: {role} must be one value for the whole warpgroup; got an array of shape {array.shape}"
        )
    return array.item() if array.dtype.kind in "biu" else given


def _issue(core: Core, instruction: Instruction, bys: tuple[By, ...], given: list[Any]) -> None:
    """Begin an mma_async, which all four warps have reached."""
    block, group = core.block, core.block.warpgroups[core.index // 4]
    mine, kept = zip(*given, strict=True)
    a_described = isinstance(mine[0][1], int)
    shared = _shared(core, instruction, bys, mine, a_described)
    d = tuple(each[0] for each in mine)
    a = () if a_described else tuple(each[1] for each in mine)
    try:
        _check_registers(instruction, "d", d)
        if a:
            _check_registers(instruction, "a", a)
        issue = Issue.of(instruction, a_described, shared)
        if "e" in instruction.fragments:
            issue = issue.with_metadata(_metadata(mine), mine[0][4])
    except OperandError as error:
        raise OperandError(f"{placed(error, instruction)} ({bys[-1]})") from None
    for read in issue.reads:
        if read.end > block.shape.shared:
            block.shared.check(instruction, read.addresses, read.size, read.size, what=f"element of {read.role}")
    operation = operation_on(instruction, core.target)
    watched = tuple(each for each in a if isinstance(each, Registers))
    metadata = tuple(each[3] for each in mine if isinstance(each[3], Registers)) if "e" in instruction.fragments else ()
    wgmma = Wgmma(
        instruction,
        bys,
        group.number,
        group.groups.next,
        d,
        watched,
        tuple((read.role, read.addresses, read.size) for read in issue.reads),
        issue.adds,
        metadata,
        tuple(read.swizzle for read in issue.reads),
    )
    core.tell(WgmmaIssued, wgmma)
    arrays = [(by, *each) for by, some in zip(bys, kept, strict=True) for each in some]
    if arrays:
        group.given.append(Given(wgmma, arrays))
    for registers in d:
        registers.begin(veiled=block.pending.policy != "early")

    def end() -> None:
        try:
            out = issue.result(
                operation,
                np.concatenate([registers.bits for registers in d]),
                None if a_described else _joined(a, "a"),
                block.shared.bytes,
                _metadata(mine) if "e" in instruction.fragments else None,
            )
        except OperandError as error:  # the metadata was legal, and was then overwritten
            block.grid.fail(OperandError(f"{error} ({bys[0]})"))
        for number, registers in enumerate(d):
            registers.end(out[WARP * number : WARP * (number + 1)])
        core.tell(WgmmaEnded, wgmma)

    task = Task(("wgmma", group.number), end)
    group.groups.open.append(task)
    block.pending.add(task)


def _shared(
    core: Core, instruction: Instruction, bys: tuple[By, ...], mine: Sequence[Any], a_described: bool
) -> tuple[Any, ...]:
    """The operands that are one for the warpgroup, in PTX's order: descriptors, scale_d, immediates.

    Descriptors that differ are reported, and end the launch: the manual leaves open which of them counts. An H100 took
    the first warp's for B in every trial; a kernel that relies on it has a bug.
    """
    if len({len(each) for each in mine}) > 1:
        counts = listing([len(each) for each in mine], "and")
        raise OperandError(f"{instruction}: the four warps give {counts} operands, not the same number ({bys[-1]})")
    if any(isinstance(each[1], int) != a_described for each in mine):
        ways = listing(["a descriptor" if isinstance(each[1], int) else "registers" for each in mine], "and")
        raise OperandError(f"{instruction}: the four warps give a as {ways}, not in the same way ({bys[-1]})")
    first = 1 if a_described else 2
    rest = 5 if "e" in instruction.fragments else 3
    start = rest - ("e" in instruction.fragments)  # at the selector
    ends = [tuple(each[start:]) for each in mine]
    tops = [tuple(each[first:3]) for each in mine]
    names = [operand.role for operand in instruction.sources if a_described or operand.role != "imm_trans_a"]
    for by, descriptors, end in zip(bys[1:], tops[1:], ends[1:], strict=True):
        if descriptors != tops[0]:
            numbers = tops[0], descriptors
            core.tell(DescriptorsDisagreed, (bys[0], by), instruction, numbers)
            told = [" and ".join(f"{number:#018x}" for number in each) for each in numbers]
            raise LaunchError(
                f"{instruction}: the warps of a warpgroup must give the same descriptors; {bys[0]} gives {told[0]}, "
                f"but {by} gives {told[1]} (PTX ISA {instruction.section})"
            )
        for role, one, other in zip(names[start:], end, ends[0], strict=False):
            if _differ(one, other):
                core.tell(Disagreed, (bys[0], by), (instruction, instruction), role)
                raise Disagreement(
                    f"{instruction}: {role} is {briefly(other)} in warp {bys[0].warp} and {briefly(one)} in warp "
                    f"{by.warp}, but it must be the same in all four ({by})"
                )
    return (*tops[0], *mine[0][rest:])


def _differ(one: Any, other: Any) -> bool:
    try:
        return one is not other and bool(one != other)
    except Exception as error:  # noqa: BLE001 - whatever an object's __eq__ raises
        raise OperandError(f"not a number: {error}") from None


def _metadata(mine: Sequence[Any]) -> Array:
    """The warpgroup's metadata (128,): one register of each lane."""
    found = _joined([each[3] for each in mine], "e")
    return found[:, 0] if found.shape[1:] == (1,) else found


def _check_registers(instruction: Instruction, role: str, parts: Sequence[Any]) -> None:
    """Raise OperandError unless the four warps' registers are those of the fragment."""
    fragment = instruction.fragments[role]
    shape = WARP, fragment.registers
    if not all(type(each) is Registers and each.shape == shape and each.dtype == np.uint32 for each in parts):
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

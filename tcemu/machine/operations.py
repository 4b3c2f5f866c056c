"""THE TABLE of the machine's own instructions: how PTX spells them, what executes them, which targets have them.

What tcemu.parse knows is not here. `warp.run("ld.shared.v4.b32", addresses)` finds the method here, and every operation
its gate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from tcemu.errors import IllegalInstruction, did_you_mean, listing, nearest, shown
from tcemu.instructions import FAMILIES
from tcemu.instructions.targets import Gate, target_named

_ALL, _AMPERE = Gate("6.0", ("sm_70",)), Gate("7.0", ("sm_80",))
_HOPPER, _HOPPER_ONLY = Gate("8.0", ("sm_90",)), Gate("8.0", ("sm_90a",))


@dataclass(frozen=True)
class Operation:
    """One kind of instruction.

    `example` is one of its opcodes, `spelling` a regular expression of all. What its named groups find are keyword
    arguments of the method, what its other groups find stands in front of the operands.
    """

    example: str
    spelling: str
    method: str
    section: str
    gate: Gate = _ALL
    #: whether anything but the destination may be another afterwards
    changes: bool = True
    #: whether PTX's last operand says which lanes take part
    membermask: bool = False


class Call(NamedTuple):
    """The method that executes an opcode, and what the opcode says of its arguments."""

    operation: Operation
    first: tuple[str, ...]
    named: dict[str, str]


#: A memory order and scope, a state space, a block that is its own cluster.
_ORDER, _CTA = r"(?:\.(?:release|acquire|relaxed))?(?:\.(?:cta|cluster))?", r"(?:\.shared(?:::cta)?)?"
_CLUSTER = r"(?:cta|cluster)"
_SCOPE = r"(?:cta|cluster|gpu|sys)"
#: The order of a load, of a store, of atom, of red; hints to the caches.
_OF_LD = rf"(?P<order>\.(?:weak|volatile|(?:relaxed|acquire)\.{_SCOPE}))?"
_OF_ST = rf"(?P<order>\.(?:weak|volatile|(?:relaxed|release)\.{_SCOPE}))?"
_OF_ATOM = rf"(?P<order>(?:\.(?:relaxed|acquire|release|acq_rel))?(?:\.{_SCOPE})?)"
_OF_RED = rf"(?P<order>(?:\.(?:relaxed|release))?(?:\.{_SCOPE})?)"
_HINTS = r"(?:\.(?:ca|cg|cs|lu|cv|wb|wt|nc|L[12]::\w+))*"
_ACCESS = r"(?P<access>[\w.]+)"
_BAR = r"(?:bar|barrier)(?:\.cta)?"
_LD, _ST, _SHFL, _BARRIER, _VOTE = "9.7.9.8", "9.7.9.11", "9.7.9.6", "9.7.13.1", "9.7.13.8"
_ATOM, _RED, _FENCE = "9.7.13.5", "9.7.13.6", "9.7.13.4"
_ASYNC, _BULK, _TENSOR, _ARRIVE, _TEST = "9.7.9.25.3", "9.7.9.25.5", "9.7.9.27.1", "9.7.13.15.13", "9.7.13.15.16"
#: Only looking, and who takes part.
_QUIET: dict[str, Any] = {"changes": False}
_LANES: dict[str, Any] = {"changes": False, "membermask": True}
OPERATIONS = (
    Operation("ld.shared.v4.b32", rf"ld{_OF_LD}\.shared(?:::cta)?\.{_ACCESS}", "ld_shared", _LD, **_QUIET),
    Operation("ld.global.v4.b32", rf"ld{_OF_LD}\.global{_HINTS}\.{_ACCESS}", "ld_global", _LD, **_QUIET),
    Operation("st.shared.v4.b32", rf"st{_OF_ST}\.shared(?:::cta)?\.{_ACCESS}", "st_shared", _ST),
    Operation("st.global.v4.b32", rf"st{_OF_ST}\.global{_HINTS}\.{_ACCESS}", "st_global", _ST),
    Operation("atom.shared.add.u32", rf"atom{_OF_ATOM}\.shared(?:::cta)?\.([\w.]+)", "atom_shared", _ATOM, **_QUIET),
    Operation("atom.global.add.u32", rf"atom{_OF_ATOM}\.global\.([\w.]+)", "atom_global", _ATOM, **_QUIET),
    Operation("red.shared.add.u32", rf"red{_OF_RED}\.shared(?:::cta)?\.([\w.]+)", "red_shared", _RED),
    Operation("red.global.add.u32", rf"red{_OF_RED}\.global\.([\w.]+)", "red_global", _RED),
    Operation("fence.acq_rel.gpu", r"fence(?:\.(sc|acq_rel))?\.(cta|gpu|sys)", "fence", _FENCE),
    Operation("fence.acq_rel.cluster", r"fence(?:\.(sc|acq_rel))?\.(cluster)", "fence", _FENCE, _HOPPER),
    Operation("fence.acquire.gpu", rf"fence\.(acquire|release)\.({_SCOPE})", "fence", _FENCE, _HOPPER),
    Operation("membar.gl", r"membar\.(cta|gl|sys)", "membar", _FENCE),
    Operation("nanosleep.u32", r"nanosleep\.u32", "nanosleep", "9.7.20.2", **_QUIET),
    Operation("prefetch.global.L2", r"prefetch\.global\.(L1|L2)", "prefetch_global", "9.7.9.15", **_QUIET),
    Operation(
        "prefetch.tensormap", r"prefetch\.(?:param\.)?tensormap", "prefetch_tensormap", "9.7.9.15", _HOPPER, **_QUIET
    ),
    Operation(
        "griddepcontrol.wait",
        r"griddepcontrol\.(wait|launch_dependents)",
        "griddepcontrol",
        "9.7.13.13",
        _HOPPER,
        **_QUIET,
    ),
    Operation("shfl.sync.bfly.b32", r"shfl\.sync\.(\w+)\.b32", "_shfl_sync", _SHFL, **_LANES),
    Operation("vote.sync.any.pred", r"vote\.sync\.(all|any|uni)(?:\.pred)?", "vote_sync", _VOTE, **_LANES),
    Operation("vote.sync.ballot.b32", r"vote\.sync\.(ballot)(?:\.b32)?", "vote_sync", _VOTE, **_LANES),
    Operation("elect.sync", r"elect\.sync", "elect_sync", "9.7.13.16", _HOPPER, **_LANES),
    Operation("bar.warp.sync", r"bar\.warp\.sync", "bar_warp_sync", "9.7.13.2", **_LANES),
    Operation("bar.sync", rf"{_BAR}\.sync(?:\.aligned)?", "bar_sync", _BARRIER),
    Operation("bar.arrive", rf"{_BAR}\.arrive(?:\.aligned)?", "bar_arrive", _BARRIER),
    Operation(
        "bar.red.popc.u32",
        rf"{_BAR}\.red\.(popc(?=(?:\.aligned)?\.u32)|(?:and|or)(?=(?:\.aligned)?\.pred))(?:\.aligned)?\.\w+",
        "_bar_red",
        _BARRIER,
    ),
    Operation("mbarrier.init.shared::cta.b64", rf"mbarrier\.init{_CTA}\.b64", "mbarrier_init", "9.7.13.15.9", _AMPERE),
    Operation(
        "mbarrier.inval.shared::cta.b64", rf"mbarrier\.inval{_CTA}\.b64", "mbarrier_inval", "9.7.13.15.10", _AMPERE
    ),
    Operation(
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
        rf"mbarrier\.expect_tx{_ORDER}{_CTA}\.b64",
        "mbarrier_expect_tx",
        "9.7.13.15.11",
        _HOPPER,
    ),
    Operation(
        "mbarrier.arrive.expect_tx.shared::cta.b64",
        rf"mbarrier\.arrive\.expect_tx{_ORDER}{_CTA}\.b64",
        "mbarrier_arrive_expect_tx",
        _ARRIVE,
        _HOPPER,
    ),
    Operation(
        "mbarrier.arrive.shared::cta.b64", rf"mbarrier\.arrive{_ORDER}{_CTA}\.b64", "mbarrier_arrive", _ARRIVE, _AMPERE
    ),
    Operation(
        "mbarrier.arrive_drop.shared::cta.b64",
        rf"mbarrier\.arrive_drop{_ORDER}{_CTA}\.b64",
        "mbarrier_arrive_drop",
        "9.7.13.15.14",
        _AMPERE,
    ),
    Operation(
        "mbarrier.test_wait.shared::cta.b64",
        rf"mbarrier\.test_wait{_ORDER}{_CTA}\.b64",
        "_test_wait_state",
        _TEST,
        _AMPERE,
        **_QUIET,
    ),
    Operation(
        "mbarrier.try_wait.shared::cta.b64",
        rf"mbarrier\.try_wait{_ORDER}{_CTA}\.b64",
        "_try_wait_state",
        _TEST,
        _HOPPER,
    ),
    Operation(
        "mbarrier.test_wait.parity.shared::cta.b64",
        rf"mbarrier\.test_wait\.parity{_ORDER}{_CTA}\.b64",
        "mbarrier_test_wait",
        _TEST,
        _AMPERE,
        **_QUIET,
    ),
    Operation(
        "mbarrier.try_wait.parity.shared::cta.b64",
        rf"mbarrier\.try_wait\.parity{_ORDER}{_CTA}\.b64",
        "mbarrier_wait",
        _TEST,
        _HOPPER,
    ),
    Operation(
        "fence.mbarrier_init.release.cluster",
        r"fence\.mbarrier_init\.release\.cluster",
        "fence_mbarrier_init",
        "9.7.13.4",
        _HOPPER,
    ),
    Operation(
        "cp.async.cg.shared.global",
        r"cp\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global(?:\.L2::(?:64|128|256)B)?",
        "cp_async",
        _ASYNC,
        _AMPERE,
    ),
    Operation("cp.async.commit_group", r"cp\.async\.commit_group", "cp_async_commit_group", _ASYNC, _AMPERE),
    Operation("cp.async.wait_group", r"cp\.async\.wait_group", "cp_async_wait_group", _ASYNC, _AMPERE),
    Operation("cp.async.wait_all", r"cp\.async\.wait_all", "cp_async_wait_all", _ASYNC, _AMPERE),
    Operation(
        "cp.async.mbarrier.arrive.noinc.shared.b64",
        r"cp\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?(?:\.shared(?:::cta)?)?\.b64",
        "cp_async_mbarrier_arrive",
        "9.7.13.15.15",
        _AMPERE,
    ),
    Operation(
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes",
        rf"cp\.async\.bulk\.shared::{_CLUSTER}\.global\.mbarrier::complete_tx::bytes",
        "cp_async_bulk_shared_global",
        _BULK,
        _HOPPER,
    ),
    Operation(
        "cp.async.bulk.global.shared::cta.bulk_group",
        r"cp\.async\.bulk\.global\.shared::cta\.bulk_group",
        "cp_async_bulk_global_shared",
        _BULK,
        _HOPPER,
    ),
    Operation(
        "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes",
        rf"cp\.async\.bulk\.tensor\.[1-5]d\.shared::{_CLUSTER}\.global(?:\.tile)?\.mbarrier::complete_tx::bytes",
        "cp_async_bulk_tensor_shared_global",
        _TENSOR,
        _HOPPER,
    ),
    Operation(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group",
        r"cp\.async\.bulk\.tensor\.[1-5]d\.global\.shared::cta(?:\.tile)?\.bulk_group",
        "cp_async_bulk_tensor_global_shared",
        _TENSOR,
        _HOPPER,
    ),
    Operation(
        "cp.async.bulk.commit_group", r"cp\.async\.bulk\.commit_group", "cp_async_bulk_commit_group", _BULK, _HOPPER
    ),
    Operation(
        "cp.async.bulk.wait_group.read",
        r"cp\.async\.bulk\.wait_group(?P<read>\.read)?",
        "cp_async_bulk_wait_group",
        _BULK,
        _HOPPER,
    ),
    Operation(
        "setmaxnreg.inc.sync.aligned.u32",
        r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32",
        "setmaxnreg",
        "9.7.20.5",
        _HOPPER_ONLY,
    ),
)
#: First words: of the machine's instructions, and of those that tcemu.run executes.
_MNEMONICS = tuple(dict.fromkeys(operation.example.split(".")[0] for operation in OPERATIONS))
_OTHERS = tuple(dict.fromkeys(each.mnemonic for each in FAMILIES if each.mnemonic not in _MNEMONICS))


@lru_cache(maxsize=1024)
def _find(opcode: str) -> Call | None:
    for operation in OPERATIONS:
        match = re.fullmatch(operation.spelling, opcode)
        if match is not None:
            named = match.groupdict("")
            numbers = set(range(1, len(match.groups()) + 1)) - set(match.re.groupindex.values())
            return Call(operation, tuple(match[number] or "" for number in sorted(numbers)), named)
    return None


def spoken(instruction: Any) -> Call | None:
    """What executes an opcode of this table; None for anything else."""
    return _find(_opcode(instruction)) if isinstance(instruction, str) else None


def unspoken(instruction: Any) -> str:
    """What to say of an opcode that neither this table nor tcemu.parse has; empty where tcemu.parse says it better."""
    opcode = _opcode(instruction)[:120] if isinstance(instruction, str) else ""
    if not opcode or any(mark.isspace() or mark in "{}[](),%" for mark in opcode):
        return ""
    words = opcode.split(".")
    if any(family.claims(words) for family in FAMILIES):
        return ""
    if words[0] in _MNEMONICS:
        rows = {each.example: each for each in OPERATIONS if each.example.split(".")[0] == words[0]}
        close = rows[nearest(opcode, rows, cutoff=0)[0]]
        return f"{opcode} is no instruction of the machine. Nearest: {close.example} (PTX ISA {close.section})"
    if words[0] in _OTHERS:
        return ""
    hint = did_you_mean(words[0].lower(), [*_MNEMONICS, *_OTHERS])
    return (
        f"{opcode}: the machine has no {shown(words[0])}.{hint} It has {listing(_MNEMONICS, 'and')}, and what "
        f"tcemu.run executes: {listing(_OTHERS, 'and')}. Arithmetic on registers is numpy's"
    )


def _opcode(text: str) -> str:
    return text.strip().removesuffix(";").strip()


@lru_cache(maxsize=4096)
def check_gate(opcode: str, target: str) -> None:
    """Raise IllegalInstruction where `target` has no such operation."""
    call = _find(opcode)
    if call is not None and not call.operation.gate.admits(target_named(target)):
        raise IllegalInstruction(
            f"{opcode} does not exist on {target}: it needs {call.operation.gate.targets} (PTX ISA "
            f"{call.operation.section})"
        )


@lru_cache(maxsize=4096)
def changes_something(opcode: str) -> bool:
    """Whether an opcode may leave anything but its destination another than it was; whoever waits may hope for it."""
    call = _find(opcode)
    return call is None or call.operation.changes

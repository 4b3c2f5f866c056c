"""THE TABLE of the machine's own instructions: how PTX spells them, what executes them, which targets have them.

What tcemu.parse knows is not here. `warp.run("ld.shared.v4.b32", addresses)` finds the method here, and every operation
its gate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from tcemu.errors import IllegalInstruction
from tcemu.instructions.targets import Gate, target_named


@dataclass(frozen=True)
class Operation:
    """One kind of instruction.

    `spelling` is a regular expression of the opcode. What its named groups find are keyword arguments of the method,
    what its other groups find stands in front of the operands.
    """

    spelling: str
    method: str
    section: str
    gate: Gate = Gate("6.0", ("sm_70",))  # noqa: RUF009 - frozen


class Call(NamedTuple):
    """The method that executes an opcode, and what the opcode says of its arguments."""

    operation: Operation
    first: tuple[str, ...]
    named: dict[str, str]


_AMPERE, _HOPPER, _HOPPER_ONLY = Gate("7.0", ("sm_80",)), Gate("8.0", ("sm_90",)), Gate("8.0", ("sm_90a",))
#: A memory order and scope, a state space, a block that is its own cluster.
_ORDER, _CTA = r"(?:\.(?:release|acquire|relaxed))?(?:\.(?:cta|cluster))?", r"(?:\.shared(?:::cta)?)?"
_CLUSTER = r"(?:cta|cluster)"
_ACCESS = r"(?P<access>[\w.]+)"
OPERATIONS = (
    Operation(rf"ld\.shared(?:::cta)?\.{_ACCESS}", "ld_shared", "9.7.9.8"),
    Operation(rf"ld\.global\.{_ACCESS}", "ld_global", "9.7.9.8"),
    Operation(rf"st\.shared(?:::cta)?\.{_ACCESS}", "st_shared", "9.7.9.11"),
    Operation(rf"st\.global\.{_ACCESS}", "st_global", "9.7.9.11"),
    Operation(r"shfl\.sync\.(\w+)\.b32", "shfl_sync", "9.7.9.6"),
    Operation(r"vote\.sync\.(\w+)(?:\.pred|\.b32)?", "vote_sync", "9.7.13.8"),
    Operation(r"elect\.sync", "elect_sync", "9.7.13.16", _HOPPER),
    Operation(r"bar\.warp\.sync", "bar_warp_sync", "9.7.13.2"),
    Operation(r"(?:bar(?:\.cta)?|barrier(?:\.cta)?)\.sync(?:\.aligned)?", "bar_sync", "9.7.13.1"),
    Operation(r"(?:bar(?:\.cta)?|barrier(?:\.cta)?)\.arrive(?:\.aligned)?", "bar_arrive", "9.7.13.1"),
    Operation(rf"mbarrier\.init{_CTA}\.b64", "mbarrier_init", "9.7.13.15.9", _AMPERE),
    Operation(rf"mbarrier\.inval{_CTA}\.b64", "mbarrier_inval", "9.7.13.15.10", _AMPERE),
    Operation(rf"mbarrier\.expect_tx{_ORDER}{_CTA}\.b64", "mbarrier_expect_tx", "9.7.13.15.11", _HOPPER),
    Operation(rf"mbarrier\.arrive\.expect_tx{_ORDER}{_CTA}\.b64", "mbarrier_arrive_expect_tx", "9.7.13.15.13", _HOPPER),
    Operation(rf"mbarrier\.arrive{_ORDER}{_CTA}\.b64", "mbarrier_arrive", "9.7.13.15.13", _AMPERE),
    Operation(rf"mbarrier\.test_wait\.parity{_ORDER}{_CTA}\.b64", "mbarrier_test_wait", "9.7.13.15.16", _AMPERE),
    Operation(rf"mbarrier\.try_wait\.parity{_ORDER}{_CTA}\.b64", "mbarrier_wait", "9.7.13.15.16", _HOPPER),
    Operation(r"fence\.mbarrier_init\.release\.cluster", "fence_mbarrier_init", "9.7.13.4", _HOPPER),
    Operation(r"cp\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global", "cp_async", "9.7.9.25.3", _AMPERE),
    Operation(r"cp\.async\.commit_group", "cp_async_commit_group", "9.7.9.25.3", _AMPERE),
    Operation(r"cp\.async\.wait_group", "cp_async_wait_group", "9.7.9.25.3", _AMPERE),
    Operation(r"cp\.async\.wait_all", "cp_async_wait_all", "9.7.9.25.3", _AMPERE),
    Operation(
        r"cp\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?(?:\.shared(?:::cta)?)?\.b64",
        "cp_async_mbarrier_arrive",
        "9.7.13.15.15",
        _AMPERE,
    ),
    Operation(
        rf"cp\.async\.bulk\.shared::{_CLUSTER}\.global\.mbarrier::complete_tx::bytes",
        "cp_async_bulk_shared_global",
        "9.7.9.25.5",
        _HOPPER,
    ),
    Operation(
        r"cp\.async\.bulk\.global\.shared::cta\.bulk_group", "cp_async_bulk_global_shared", "9.7.9.25.5", _HOPPER
    ),
    Operation(
        rf"cp\.async\.bulk\.tensor\.[1-5]d\.shared::{_CLUSTER}\.global(?:\.tile)?\.mbarrier::complete_tx::bytes",
        "cp_async_bulk_tensor_shared_global",
        "9.7.9.27.1",
        _HOPPER,
    ),
    Operation(
        r"cp\.async\.bulk\.tensor\.[1-5]d\.global\.shared::cta(?:\.tile)?\.bulk_group",
        "cp_async_bulk_tensor_global_shared",
        "9.7.9.27.1",
        _HOPPER,
    ),
    Operation(r"cp\.async\.bulk\.commit_group", "cp_async_bulk_commit_group", "9.7.9.25.5", _HOPPER),
    Operation(r"cp\.async\.bulk\.wait_group(?P<read>\.read)?", "cp_async_bulk_wait_group", "9.7.9.25.5", _HOPPER),
    Operation(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32", "setmaxnreg", "9.7.20.5", _HOPPER_ONLY),
)


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
    return _find(instruction.strip().removesuffix(";").strip()) if isinstance(instruction, str) else None


@lru_cache(maxsize=4096)
def check_gate(opcode: str, target: str) -> None:
    """Raise IllegalInstruction where `target` has no such operation."""
    call = _find(opcode)
    if call is not None and not call.operation.gate.admits(target_named(target)):
        raise IllegalInstruction(
            f"{opcode} does not exist on {target}: it needs {call.operation.gate.targets} (PTX ISA "
            f"{call.operation.section})"
        )

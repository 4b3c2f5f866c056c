"""Persistent GEMM: as many blocks as multiprocessors, each with a list of tiles, so that no tile waits for a launch.

The producer copies the stages of one tile after the other, without a pause between tiles. Two consumer warpgroups
multiply them, in one of CUTLASS's two schedules (KernelTmaWarpSpecializedCooperative and ...Pingpong):

    cooperative  both warpgroups multiply the same tile, the upper and the lower 64 rows, and store it together
    ping-pong    each warpgroup has a tile of its own: while one stores its tile, the other multiplies

In `SCHEDULES`, the two differ in one number: the consumer warpgroups are one team of two, or two teams of one. Teams
take turns at the stages. The mbarrier `order` passes the turn on, as CUTLASS's OrderedSequenceBarrier does, and more
than speed depends on it: a wait by parity cannot tell turn t of a stage from turn t - 2, so a team may wait for its
stages only after the other team has waited for all stages before them.

Accumulators need more registers than the launch gives each thread, and the producer needs hardly any: setmaxnreg moves
them. The order of the tiles is `place`'s: it is made so that blocks that run at the same time share rows and columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly, listing
from tcemu.gemm.operands import check
from tcemu.gemm.store import store
from tcemu.gemm.wgmma_tma import LINE, WARPGROUP, Plan, multiply_stage, release
from tcemu.launcher import launch
from tcemu.layouts.canonical import element_bits
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: Registers of a thread that produces and of one that consumes, by the number of consumer warpgroups. With the
#: producer's warpgroup, they are at most the 65,536 registers of a multiprocessor.
REGISTERS = {2: (40, 232), 3: (32, 160)}
#: Multiprocessors of an H100 SXM: the blocks of a launch.
BLOCKS = 132


@dataclass(frozen=True)
class PersistentPlan(Plan):
    """A Plan whose `consumers` are the warpgroups of one team: a tile (CUTLASS: TileShape) has 64 rows for each.

    `teams` take tiles in turn; 1 is CUTLASS's cooperative schedule, 2 its ping-pong schedule. `group` is the number of
    rows of tiles that are visited together (CUTLASS: max_swizzle_size; Triton: GROUP_SIZE_M). One group of products is
    in flight while the next one is issued, whatever `in_flight` says, and `promote` has no effect.
    """

    consumers: int = 2
    teams: int = 1
    group: int = 8

    @cached_property
    def warpgroups(self) -> int:
        """Warpgroups that multiply."""
        return self.teams * self.consumers

    def order(self, team: int) -> int:
        """The address of the mbarrier on which a team waits for its turn."""
        return self.empty(self.stages + team)

    @cached_property
    def shared(self) -> int:
        """Bytes of shared memory that a block needs."""
        return self.order(self.teams)


#: The schedules by name.
SCHEDULES = {
    "cooperative": PersistentPlan(columns=256, consumers=2, teams=1, stages=4),
    "ping-pong": PersistentPlan(columns=256, consumers=1, teams=2, stages=4),
}


def place(tile: int, down: int, across: int, group: int) -> tuple[int, int]:
    """The row and column, in tiles, of a tile of a matrix of `down` by `across` tiles (CUTLASS: the raster order).

    Groups of `group` rows of tiles are visited one after the other, each column by column. The tiles that run at the
    same time are then nearly a square: they read fewer different rows of A and columns of B, and find more in the L2.

    >>> from tcemu.gemm import wgmma_persistent
    >>> [wgmma_persistent.place(tile, 3, 4, group=2) for tile in range(5)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    """
    turn, within = divmod(tile, group * across)
    rows = min(group, down - group * turn)  # the last group may have fewer
    return group * turn + within % rows, within // rows


def begin_teams(warp: Warp, plan: PersistentPlan) -> None:
    """One lane of the producer initialises the mbarriers; then all threads may use them."""
    if warp.warpid == 4 * plan.warpgroups:
        with warp.only(warp.elect_sync()):
            for stage in range(plan.stages):
                warp.mbarrier_init(plan.full(stage), 1)
                warp.mbarrier_init(plan.empty(stage), 4 * plan.consumers)
            for team in range(plan.teams):
                warp.mbarrier_init(plan.order(team), 4 * plan.consumers)
            warp.fence_mbarrier_init()
    warp.bar_sync()


def produce(warp: Warp, plan: PersistentPlan, tiles: list[tuple[int, int]], a: Pointer, b: Pointer, steps: int) -> None:
    """One lane copies the stages of all tiles, each as soon as it is empty."""
    box_a = TensorMap.of(a, (plan.depth, plan.rows), swizzle=LINE)
    box_b = TensorMap.of(b, (plan.depth, plan.columns), swizzle=LINE)
    with warp.only(warp.elect_sync()):
        for number, (y, x) in enumerate(tiles):
            for step in range(steps):
                turn, stage = divmod(number * steps + step, plan.stages)
                to, full = stage * plan.stage_bytes, plan.full(stage)
                warp.mbarrier_wait(plan.empty(stage), (turn + 1) % 2)
                warp.mbarrier_arrive_expect_tx(full, plan.stage_bytes)
                warp.cp_async_bulk_tensor_shared_global(to, box_a, (plan.depth * step, plan.rows * y), full)
                at = plan.depth * step, plan.columns * x
                warp.cp_async_bulk_tensor_shared_global(to + plan.a_bytes, box_b, at, full)


def await_turn(warp: Warp, plan: PersistentPlan, team: int, number: int) -> None:
    """Wait until the team before has waited for all its stages; nobody comes before the first team's first tile."""
    if plan.teams > 1:
        warp.mbarrier_wait(plan.order(team), (number // plan.teams + (team == 0)) % 2)


def pass_turn(warp: Warp, plan: PersistentPlan, team: int) -> None:
    """One lane signals that this warp has issued the last products of its tile."""
    if plan.teams > 1:
        with warp.only(warp.elect_sync()):
            warp.mbarrier_arrive(plan.order((team + 1) % plan.teams))


def consume(warp: Warp, plan: PersistentPlan, team: int, number: int, steps: int) -> Registers:
    """The team multiplies the stages of the block's tile `number`. One group is in flight while the next is issued."""
    c = warp.registers(plan.columns // 2, fill=0)
    await_turn(warp, plan, team, number)
    for step in range(steps):
        turn, stage = divmod(number * steps + step, plan.stages)
        warp.mbarrier_wait(plan.full(stage), turn % 2)
        multiply_stage(warp, plan, stage, c, begin=step == 0)
        if step:
            warp.wgmma_wait_group(1)
            release(warp, plan, (stage - 1) % plan.stages)
    pass_turn(warp, plan, team)
    warp.wgmma_wait_group(0)
    release(warp, plan, stage)
    return c


def kernel(warp: Warp, plan: PersistentPlan, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B^T: A (m, k) and B (n, k), both with K innermost; D (m, n). Block i has tiles i, i + blocks, ..."""
    steps, (down, across) = -(-a.shape[1] // plan.depth), tiles_of(plan, *d.shape)
    tiles = [place(each, down, across, plan.group) for each in range(warp.ctaid[0], down * across, warp.nctaid[0])]
    few, many = REGISTERS[plan.warpgroups]
    begin_teams(warp, plan)
    if warp.warpgroup == plan.warpgroups:
        warp.setmaxnreg("dec", few)  # all four warps of the warpgroup, though only one has work
        if warp.warpid % 4 == 0:
            produce(warp, plan, tiles, a, b, steps)
        return
    warp.setmaxnreg("inc", many)
    team = warp.warpgroup // plan.consumers
    for number in range(team, len(tiles), plan.teams):
        c = consume(warp, plan, team, number, steps)
        y, x = tiles[number]
        row = plan.rows * y + 16 * (warp.warpid % (4 * plan.consumers)) + warp.laneid // 4
        store(warp, d, c, row, plan.columns * x)


def tiles_of(plan: Plan, m: int, n: int) -> tuple[int, int]:
    """How many tiles D (m, n) has, down and across."""
    return -(-m // plan.rows), -(-n // plan.columns)


def grid_of(plan: PersistentPlan, m: int, n: int, blocks: int) -> int:
    """The blocks of a launch: no more than tiles. Raises OperandError for a plan or number that cannot be."""
    if plan.warpgroups not in REGISTERS:
        known = listing([f"{each}" for each in REGISTERS], "or")
        raise OperandError(
            f"{plan.teams} teams of {plan.consumers} consumer warpgroups: this kernel has {known} warpgroups that "
            "multiply, because setmaxnreg must divide 65,536 registers between them and the producer"
        )
    if plan.group < 1 or isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
        raise OperandError(f"group and blocks must be at least 1; got {briefly(plan.group)} and {briefly(blocks)}")
    down, across = tiles_of(plan, m, n)
    return min(blocks, down * across)


def plan_of(schedule: str | PersistentPlan) -> PersistentPlan:
    """The plan of a schedule's name, or the plan itself. Raises OperandError for another name."""
    plan = SCHEDULES.get(schedule) if isinstance(schedule, str) else schedule
    if not isinstance(plan, PersistentPlan):
        names = listing([repr(each) for each in SCHEDULES], "or")
        raise OperandError(f"the schedule must be {names}, or a PersistentPlan; got {briefly(schedule)}")
    return plan


@explained
def multiply(
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    schedule: str | PersistentPlan = "cooperative",
    blocks: int = BLOCKS,
    **options: Any,
) -> tuple[npt.NDArray[Any], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch: the same bits as wgmma_tma.multiply, with the same operands.

    `schedule` is "cooperative" or "ping-pong", or a plan of your own; `blocks` is the number of multiprocessors.
    `options` are passed to tcemu.launch: seed, policy, sanitizer. Raises OperandError for other shapes, dtypes, plans.

    >>> from tcemu.gemm import wgmma_persistent
    >>> A, B = np.ones((256, 64), np.float16), np.ones((64, 256), np.float16)
    >>> D, result = wgmma_persistent.multiply(A, B, "ping-pong", blocks=2)  # four tiles of 64 x 256
    >>> D[0, 0], result.blocks, result.reports
    (np.float32(64.0), 2, [])
    """
    plan = plan_of(schedule)
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    grid, threads = grid_of(plan, *d.shape, blocks), WARPGROUP * (plan.warpgroups + 1)
    arguments = plan, *(np.ascontiguousarray(matrix) for matrix in (a, b.T)), d
    return d, launch(kernel, grid, threads, arguments, shared=plan.shared, **options)

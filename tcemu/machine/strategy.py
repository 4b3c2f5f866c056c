"""Strategies, which decide wherever the manual leaves the order open.

The scheduler and the asynchronous work ask a strategy at each point of decision, one method for each. `InOrder` is the
fixed order of seed 0, `AtRandom` that of any other seed; a strategy of your own derives from one of them, so that it
can record what they decide, repeat it, or steer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from tcemu.errors import LaunchError, listing, shown

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.machine.pending import Task
    from tcemu.machine.scheduler import Strand

Item = TypeVar("Item")

#: early: at once. late: when a warp waits for it, or nothing else can continue. random: at any moment in between.
Policy = Literal["early", "late", "random"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

#: The probability that `AtRandom` interrupts a warp before an operation.
_SWITCH = 0.3
#: Under the policy random, the probability that a task ends at a turn of a warp.
_OFTEN = 0.25


class InOrder:
    """A warp runs until it must wait; then the first one that can continue runs. `policy` decides about tasks."""

    #: Whether a warp whose turn is over goes behind all others.
    queues = True
    #: Whether the scheduler consults it before each operation, which takes time.
    preempts = False
    #: How many blocks run concurrently even if none polls memory that another may change.
    together = 1

    def __init__(self, policy: Policy, seed: int = 0) -> None:
        self.policy, self.seed = check_policy(policy), seed
        self._random = Random(seed)  # noqa: S311 - an order, not a secret

    def blocks(self, order: list[Item]) -> list[Item]:
        """The order in which blocks start; `order` is that of their numbers."""
        return order

    def warps(self, strands: list[Strand]) -> list[Strand]:
        """The order in which the warps of a block queue up."""
        return strands

    def lanes(self, count: int) -> Sequence[int]:
        """The order in which `count` lanes perform their parts of an atomic operation."""
        return range(count)

    def interrupts(self, strand: Strand, instruction: Instruction) -> bool:
        """Whether other warps run before this operation; `strand.operations` counts it already."""
        return False

    def runs(self, able: Sequence[Strand], busy: Sequence[Strand]) -> Strand:
        """Which of the warps that can continue runs now; `busy` are those of them that do not only poll."""
        return (busy or able)[0]

    def at_once(self, task: Task) -> bool:
        """Whether a task that begins now ends at once."""
        return self.policy == "early"

    def ends(self, tasks: Collection[Task]) -> Task | None:
        """Which task of a block ends before the next warp runs; None for none. `tasks` are in order, at least one."""
        if self.policy == "random" and self._random.random() < _OFTEN:
            return self._random.choice(list(tasks))
        return None

    def must_end(self, tasks: Collection[Task]) -> Task:
        """Which task of a block ends because no warp can continue."""
        return next(iter(tasks))


class AtRandom(InOrder):
    """Blocks, warps and lanes take turns anywhere, in an order that the seed alone decides."""

    queues, preempts, together = False, True, 4

    def blocks(self, order: list[Item]) -> list[Item]:
        """Any order."""
        Random(self.seed).shuffle(order)  # noqa: S311 - likewise
        return order

    def lanes(self, count: int) -> Sequence[int]:
        """Any order."""
        order = list(range(count))
        self._random.shuffle(order)
        return order

    def interrupts(self, strand: Strand, instruction: Instruction) -> bool:
        """Now and then."""
        return self._random.random() < _SWITCH

    def runs(self, able: Sequence[Strand], busy: Sequence[Strand]) -> Strand:
        """Any warp, even one that polls."""
        return self._random.choice(able)


def strategy_of(policy: Policy, seed: int) -> InOrder:
    """The strategy of a policy and a seed."""
    return AtRandom(policy, seed) if seed else InOrder(policy)


def check_policy(policy: object) -> Policy:
    """The policy. Raises LaunchError if there is no such policy."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise LaunchError(f"policy must be {listing(map(repr, POLICIES))}; got {shown(policy)}")
    return policy

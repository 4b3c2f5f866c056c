"""What a block has under way: asynchronous work, and the policy that says when its effects appear."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Literal, get_args

from tcemu.errors import LaunchError, listing, shown

#: early: at once. late: when somebody waits for it, or nothing else can go on. random: at any moment in between.
Policy = Literal["early", "late", "random"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

#: How often something under way ends, at each turn of a warp, where the policy is random.
_OFTEN = 0.25


class Task:
    """Something under way. What has the same `queue` ends in the order in which it began."""

    def __init__(self, queue: object, effect: Callable[[], None]) -> None:
        self.queue, self._effect, self.done = queue, effect, False

    def run(self) -> None:
        """Let its effects appear."""
        self.done = True
        self._effect()


class Pending:
    """Tasks in the order in which they began."""

    def __init__(self, policy: Policy) -> None:
        if policy not in POLICIES:
            raise LaunchError(f"policy is {listing(map(repr, POLICIES))}; got {shown(policy)}")
        self.policy = policy
        self._tasks: list[Task] = []

    def add(self, task: Task) -> None:
        """Something begins."""
        if self.policy == "early":
            task.run()
        else:
            self._tasks.append(task)

    def finish(self, tasks: Iterable[Task]) -> None:
        """Somebody waited for `tasks`: they end now, after what stands before them in their queues."""
        for task in list(tasks):
            if not task.done:
                self._end(task)

    def finish_all(self) -> None:
        """End everything."""
        while self.step():
            pass

    def step(self) -> bool:
        """End the oldest; whether there was one."""
        if not self._tasks:
            return False
        self._end(self._tasks[0])
        return True

    def perhaps(self, random: Random) -> None:
        """Let a turn go by, in which something may end."""
        if self.policy == "random" and self._tasks and random.random() < _OFTEN:
            self._end(random.choice(self._tasks))

    def _end(self, task: Task) -> None:
        for other in [each for each in self._tasks if each.queue == task.queue]:
            self._tasks.remove(other)
            other.run()
            if other is task:
                return

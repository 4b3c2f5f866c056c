"""The pending asynchronous work of a block. A strategy decides when its effects appear."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tcemu.errors import OperandError, briefly, is_whole
from tcemu.instructions import Instruction
from tcemu.machine.strategy import POLICIES, InOrder, Policy, check_policy

__all__ = ["POLICIES", "Groups", "Pending", "Policy", "Task", "check_policy", "youngest_of"]


class Task:
    """One piece of asynchronous work. Tasks with the same `queue` end in the order in which they began.

    Those `after` which it ends have begun before it.
    """

    def __init__(self, queue: object, effect: Callable[[], None], after: Sequence[Task] = ()) -> None:
        self.queue, self._effect, self.done = queue, effect, False
        self.after = after

    @property
    def free(self) -> bool:
        """Whether those after which it ends have ended."""
        return all(each.done for each in self.after)

    def run(self) -> None:
        """Make its effects visible."""
        self.done = True
        self._effect()


class Pending:
    """Tasks in the order in which they began; without a strategy, the policy alone decides when they end."""

    def __init__(self, policy: Policy, strategy: InOrder | None = None) -> None:
        self.policy = policy
        self._strategy = strategy or InOrder(policy)
        #: those that have not ended, in order; a dictionary, so that a task can be removed from any position
        self.tasks: dict[Task, None] = {}
        self._queues: dict[object, deque[Task]] = {}

    def add(self, task: Task) -> None:
        """Begin a task."""
        # otherwise it ends after the earlier ones
        if self._strategy.at_once(task) and task.queue not in self._queues and task.free:
            task.run()
        else:
            self.tasks[task] = None
            self._queues.setdefault(task.queue, deque()).append(task)

    def finish(self, tasks: Iterable[Task]) -> None:
        """End `tasks` now, because a warp waited for them, after those before them in their queues."""
        for task in list(tasks):
            self._end(task)

    def finish_all(self) -> None:
        """End everything."""
        while self.step():
            pass

    def step(self) -> bool:
        """End a task, the oldest unless the strategy chooses another; return whether there was one."""
        if not self.tasks:
            return False
        self._end(self._strategy.must_end(self.tasks))
        return True

    def perhaps(self) -> None:
        """End a task if the strategy says so; there is at least one."""
        task = self._strategy.ends(self.tasks)
        if task is not None:
            self._end(task)

    def _end(self, task: Task) -> None:
        while not task.done:
            queue = self._queues[task.queue]
            for other in queue[0].after:
                self._end(other)
            first = queue.popleft()
            if not queue:
                del self._queues[task.queue]
            del self.tasks[first]
            first.run()


class Groups:
    """Tasks by the group they are committed in: 0, 1, 2..."""

    def __init__(self) -> None:
        #: tasks that are not in a group yet
        self.open: list[Task] = []
        self._committed: deque[list[Task]] = deque()
        self._ended = 0

    @property
    def next(self) -> int:
        """The number that the open group will have."""
        return self._ended + len(self._committed)

    @property
    def under_way(self) -> list[Task]:
        """The tasks that no wait has covered."""
        return [task for group in (*self._committed, self.open) for task in group]

    def commit(self) -> int:
        """Commit the open group; return its number."""
        self._committed.append(self.open)
        self.open = []
        return self.next - 1

    def wait(self, pending: Pending, youngest: int) -> int:
        """End all groups but the `youngest`; return the number of the first group that has not ended."""
        while len(self._committed) > youngest:
            pending.finish(self._committed.popleft())
            self._ended += 1
        return self._ended


def youngest_of(instruction: Instruction, count: Any) -> int:
    """N of a wait_group, the groups that may stay pending: an integer of at least 0. Raises OperandError."""
    if (type(count) is int or is_whole(count)) and count >= 0:
        return int(count)
    raise OperandError(
        f"{instruction}: N must be an immediate, an integer of at least 0; got {briefly(count)} (PTX ISA "
        f"{instruction.section})"
    )

"""The asynchronous work that a block has under way, and the policy that decides when its effects appear."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Literal, get_args

from tcemu.errors import LaunchError, listing, shown

#: early: at once. late: when a warp waits for it, or nothing else can go on. random: at any moment in between.
Policy = Literal["early", "late", "random"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

#: Under the policy random, the probability that a task ends at a turn of a warp.
_OFTEN = 0.25


class Task:
    """One piece of asynchronous work. Tasks with the same `queue` end in the order in which they began."""

    def __init__(self, queue: object, effect: Callable[[], None]) -> None:
        self.queue, self._effect, self.done = queue, effect, False

    def run(self) -> None:
        """Let its effects appear."""
        self.done = True
        self._effect()


class Pending:
    """Tasks in the order in which they began."""

    def __init__(self, policy: Policy) -> None:
        self.policy = check_policy(policy)
        #: in order; a dictionary, so that a task can be removed from any position
        self._tasks: dict[Task, None] = {}
        self._queues: dict[object, deque[Task]] = {}

    def add(self, task: Task) -> None:
        """Begin a task."""
        if self.policy == "early":
            task.run()
        else:
            self._tasks[task] = None
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
        """End the oldest task; return whether there was one."""
        oldest = next(iter(self._tasks), None)
        if oldest is None:
            return False
        self._end(oldest)
        return True

    def perhaps(self, random: Random) -> None:
        """Under the policy random, perhaps end a task."""
        if self.policy == "random" and self._tasks and random.random() < _OFTEN:
            self._end(random.choice(list(self._tasks)))

    def _end(self, task: Task) -> None:
        while not task.done:
            queue = self._queues[task.queue]
            first = queue.popleft()
            if not queue:
                del self._queues[task.queue]
            del self._tasks[first]
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


def check_policy(policy: object) -> Policy:
    """The policy. Raises LaunchError if there is no such policy."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise LaunchError(f"policy is {listing(map(repr, POLICIES))}; got {shown(policy)}")
    return policy

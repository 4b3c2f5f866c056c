"""tcemu.Stream: several launches of one stream, which may overlap where programmatic dependent launch lets them."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

from tcemu.errors import LaunchError, TcemuError, briefly
from tcemu.launcher import replaced
from tcemu.machine.allocation import Shared
from tcemu.machine.arguments import check_arguments
from tcemu.machine.events import Observer
from tcemu.machine.launch import (
    RESIDENT,
    Kernel,
    Launch,
    check_observers,
    check_operations,
    check_resident,
    name_of,
    shape_of,
)
from tcemu.machine.pending import Policy, check_policy
from tcemu.machine.stream import Planned, run_stream
from tcemu.sanitizer.sanitizer import Mode, Sanitizer

__all__ = ["Stream"]


class Stream:
    """Launches that run one after the other, as in a CUDA stream; a launch may begin before the one before has ended.

    `launch` only plans; `synchronize` runs what is planned. With `programmatic_stream_serialization` (the attribute
    cudaLaunchAttributeProgrammaticStreamSerialization), a launch may begin once each block of the launch before it has
    executed griddepcontrol.launch_dependents or exited. Its own griddepcontrol.wait then returns when that launch has
    ended and all that it wrote can be seen. Accesses before the wait are a race if the launches share their bytes; the
    sanitizer reports it as global-race, at both lines.

    All launches of a stream have one target, seed, policy and sanitizer, with the meaning that they have in
    tcemu.launch. A launch in a stream without the attribute begins when all launches before it have ended.

    >>> def produce(warp, x):
    ...     warp.griddepcontrol("launch_dependents")
    ...     warp.st_global(x.at(warp.threads), warp.threads)
    >>> def consume(warp, x, out):
    ...     warp.griddepcontrol("wait")  # what may come before it: all that needs nothing of `produce`
    ...     warp.st_global(out.at(warp.threads), warp.ld_global(x.at(warp.threads)))
    >>> x, out = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    >>> stream = tcemu.Stream()
    >>> stream.launch(produce, block=64, args=(x,))
    >>> stream.launch(consume, block=64, args=(x, out), programmatic_stream_serialization=True)
    >>> first, second = stream.synchronize()
    >>> int(out[63]), second.reports
    (63, [])
    """

    def __init__(
        self,
        *,
        target: str = "sm_90a",
        seed: int = 0,
        policy: Policy = "late",
        resident: int = RESIDENT,
        operations: int | None = None,
        sanitizer: Mode = "raise",
        observers: Sequence[Observer] = (),
    ) -> None:
        """Raises LaunchError, TargetError or OperandError for an argument that no launch takes."""
        Sanitizer(sanitizer)  # raises for an unknown mode
        self._more: dict[str, Any] = {"target": target, "seed": seed, "policy": check_policy(policy)}
        self._resident, self._operations, self._sanitizer = resident, operations, sanitizer
        self._listening = check_observers(observers)
        check_operations(operations)
        self._planned: list[Planned] = []

    def launch(
        self,
        kernel: Kernel,
        grid: int | Sequence[int] = 1,
        block: int | Sequence[int] = 32,
        args: Sequence[Any] = (),
        *,
        shared: int | Shared = 0,
        cluster: int | Sequence[int] | None = None,
        non_portable_cluster: bool = False,
        programmatic_stream_serialization: bool = False,
    ) -> None:
        """Plan a launch after those that are planned. Raises LaunchError for what no GPU would launch."""
        if not callable(kernel):
            raise LaunchError(f"a kernel must be a function that takes a warp; got {briefly(kernel)}")
        if not isinstance(args, list | tuple):
            raise LaunchError(f"args must be a tuple of the kernel's arguments after the warp; got {briefly(args)}")
        if not isinstance(programmatic_stream_serialization, bool):
            told = briefly(programmatic_stream_serialization)
            raise LaunchError(f"programmatic_stream_serialization must be True or False; got {told}")
        check_arguments(kernel, args)
        order = self._more["seed"], self._more["policy"]
        shape = shape_of(grid, block, shared, self._more["target"], *order, cluster, non_portable_cluster)
        check_resident(self._resident, shape)
        overlaps = programmatic_stream_serialization and bool(self._planned)
        self._planned.append(Planned(kernel, shape, tuple(args), overlaps))

    def synchronize(self) -> list[Launch]:
        """Run the planned launches; their results, in order. Each has the reports about its own lines.

        Raises what tcemu.launch raises; the arrays of all launches are then unchanged. If the sanitizer has collected a
        report before an error, the result of the first launch has the error as `error` instead.
        """
        planned, self._planned = self._planned, []
        if not planned:
            return []
        if replaced():
            raise LaunchError("a stream cannot be launched here: launch one kernel at a time, with tcemu.launch")
        watch = Sanitizer(self._sanitizer)
        listening: list[Observer] = [*self._listening, *([] if watch.mode == "off" else [watch])]
        try:
            results = run_stream(
                planned, resident=self._resident, operations=self._operations, observers=listening
            )
        except TcemuError as error:
            first = error.launch
            if first is not None:
                first.reports = watch.reports
            if first is None or watch.mode == "raise" or not watch.errors:
                raise
            first.error = error
            return [first]
        ends = list(accumulate(prod(each.shape.grid) for each in planned))
        for report in watch.reports:
            results[bisect(ends, int(report.by.block))].reports.append(report)
        return results

    def __repr__(self) -> str:
        planned = ", ".join(name_of(each.kernel) for each in self._planned) or "nothing planned"
        return f"<stream on {self._more['target']}: {planned}>"

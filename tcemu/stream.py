"""tcemu.Stream: several launches of one stream, which may overlap where programmatic dependent launch lets them."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import Any, Protocol, runtime_checkable

from tcemu.errors import LaunchError, TcemuError, briefly
from tcemu.launcher import replaced
from tcemu.machine.allocation import Shared
from tcemu.machine.arguments import check_arguments, check_kernel, check_tuple, fresh
from tcemu.machine.events import Observer
from tcemu.machine.global_memory import is_buffer
from tcemu.machine.launch import (
    RESIDENT,
    Kernel,
    Launch,
    check_observers,
    check_operations,
    check_resident,
    name_of,
    partings,
    policies_of,
    shape_of,
)
from tcemu.machine.pending import Policy
from tcemu.machine.stream import Planned, run_stream
from tcemu.sanitizer.sanitizer import Mode, Sanitizer
from tcemu.schedules.sweep import restore, seeds_of

__all__ = ["Stream"]


@runtime_checkable
class _Front(Protocol):
    """A kernel in another language: what runs it as tcemu.launch does, the arrays, the shared memory, the cluster."""

    def prepared(self, args: Sequence[Any], shared: Any, cluster: Any) -> tuple[Kernel, Sequence[Any], Any, Any]: ...


def _nothing(result: Launch) -> None:
    """A function in Python has counted its instructions itself."""


class Stream:
    """Launches that run one after the other, as in a CUDA stream; a launch may begin before the one before has ended.

    `launch` only plans; `synchronize` runs what is planned. With `programmatic_stream_serialization` (the attribute
    cudaLaunchAttributeProgrammaticStreamSerialization), a launch may begin once each block of the launch before it has
    executed griddepcontrol.launch_dependents or exited. Its own griddepcontrol.wait then returns when that launch has
    ended and all that it wrote can be seen. Accesses before the wait are a race if the launches share their bytes; the
    sanitizer reports it as global-race, at both lines.

    All launches of a stream have the same target, seeds, policies and sanitizer, with the meaning that they have in
    tcemu.launch: with several seeds or policies, the whole stream runs once under each, on the same input. A launch in
    a stream without the attribute begins when all launches before it have ended.

    Kernels of CUDA C++ and PTX are launched like functions: stream.launch(module["scale"], 8, 128, (x, 2.0, 1000)).

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
        seeds: int | Iterable[int] | None = None,
        policy: Policy | Sequence[Policy] = "late",
        resident: int = RESIDENT,
        operations: int | None = None,
        sanitizer: Mode = "raise",
        observers: Sequence[Observer] = (),
    ) -> None:
        """Raises LaunchError, TargetError or OperandError for an argument that no launch takes."""
        Sanitizer(sanitizer)  # raises for an unknown mode
        self._target = target
        #: The seed and policy of each run; if there are several, they have names in `parted`.
        self._cause = "policy" if seeds is None else "seed"
        numbers = [seed] if seeds is None else seeds_of(seeds)
        self._orders = [(number, each) for number in numbers for each in policies_of(policy)]
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
        check_kernel(kernel)
        check_tuple(args)
        if not isinstance(programmatic_stream_serialization, bool):
            got = briefly(programmatic_stream_serialization)
            raise LaunchError(f"programmatic_stream_serialization must be True or False; got {got}")
        if isinstance(kernel, _Front):
            kernel, args, shared, cluster = kernel.prepared(args, shared, cluster)
        check_arguments(kernel, args)
        shape = shape_of(grid, block, shared, self._target, *self._orders[0], cluster, non_portable_cluster)
        check_resident(self._resident, shape)
        overlaps = programmatic_stream_serialization and bool(self._planned)
        self._planned.append(Planned(kernel, shape, tuple(args), overlaps))

    def synchronize(self) -> list[Launch]:
        """Run the planned launches; their results, in order. Each has the reports about its own lines.

        With several seeds or policies, they are the results under the first, as are the arrays' contents; `parted` of
        each launch says which of its arrays then hold something else under another. Raises what tcemu.launch raises;
        the arrays of all launches are then unchanged. If the sanitizer has collected a report before an error, the
        result of the first launch has the error as `error` instead.
        """
        planned, self._planned = self._planned, []
        if not planned:
            return []
        if replaced():
            raise LaunchError("a stream cannot be launched here: launch one kernel at a time, with tcemu.launch")
        watch = Sanitizer(self._sanitizer)
        try:
            results = self._run(planned, watch)
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

    def _run(self, planned: Sequence[Planned], watch: Sanitizer) -> list[Launch]:
        """Run the launches under every seed and policy; the results under the first, with what differs."""
        listening: list[Observer] = [*self._listening, *([] if watch.mode == "off" else [watch])]
        args = [argument for each in planned for argument in each.args]
        before = fresh(args) if len(self._orders) > 1 else args
        results: list[Launch] = []
        try:
            for number, order in enumerate(self._orders):
                argument = fresh(before) if number else args
                one = run_stream(
                    _under(planned, order, argument), resident=self._resident, operations=self._operations,
                    observers=listening,
                )  # fmt: skip
                for each, result in zip(planned, one, strict=True):
                    getattr(each.kernel, "ran", _nothing)(result)
                results = results or one
                if number:
                    self._compare(planned, results, order, argument)
        except Exception:
            restore(args, before)
            raise
        return results

    def _compare(
        self, planned: Sequence[Planned], results: Sequence[Launch], order: tuple[int, Policy], arguments: Sequence[Any]
    ) -> None:
        """Note in the results which arrays differ from those under the first order, if no earlier one has shown it."""
        others = iter(arguments)
        names = [f"seed {seed}" if self._cause == "seed" else policy for seed, policy in (self._orders[0], order)]
        for each, result in zip(planned, results, strict=True):
            pairs = [(n, one, other) for n, (one, other) in enumerate(zip(each.args, others, strict=False))]
            pairs = [(n, one, other) for n, one, other in pairs if is_buffer(one)]
            contents = [[one for _, one, _ in pairs], [other for _, _, other in pairs]]
            parted = partings([n for n, _, _ in pairs], names, contents, self._cause, each.kernel)
            known = {parting.argument for parting in result.parted}
            result.parted += [parting for parting in parted if parting.argument not in known]

    def __repr__(self) -> str:
        planned = ", ".join(name_of(each.kernel) for each in self._planned) or "nothing planned"
        return f"<stream on {self._target}: {planned}>"


def _under(planned: Sequence[Planned], order: tuple[int, Policy], args: Sequence[Any]) -> list[Planned]:
    """The launches under a seed and a policy, with these arguments."""
    (seed, policy), arguments = order, iter(args)
    return [
        replace(
            each, shape=replace(each.shape, seed=seed, policy=policy), args=tuple(next(arguments) for _ in each.args)
        )
        for each in planned
    ]

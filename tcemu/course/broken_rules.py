"""Which rule does this kernel break? The learner names it before the report appears, and its fix stays folded away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import numpy.typing as npt

from tcemu import show
from tcemu.arguments import explained
from tcemu.errors import OperandError, listing
from tcemu.machine.launch import Launch
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.rules import RULES
from tcemu.show.explorers.kernels import order_of_a_kernel
from tcemu.show.folded import folded
from tcemu.show.prediction import Prediction
from tcemu.show.prose import inline

#: What to choose for a kernel that is right.
NONE = "none: the kernel is correct"


class _Folded:
    """A report whose fix is folded away."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def _repr_html_(self) -> str:
        report, _, fix = str(self._report).partition("\n  fix: ")
        return f"<pre>{escape(report)}</pre>{folded('Hint: how to fix it', f'<p>{inline(fix)}</p>')}"


@explained
def which_rule(
    launch: Callable[..., Launch],
    kernel: Callable[..., Any],
    args: Sequence[Any],
    among: Sequence[str],
    *,
    right: npt.ArrayLike | None = None,
    first: int | None = None,
) -> Prediction:
    """Ask which of the sanitizer's rules a kernel breaks first; then show the order of events and the report.

    `launch` is tcemu.launch with all its keywords but args, with sanitizer="collect"; `among` are the rules to choose
    from, by id. `right` and `first` are those of tcemu.show.widgets.order_of_a_kernel. Raises OperandError if a rule is
    unknown, or if the one that the kernel breaks is not among them, and what `launch` raises.

    >>> from functools import partial
    >>> import numpy as np
    >>> import tcemu
    >>> def early(warp, out):
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     warp.st_global(out + 4 * warp.threads, warp.ld_shared(4 * (63 - warp.threads)))
    >>> run = partial(tcemu.launch, block=64, shared=256, sanitizer="collect")
    >>> asked = tcemu.course.which_rule(run, early, (np.zeros(64, np.uint32),), ("shared-race", "deadlock"))
    >>> asked
    <Prediction 'Which rule does `early` break first?': .say(...) compares your answer>
    >>> asked.say("a race in shared memory between warps")
    'Right, “a race in shared memory between warps”.'
    """
    unknown = [rule for rule in among if rule not in RULES]
    if unknown:
        raise OperandError(f"{unknown[0]!r} is not a rule of the sanitizer; tcemu.sanitizer.RULES has them by id")
    picture = order_of_a_kernel(launch, kernel, args, right=right, first=first, fixes=False).picture.quiet()
    reports = launch(kernel, args=tuple(args)).reports
    name = getattr(kernel.func if isinstance(kernel, partial) else kernel, "__name__", "this kernel")
    choices = {RULES[rule].title: rule for rule in among} | {NONE: ""}
    broken = reports[0].rule if reports else ""
    if broken not in choices.values():
        raise OperandError(f"{name} breaks the rule {broken}, which is not among {listing(map(repr, among))}")
    return show.predict(
        f"Which rule does `{name}` break first?",
        broken,
        choices=choices,
        reveal=[*map(_Folded, reports[:1]), picture],
    )

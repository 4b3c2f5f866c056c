"""``tcemu sanitize``: runs kernels under all policies and searches their schedules; for people and for CI."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcemu.commands.device_code import compiling
from tcemu.commands.exchange import ERROR, RESULT, Checked, Finding, as_junit, as_sarif
from tcemu.commands.functions import save, what_runs
from tcemu.errors import LaunchError, TcemuError, Unending

if TYPE_CHECKING:
    from rich.console import Console

    from tcemu.machine.launch import Launch
    from tcemu.schedules import ScheduleSearch

POLICIES = ("late", "early", "random")
#: Colours of the first word of a report.
_STYLES = {"error": "bold red", "warning": "bold yellow", "hint": "bold cyan"}


@click.command()
@click.argument("what", metavar="FILE[:FUNCTION]")
@click.argument("launches", nargs=-1, metavar="[LAUNCH]...")
@compiling
@click.option(
    "--policies",
    default=",".join(POLICIES),
    show_default=True,
    help="Policies of the first runs, separated by commas.",
)
@click.option("--seeds", type=click.IntRange(1), default=2, show_default=True, help="Seeds of the first runs.")
@click.option("--delays", type=click.IntRange(0), default=2, show_default=True, help="Delays that the search combines.")
@click.option(
    "--budget", type=click.IntRange(0), default=200, show_default=True, help="Runs of the search; 0: no search."
)
@click.option(
    "--work",
    type=click.IntRange(0),
    default=2_000_000,
    show_default=True,
    help="The operations that all warps may execute in all runs of the search together; about a minute's.",
)
@click.option(
    "--operations",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="The most operations that a warp may execute in the first runs; a kernel that needs more may never end. The "
    "search sets limits of its own. operations= in a launch takes precedence.",
)
@click.option("--sarif", type=click.Path(path_type=Path, dir_okay=False), help="Write the reports as SARIF 2.1.0.")
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write a test case for each launch.")
def sanitize(
    what: str,
    launches: tuple[str, ...],
    policies: str,
    seeds: int,
    delays: int,
    budget: int,
    work: int,
    operations: int,
    sarif: Path | None,
    junit: Path | None,
    **how: Any,
) -> None:
    """Run the kernels of FILE and look for orders in which they go wrong.

    FILE is CUDA C++ or PTX, and each LAUNCH is written as in CUDA C++; without any, comments in FILE say what to
    launch. `tcemu run --help` says more about both.

    \b
        tcemu sanitize scale.cu 'scale<<<8, 128>>>(random(1000), 2.0f, 1000)'

    Or FILE is Python, and FUNCTION takes no arguments and launches kernels, by tcemu.launch or through a function that
    does:

    \b
        def run():
            tcemu.launch(kernel, grid=1, block=128, args=(a, b, d), shared=24576)

    Each launch runs under all policies and several seeds. If nothing is wrong, a search tries orders with few delays,
    within a budget for each launch; launches of one kernel in the same form are searched once. The exit code is 1 if
    there is an error, 0 if there is none, and 2 if nothing can be run.
    """  # noqa: D301 - click's mark for lines that it does not wrap
    from rich.console import Console

    from tcemu.launcher import replacing

    checks = _Checks(_policies(policies), seeds, delays, budget, work, operations)
    function = what_runs(what, launches, "sanitize", **how)
    with replacing(checks.launch), suppress(_Ended):
        function()
    if not checks.done:
        raise TcemuError(f"{what} did not launch a kernel, so there is nothing to check")
    for failure in getattr(function, "failures", ()):  # of a program's calls of the CUDA runtime
        found = Finding(ERROR, "error", failure, f"error {ERROR}: {failure}")
        checks.done.append(Checked(failure.partition(" ")[0], [found]))
    _print(Console(highlight=False, soft_wrap=True), checks.done)
    _write(sarif, junit, checks.done, what)
    sys.exit(1 if any(each.failed for each in checks.done) else 0)


def _policies(policies: str) -> tuple[str, ...]:
    from tcemu.machine.pending import check_policy

    return tuple(check_policy(each.strip()) for each in policies.split(","))


def _write(sarif: Path | None, junit: Path | None, done: Sequence[Checked], what: str) -> None:
    for path, text in ((sarif, as_sarif), (junit, as_junit)):
        if path is not None:
            save(path, text(done, what))
            click.echo(f"Wrote {path}.")


# ---------------------------------------------------------------------------------------------------- running


class _Ended(Exception):  # noqa: N818 - not an error of its own
    """A launch has no result with which the function could continue."""


@dataclass
class _Checks:
    """Takes the place of tcemu.launch."""

    policies: tuple[str, ...]
    seeds: int
    delays: int
    budget: int
    work: int
    operations: int
    done: list[Checked] = field(default_factory=list)
    _searched: set[object] = field(default_factory=set)

    def launch(self, kernel: Any, grid: Any, block: Any, args: Any, **options: Any) -> Launch:
        """Check a launch; return its result, so that the function can continue."""
        from tcemu.machine.arguments import fresh

        began = time.monotonic()
        for order in ("seed", "seeds", "policy", "schedule", "sanitizer", "observers"):
            options.pop(order, None)
        before = fresh(args)
        check = Checked(getattr(kernel, "__qualname__", "kernel"))
        result = self._first(check, kernel, grid, block, args, options)
        self.done.append(check)
        if not check.failed and self.budget:
            self._search(check, kernel, grid, block, before, options)
        check.seconds = time.monotonic() - began
        return result

    def _first(self, check: Checked, kernel: Any, grid: Any, block: Any, args: Any, options: dict[str, Any]) -> Launch:
        """Under the policies and seeds."""
        from tcemu.launcher import launch, replacing

        more: dict[str, Any] = {"policy": self.policies, "seeds": self.seeds, "sanitizer": "collect"}
        more["operations"] = options.get("operations") or self.operations
        try:
            with replacing(None):
                result = launch(kernel, grid, block, args, **{**options, **more})
        except LaunchError as error:
            if error.launch is None:
                raise  # it never began
            limit = f", operations={error.operations}" if isinstance(error, Unending) else ""
            check.findings.append(_of(error, f"seed={error.launch.failing}{limit}"))
            return error.launch  # type: ignore[no-any-return]
        except TcemuError as error:
            reports = [] if error.launch is None else error.launch.reports
            check.findings += [_of(each, "") for each in (*reports, error)]
            self.done.append(check)
            raise _Ended from error
        results = [*result.reports, *result.parted]
        if result.error is not None and not (results and isinstance(result.error, LaunchError)):
            results.append(result.error)  # which no report describes
        check.findings += [_of(each, f"seed={result.failing}" if result.failing else "") for each in results]
        return result

    def _search(self, check: Checked, kernel: Any, grid: Any, block: Any, args: Any, options: dict[str, Any]) -> None:
        """Under other schedules."""
        from tcemu.schedules import search_schedules

        form = getattr(kernel, "of", kernel), str((grid, block, options)), tuple(_form(each) for each in args)
        if form in self._searched:
            check.covered = "with an earlier launch"
            return
        self._searched.add(form)
        limits: dict[str, Any] = {"delays": self.delays, "runs": self.budget, "work": self.work}
        search: ScheduleSearch = search_schedules(kernel, grid, block, args, **limits, **options)
        check.covered = search.covered
        check.findings += [_of(each.what, each.replay, str(each)) for each in search.failures]


def _form(argument: Any) -> object:
    """What distinguishes launches: arrays by their shape, all else by what it is."""
    shape = getattr(argument, "shape", None)
    return repr(argument)[:200] if shape is None else (shape, str(getattr(argument, "dtype", "")))


def _of(what: Any, replay: str, text: str = "") -> Finding:
    """A report, an error or a result that differs."""
    from tcemu.machine.launch import Parting
    from tcemu.sanitizer import Report

    text = text or str(what)
    if isinstance(what, Report):
        earlier = None if what.earlier is None else what.earlier.site[:3]
        return Finding(what.rule, what.severity, what.about.title, text, what.site[:3], earlier, replay)
    if isinstance(what, Parting):
        return Finding(RESULT, "error", "the result depends on the order", f"error {RESULT}: {text}", replay=replay)
    title = str(what).splitlines()[0] if str(what) else type(what).__name__
    return Finding(ERROR, "error", title, f"error {ERROR}: {type(what).__name__}: {text}", replay=replay)


# ---------------------------------------------------------------------------------------------------- printing


def _print(console: Console, done: Sequence[Checked]) -> None:
    from rich.text import Text

    printed: set[object] = set()
    for number, check in enumerate(done, 1):
        verdict = "error" if check.failed else "clean"
        covered = f"; searched: {check.covered}" if check.covered else ""
        console.print(Text.assemble((f"{number}. {check.kernel}", "bold"), f": {verdict}{covered}"))
        for each in check.findings:
            again = each.key in printed
            printed.add(each.key)
            console.print(_coloured(each, again))
    failed = sum(check.failed for check in done)
    console.print(f"{len(done):,} launch{'es' * (len(done) != 1)}, {failed:,} with errors")


def _coloured(finding: Finding, again: bool) -> Any:
    from rich.text import Text

    text = f"{finding.severity} {finding.rule}: {finding.title}, as above" if again else finding.text
    if finding.replay and finding.replay not in text:
        text += f"\n  to reproduce it: tcemu.launch(..., {finding.replay})"
    lines = Text("\n".join(f"  {line}" for line in text.splitlines()))
    lines.highlight_regex(rf"^\s*{finding.severity} [\w-]+", _STYLES.get(finding.severity, "bold"))
    return lines

"""``tcemu profile``: where a launch's clock cycles go, its hot lines, and its hazards."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcemu.commands.device_code import compiling
from tcemu.commands.functions import save, what_runs
from tcemu.commands.report import Part, Report, write
from tcemu.errors import LaunchError, TcemuError, counted

if TYPE_CHECKING:
    from tcemu.machine.events import Observer
    from tcemu.sanitizer.report import Report as Hazard
    from tcemu.sanitizer.sanitizer import Sanitizer
    from tcemu.timing import Counters, Timeline
    from tcemu.timing.spans import Span

#: Lines of the kernel that are listed.
_LINES = 10


@click.command()
@click.argument("what", metavar="FILE[:FUNCTION]")
@click.argument("launches", nargs=-1, metavar="[LAUNCH]...")
@compiling
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw the timeline of a block.")
@click.option("--block", type=click.IntRange(min=0), default=0, show_default=True, help="The block that --svg draws.")
@click.option(
    "--trace",
    "traced",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.json",
    help="Write the timeline for Perfetto (ui.perfetto.dev) or chrome://tracing.",
)
def profile(
    what: str, launches: tuple[str, ...], svg: Path | None, block: int, traced: Path | None, **how: Any
) -> None:
    """Run the kernels of FILE and print where their launches spend their clock cycles.

    FILE is CUDA C++ or PTX, and each LAUNCH is written as in CUDA C++; without any, comments in FILE say what to
    launch. `tcemu run --help` says more about both.

    \b
        tcemu profile scale.cu 'scale<<<8, 128>>>(random(1000), 2.0f, 1000)'

    Or FILE is Python, and FUNCTION takes no arguments and launches kernels, by tcemu.launch or through a function that
    does:

    \b
        def run():
            tcemu.launch(kernel, grid=1, block=128, args=(a, b, d), shared=24576)

    Each launch gets the cycles that an SM of the measured GPU would take, how busy its tensor cores were and what they
    waited for, the lines on which warps spent most time, bank conflicts, and the sanitizer's reports. The exit code is
    1 if one of these is an error. --svg and --trace write the launch that took longest.
    """  # noqa: D301 - click's mark for lines that it does not wrap
    runs = _observed(what_runs(what, launches, "profile", **how))
    if not runs:
        raise TcemuError(f"{what} did not launch a kernel: a profile needs at least one tcemu.launch")
    for run in runs:
        write(_report(run), "text", None)
    longest = max(runs, key=lambda run: run.timeline.cycles)
    if svg is not None:
        from tcemu.show import timeline as draw

        _save(svg, draw(longest.timeline, block).svg + "\n")
    if traced is not None:
        from tcemu.timing import trace

        _save(traced, json.dumps(trace(longest.timeline)) + "\n")
    sys.exit(1 if any(run.watch.errors or run.error for run in runs) else 0)


def _save(path: Path, text: str) -> None:
    save(path, text)
    click.echo(f"Wrote {path}.")


# ---------------------------------------------------------------------------------------------------- running


@dataclass
class _Run:
    """A launch and its observers."""

    kernel: str
    timeline: Timeline
    counters: Counters
    watch: Sanitizer
    error: LaunchError | None = None


@dataclass
class _Runs:
    """Makes the observers of each launch."""

    runs: list[_Run] = field(default_factory=list)

    def begin(self, kernel: Callable[..., object]) -> list[Observer]:
        """The observers of a launch that begins now."""
        from tcemu.sanitizer.sanitizer import Sanitizer
        from tcemu.timing import Counters, Timeline

        run = _Run(getattr(kernel, "__qualname__", "kernel"), Timeline(), Counters(), Sanitizer("collect"))
        self.runs.append(run)
        return [run.timeline, run.counters, run.watch]


def _observed(function: Callable[[], object]) -> list[_Run]:
    """Everything that the function launches; a launch that fails is the last one."""
    from tcemu.launcher import observing

    runs = _Runs()
    with observing(runs.begin):
        try:
            function()
        except LaunchError as error:
            if not runs.runs:
                raise
            runs.runs[-1].error = error
    return runs.runs


# ---------------------------------------------------------------------------------------------------- what is printed


def _report(run: _Run) -> Report:
    """A launch in words."""
    parts = (_summary(run), _lines(run), _handovers(run.timeline), _memory(run.counters), _hazards(run))
    return Report(f"{run.kernel}: {run.timeline.cycles:,.0f} cycles", tuple(filter(None, parts)), (), (), None)


def _summary(run: _Run) -> Part:
    timeline, total = run.timeline, run.counters.total
    rows = [("tensor core busy", f"{timeline.busy:.1%}" if timeline.busy else "no products")]
    rows += [(f"waiting for: {cause}", f"{share:.1%}") for cause, share in timeline.waited.items() if share >= 0.0005]
    rows += [
        ("blocks", f"{len(timeline.blocks):,}; an SM holds {timeline.resident} of them"),
        ("registers", f"about {timeline.registers} a thread, by an estimate"),
        ("instructions", f"{total.issued:,}"),
        ("wavefronts", f"{total.wavefronts:,}, {total.conflicts:,} of them by bank conflicts"),
        ("global memory", f"{total.global_read:,} bytes read, {total.global_written:,} written"),
        ("asynchronous copies", f"{total.copied:,} bytes, {total.fetched:,} read from global memory"),
    ]
    note = "Cycles of an SM of an H200, predicted from measured costs; tcemu.timing.Timeline says what is left out."
    return Part("Summary", (note,), ("", ""), tuple(rows))


def _lines(run: _Run) -> Part | None:
    from tcemu.timing.counters import brief

    sites = run.timeline.sites()
    whole = sum(sum(each.values()) for each in sites.values())
    rows = []
    for site, cycles in list(sites.items())[:_LINES]:
        spent = sum(cycles.values())
        most = sorted(cycles.items(), key=lambda item: -item[1])[:3]
        causes = ", ".join(f"{cause} {part:,.0f}" for cause, part in most)
        rows.append((brief(site), f"{spent / whole:.1%}", causes))
    return Part("Hot lines: cycles of all warps", (), ("line", "share", "spent on"), tuple(rows)) if rows else None


def _handovers(timeline: Timeline) -> Part | None:
    """The waits of blocks for each other, by line and what they waited for."""
    from tcemu.timing.counters import brief

    alike: dict[tuple[str, str], list[Span]] = {}
    for span in timeline.handovers:
        alike.setdefault((brief(span.site), span.what), []).append(span)
    rows = []
    for (line, _), spans in alike.items():
        longest = max(spans, key=_cycles)
        whole, most = sum(map(_cycles, spans)), _cycles(longest)
        who = f"warp {longest.warp} of block {longest.block}, for {longest.named}"
        rows.append((line, f"{len(spans):,}", f"{whole:,.0f}", f"{most:,.0f}: {who}"))
    columns = ("line", "waits", "cycles", "the longest")
    return Part("Waits for other blocks: cycles of all warps", (), columns, tuple(rows[:_LINES])) if rows else None


def _cycles(span: Span) -> float:
    return span.end - span.start


def _memory(counters: Counters) -> Part | None:
    from tcemu.timing.counters import brief

    rows = [
        (
            brief(line.site),
            line.opcode,
            f"{line.wavefronts:,}",
            f"{line.conflicts:,}",
            f"{line.sectors:,}",
        )
        for line in counters.lines[:_LINES]
        if line.wavefronts or line.sectors
    ]
    columns = ("line", "instruction", "wavefronts", "conflicts", "sectors")
    return Part("Memory", (), columns, tuple(rows)) if rows else None


def _hazards(run: _Run) -> Part:
    reports: list[Hazard] = run.watch.reports
    if run.error is not None:
        return Part("Hazards", (f"The launch ended early: {run.error}",), (), (), _lines_of(reports))
    if not reports:
        return Part("Hazards", ("none",))
    return Part("Hazards", (counted(len(reports), "report"),), (), (), _lines_of(reports))


def _lines_of(reports: list[Hazard]) -> tuple[str, ...]:
    return tuple(line for report in reports for line in [*str(report).splitlines(), ""])

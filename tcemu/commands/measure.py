"""``tcemu measure``: the cost of instructions on this machine's GPU, in clock cycles."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Only this suite; may be repeated.")
@click.option("--runs", type=click.IntRange(min=3), default=15, show_default=True, help="Launches of each kernel.")
def measure(folder: Path, suites: tuple[str, ...], runs: int) -> None:
    """Measure what instructions cost on this machine's GPU and write FOLDER/TARGET.json.

    The file has the latency and interval of every mma.sync and wgmma of the GPU, and the costs of shared memory with
    bank conflicts, of copies and of barriers, in clock cycles with quartiles, and the GPU, driver, date and this
    command. The suites are "barriers", "copies", "shared memory", "mma", "wgmma closer" and "wgmma"; rows of other
    suites that are already in the file stay.
    """
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeRemainingColumn

    from tcemu.live.measure import SUITES
    from tcemu.live.measure import measure as write
    from tcemu.machine.costs import read

    words = "".join(f' --suite "{name}"' for name in suites)
    command = f"tcemu measure{words}{f' --runs {runs}' if runs != 15 else ''} FOLDER"
    columns = (
        *Progress.get_default_columns()[:2],
        TextColumn("{task.completed} of {task.total} kernels"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("compiling")

        def tell(done: int, of: int, what: str) -> None:
            progress.update(task, completed=done, total=of, description=what)

        path = write(folder, suites or tuple(SUITES), runs, tell, command)
    table = read(path)
    click.echo(f"{path}: {len(table):,} costs in cycles of {table.provenance['gpu']}")
    for name, why in table.provenance["failed"].items():
        click.echo(f"{name} did not run: {why}")

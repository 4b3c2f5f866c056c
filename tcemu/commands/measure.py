"""``tcemu measure``: what instructions cost on this machine's GPU, in clock cycles."""

from __future__ import annotations

from pathlib import Path

import click

from tcemu.progress import Progress


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Only this suite; may be repeated.")
@click.option("--runs", type=click.IntRange(min=3), default=15, show_default=True, help="Launches of each kernel.")
def measure(folder: Path, suites: tuple[str, ...], runs: int) -> None:
    """Measure what instructions cost on this machine's GPU and write FOLDER/TARGET.json.

    Covers latency and interval of every mma.sync and wgmma of the GPU, shared memory with conflicts, copies, barriers,
    ordinary arithmetic and what blocks wait for, in clock cycles, with quartiles, GPU, driver, date and this command.
    The suites are "barriers", "copies", "shared memory", "mma", "wgmma closer", "wgmma", "arithmetic", "blocks" and
    "sectors"; rows of other suites in the file stay.
    """
    from tcemu.live import device
    from tcemu.live.campaigns.measure import SUITES
    from tcemu.live.campaigns.measure import measure as write
    from tcemu.timing.costs import read

    click.echo(str(device()))
    words = "".join(f' --suite "{name}"' for name in suites)
    command = f"tcemu measure{words}{f' --runs {runs}' if runs != 15 else ''} FOLDER"
    with Progress("measuring", unit="kernels") as shown:
        path = write(folder, suites or tuple(SUITES), runs, shown.show, command)
    table = read(path)
    click.echo(f"{path}: {len(table):,} costs in cycles of {table.provenance['gpu']}")
    for name, why in table.provenance["failed"].items():
        click.echo(f"{name} did not run: {why}")

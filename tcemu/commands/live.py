"""``tcemu record`` and ``tcemu verify``: store this machine's GPU's answers, and compare them with the emulator's."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress

    from tcemu.instructions import Instruction
    from tcemu.live import Device

_FAMILY = click.option("--family", "families", multiple=True, metavar="NAME", help="Only this family; may be repeated.")
_SHAPE = click.option("--shape", "shapes", multiple=True, metavar="MNK", help="Only this shape; may be repeated.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@_FAMILY
@_SHAPE
def record(folder: Path, families: tuple[str, ...], shapes: tuple[str, ...]) -> None:
    """Record golden files of this machine's GPU in FOLDER.

    They hold the hash of the answer for every instruction and class of inputs, for mma also the registers of one warp,
    and the GPU, driver, date and this command. Run it again to continue where it stopped. Every answer is also compared
    with the emulator's.
    """
    from tcemu.live.cases import cases
    from tcemu.live.record import every_case
    from tcemu.live.record import record as write

    device, instructions = _chosen(families, shapes)
    command = " ".join(["tcemu record", *_words("--family", families), *_words("--shape", shapes), "FOLDER"])
    total = sum(1 for pair in every_case(instructions) for _ in cases(*pair, warps=1))
    with _progress("{task.completed:,} of {task.total:,} cases  {task.fields[now]}") as progress:
        task = progress.add_task("recording", total=total, now="")
        files = write(
            folder, device, instructions, command, told=lambda case: progress.update(task, advance=1, now=case.key)
        )
    for file in files:
        unknown = f", {file.unknown} that the emulator cannot answer" if file.unknown else ""
        click.echo(
            f"{file.path}: {len(file.sha256):,} cases, {file.new:,} of them new, "
            f"{file.differing:,} words differ from the emulator{unknown}"
        )
    sys.exit(1 if any(file.differing for file in files) else 0)


@click.command()
@click.option("--seconds", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="How long to compare.")
@click.option("--processes", type=click.IntRange(1, 256), help="How many processes; by default one for each core.")
@click.option("--seed", metavar="TEXT", help="The seed of the inputs; by default a new one.")
@_FAMILY
@_SHAPE
def verify(
    seconds: float, processes: int | None, seed: str | None, families: tuple[str, ...], shapes: tuple[str, ...]
) -> None:
    """Compare this machine's GPU with the emulator on fresh random inputs.

    It runs every instruction that the GPU has, with inputs near 1, over all exponents, subnormal, at the edge of
    underflow, cancelling, with special values, and of any bits. It stops at the first difference, reduces it as far as
    possible, prints it with its values, and exits with code 1.
    """
    from tcemu.live.verify import Outcome
    from tcemu.live.verify import verify as compare

    device, instructions = _chosen(families, shapes)
    seed = seed or secrets.token_hex(4)
    click.echo(f"{device}: {len(instructions):,} instructions, seed {seed}")
    with _progress("{task.fields[now]}") as progress:
        task = progress.add_task("comparing", total=seconds, now="starting")

        def told(outcome: Outcome) -> None:
            now = f"{outcome.total:,} elements, {len(outcome.instructions):,} instructions, 0 differences"
            progress.update(task, completed=min(outcome.seconds, seconds), now=now)

        outcome = compare(device, instructions, seconds, processes or _cores(), seed, told)
    if outcome.failing is not None:
        click.echo(f"{outcome.failing}\nseed {seed}; {outcome.where}")
    click.echo(str(outcome))
    sys.exit(1 if outcome.failing is not None else 0)


def _chosen(families: tuple[str, ...], shapes: tuple[str, ...]) -> tuple[Device, list[Instruction]]:
    """The GPU, and those of its instructions that were asked for."""
    from tcemu.errors import GpuUnavailable
    from tcemu.instructions.catalogue import catalogue
    from tcemu.live import device
    from tcemu.live.run import recordable

    for family in families:
        catalogue(family=family)  # raises an error, with those that exist, for one that does not
    for shape in shapes:
        catalogue(shape=shape)
    chip = device()
    found = [
        instruction
        for instruction in recordable(chip)
        if (not families or instruction.family in families) and (not shapes or str(instruction.shape) in shapes)
    ]
    if not found:
        raise GpuUnavailable(f"{chip} has none of these instructions, or tcemu.live cannot run them")
    return chip, found


def _words(option: str, values: tuple[str, ...]) -> Iterator[str]:
    return (word for value in values for word in (option, value))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _progress(text: str) -> Iterator[Progress]:
    """A progress bar on standard error, drawn only if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn(), TextColumn(text)]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress

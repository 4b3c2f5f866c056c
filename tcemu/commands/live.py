"""``tcemu record`` and ``tcemu verify``: store what this machine's GPU answers, and compare it with the emulator."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tcemu.errors import counted
from tcemu.progress import Progress

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.live import Device
    from tcemu.vectors import Case

_FAMILY = click.option("--family", "families", multiple=True, metavar="NAME", help="Only this family; may be repeated.")
_SHAPE = click.option("--shape", "shapes", multiple=True, metavar="MNK", help="Only this shape; may be repeated.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@_FAMILY
@_SHAPE
@click.option("--tcgen05", is_flag=True, help="Ask a B200 or its like the open questions about tcgen05 instead.")
@click.option("--dry-run", metavar="TARGET", help="With --tcgen05, ask nobody: write the kernels for sm_100a, say.")
def record(
    folder: Path, families: tuple[str, ...], shapes: tuple[str, ...], tcgen05: bool, dry_run: str | None
) -> None:
    """Record golden files of this machine's GPU in FOLDER.

    For every instruction and class of inputs, they hold the hash of the answer and, for mma, the registers of one warp,
    along with the GPU, driver, date and this command. Run again, it continues where it stopped. It also compares every
    answer with the emulator's.

    With --tcgen05, the questions are those that no publication answers, and those that only one does: the files hold
    all of Tensor Memory after each. No one here has such a GPU; if you do, send both files.
    """
    if tcgen05:
        _record_tcgen05(folder, dry_run)
        return
    if dry_run:
        raise click.UsageError("--dry-run goes with --tcgen05")
    from tcemu.live.campaigns.record import every_case
    from tcemu.live.campaigns.record import record as write
    from tcemu.vectors import cases

    device = _device()
    instructions = _chosen(device, families, shapes)
    command = " ".join(["tcemu record", *_words("--family", families), *_words("--shape", shapes), "FOLDER"])
    total = sum(1 for pair in every_case(instructions) for _ in cases(*pair, warps=1))
    click.echo(f"{device}: {counted(len(instructions), 'instruction')}, {counted(total, 'case')}")
    done = iter(range(total))
    with Progress("recording", total, "cases") as shown:

        def progress(case: Case) -> None:
            shown.show(next(done), note=case.key)

        files = write(folder, device, instructions, command, progress=progress)
    for file in files:
        unknown = f", {file.unknown} that the emulator cannot compute" if file.unknown else ""
        click.echo(
            f"{file.path}: {counted(len(file.sha256), 'case')}, {file.new:,} of them new, "
            f"{counted(file.differing, 'word')} differ{'s' * (file.differing == 1)} from the emulator{unknown}"
        )
    sys.exit(1 if any(file.differing for file in files) else 0)


def _record_tcgen05(folder: Path, target: str | None) -> None:
    """The questions about tcgen05: asked, or with a target only prepared."""
    from tcemu.live.campaigns.tcgen05.questions import questions
    from tcemu.live.campaigns.tcgen05.record import prepared
    from tcemu.live.campaigns.tcgen05.record import record as ask_all
    from tcemu.live.process import client

    if target is not None:
        asked, why = prepared(folder, _with_tensor_memory(target))
        for name, reason in why.items():
            click.echo(f"{name}\n    {reason}")
        click.echo(
            f"{folder}: {counted(len(asked), 'kernel')} for {target}; the emulator answers "
            f"{len(asked) - len(why):,} of the questions, and above says why not the others"
        )
        return
    device = _device()
    _with_tensor_memory(device.target)
    done = iter(range(len(questions(device.target))))
    with Progress("asking", len(questions(device.target)), "questions") as shown:

        def progress(name: str) -> None:
            shown.show(next(done), note=name)

        answers = ask_all(folder, device, "tcemu record --tcgen05 FOLDER", client.ask, progress)
    for name in answers.differing:
        click.echo(f"differs from the emulator: {name}")
    click.echo(
        f"{answers.path}: {counted(len(answers.arrays), 'answer')}, {answers.new:,} of them new, "
        f"{len(answers.differing):,} differ from the emulator's, {answers.unknown:,} that it cannot compute, "
        f"{len(answers.refused):,} refused"
    )


def _with_tensor_memory(target: str) -> str:
    """The target, which has tcgen05. Raises GpuUnavailable."""
    from tcemu.errors import GpuUnavailable
    from tcemu.instructions.targets import target_named
    from tcemu.live.campaigns.tcgen05.questions import questions

    name = str(target_named(target))
    if not questions(name):
        raise GpuUnavailable(f"{name} has no tcgen05: the questions are for sm_100a, sm_103a and sm_110a")
    return name


@click.command()
@click.option("--seconds", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="How long to compare.")
@click.option("--processes", type=click.IntRange(1, 256), help="How many processes; by default one for each core.")
@click.option("--seed", metavar="TEXT", help="What the inputs are drawn from; by default, a new seed each time.")
@_FAMILY
@_SHAPE
def verify(
    seconds: float, processes: int | None, seed: str | None, families: tuple[str, ...], shapes: tuple[str, ...]
) -> None:
    """Compare this machine's GPU with the emulator on fresh random inputs.

    Covers every instruction that the GPU has. Inputs are near 1, spread over all exponents, subnormal, at the edge of
    underflow, cancelling, special values, or random bits. It stops at the first difference, makes it as small as
    possible, shows it with its values, and exits with code 1.
    """
    from tcemu.live.campaigns.verify import Outcome
    from tcemu.live.campaigns.verify import verify as compare

    device = _device()
    instructions = _chosen(device, families, shapes)
    seed = seed or secrets.token_hex(4)
    click.echo(f"{device}: {counted(len(instructions), 'instruction')}, seed {seed}")
    with Progress("comparing", seconds, "s") as shown:

        def progress(outcome: Outcome) -> None:
            now = f"{outcome.total:,} elements, {len(outcome.instructions):,} instructions, 0 differences"
            shown.show(min(outcome.seconds, seconds), note=now)

        outcome = compare(device, instructions, seconds, processes or _cores(), seed, progress)
    if outcome.failing is not None:
        click.echo(f"{outcome.failing}\nseed {seed}; {outcome.where}")
    click.echo(str(outcome))
    sys.exit(1 if outcome.failing is not None else 0)


def _device() -> Device:
    """The GPU. Raises GpuUnavailable before the command does anything else."""
    from tcemu.live import device

    return device()


def _chosen(device: Device, families: tuple[str, ...], shapes: tuple[str, ...]) -> list[Instruction]:
    """The requested instructions that the GPU has."""
    from tcemu.errors import GpuUnavailable
    from tcemu.instructions.catalogue import catalogue
    from tcemu.live.runner.families import recordable

    for family in families:
        catalogue(family=family)  # raises for one that does not exist, and lists those that do
    for shape in shapes:
        catalogue(shape=shape)
    instructions = [
        instruction
        for instruction in recordable(device)
        if (not families or instruction.family in families) and (not shapes or str(instruction.shape) in shapes)
    ]
    if not instructions:
        raise GpuUnavailable(f"{device} has none of these instructions, or tcemu.live does not run them")
    return instructions


def _words(option: str, values: tuple[str, ...]) -> Iterator[str]:
    return (word for value in values for word in (option, value))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

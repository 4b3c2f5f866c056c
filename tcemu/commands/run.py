"""``tcemu run``: launches kernels of CUDA C++ or PTX, and shows what they wrote."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcemu.commands.device_code import Program, compiling, runnable
from tcemu.errors import LaunchError, TcemuError, counted

if TYPE_CHECKING:
    import numpy.typing as npt

    from tcemu.commands.launches import Launches

    Array = npt.NDArray[Any]

#: The most values of an array that are shown.
_VALUES = 6


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("launches", nargs=-1, metavar="[LAUNCH]...")
@compiling
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The order in which warps run.")
@click.option("--no-sanitizer", is_flag=True, help="Do not look for races and other broken rules.")
@click.option("--save", type=click.Path(path_type=Path, file_okay=False), help="Write the arrays there, as .npy.")
def run(file: Path, launches: tuple[str, ...], seed: int, no_sanitizer: bool, save: Path | None, **how: Any) -> None:
    """Launch kernels of FILE, which is CUDA C++ or PTX, and show what they wrote.

    A LAUNCH is written as in CUDA C++. A pointer gets an array, whose type follows from the kernel's parameter:

    \b
        tcemu run scale.cu 'scale<<<8, 128>>>(random(1000), 2.0f, 1000)'

    random(...), zeros(...), ones(...) and full(value, ...) take a shape; arange(n), load("x.npy") and [1, 2, 3] make
    arrays, too. With a name, several launches get the same array: 'x = random(1000)' 'scale<<<8, 128>>>(x, 2, 1000)'.
    Without LAUNCH, FILE says what to launch, in comments:

    \b
        // tcemu: scale<<<8, 128>>>(random(1000), 2.0f, 1000)

    Host code is then not run. A FILE that has no such comments but a main is run as a program, with the words behind it
    as arguments; nvcc must be there to compile it. What needs more than this is a few lines of Python:
    tcemu.cuda.compile("scale.cu")["scale"][8, 128](x, 2.0, 1000).

    The exit code is 1 if the sanitizer found an error or a launch failed, else that of the program.
    """  # noqa: D301 - click's mark for lines that it does not wrap
    made = runnable(file, launches, **how)
    error = None
    try:
        made(seed=seed, sanitizer="off" if no_sanitizer else "collect")
    except LaunchError as raised:
        if raised.launch is None:
            raise  # it never began
        error = raised
    failed = _show(made, error)
    if save is not None:
        _save(made, save)
    status = made.status if isinstance(made, Program) else 0
    if status < 0:
        click.echo(f"tcemu: {signal.Signals(-status).name} ended the program", err=True)
        status = 128 - status  # as a shell says it
    click.get_current_context().exit(int(failed) or status)


def _show(made: Launches | Program, error: LaunchError | None) -> bool:
    """Print the reports of each launch, what ended the last one, and the arrays; whether something is wrong."""
    failed = error is not None
    for name, result in made.results:
        wrong = any(each.severity == "error" for each in result.reports) or result.error is not None
        failed = failed or wrong
        click.echo(f"{name}: {'error' if wrong else 'done'}")
        for report in result.reports:
            click.echo("\n".join(f"  {line}" for line in str(report).splitlines()))
        if result.error is not None and not result.reports:
            click.echo(f"  {result.error}")
    if error is not None:
        click.echo("\n".join([f"{error.launch.kernel}: error", *(f"  {line}" for line in str(error).splitlines())]))
    for failure in made.failures if isinstance(made, Program) else ():
        failed = True
        click.echo(f"error: {failure}")
    width = max(map(len, made.arrays), default=0)
    for name, (before, after) in made.arrays.items():
        click.echo(f"{name:<{width}}  {_contents(before, after)}")
    return failed


def _contents(before: Array, after: Array) -> str:
    """An array in one line: what it is, how much has changed, and its first values."""
    changed = int((before.view("u1") != after.view("u1")).reshape(after.size, -1).any(axis=1).sum())
    flat = after.reshape(-1)
    values = ", ".join(str(each) for each in flat[:_VALUES].tolist()) if flat.dtype.kind in "biuf" else ""
    values = values or ", ".join(str(each) for each in flat[:_VALUES])
    shown = f"{after.dtype} {after.shape}: {values}{', ...' if flat.size > _VALUES else ''}"
    return (
        f"{shown}  ({changed:,} of {counted(after.size, 'element')} changed)" if changed else f"{shown}  (not changed)"
    )


def _save(made: Launches | Program, folder: Path) -> None:
    import numpy as np

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (_, after) in made.arrays.items():
            np.save(folder / f"{name.replace(' ', '-')}.npy", after)
    except OSError as error:
        raise TcemuError(f"cannot write to {folder}: {error.strerror}") from None
    click.echo(f"Wrote {counted(len(made.arrays), 'array')} to {folder}.")

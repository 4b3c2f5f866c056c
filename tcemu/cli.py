"""The command line: ``tcemu lab`` opens the course. Only this module catches errors."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections import Counter
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import click

from tcemu.commands.warm import warm_up
from tcemu.course import START, Laid, clone_opened, files, lay_out, own_folder
from tcemu.errors import TcemuError
from tcemu.extras import require
from tcemu.version import __version__

#: The exit code of every error that the user can fix; click's usage errors have the same.
USER_ERROR = 2


class _PassesOn(click.Command):
    """A command that keeps what follows ``--`` in `context.obj`, separate from its own arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, dashes, ctx.obj = args, "--" in args, []
        if dashes:
            at = args.index("--")
            own, ctx.obj = args[:at], args[at + 1 :]
        return super().parse_args(ctx, own)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- JUPYTER LAB OPTIONS]"]


#: The modules of tcemu.commands that have one command each, of the same name, and the one that has two.
_MODULES = "board book check classroom exercises grade isa lite measure profile ptx run sanitize warm whose"
_HOMES = {**{name: name for name in _MODULES.split()}, "record": "live", "verify": "live"}


class _Commands(click.Group):
    """Commands that are loaded when they are asked for; their one-line descriptions are wrapped, not cut."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_HOMES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _HOMES and cmd_name not in self.commands:
            self.add_command(getattr(import_module(f"tcemu.commands.{_HOMES[cmd_name]}"), cmd_name))
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(limit=200)) for name, each in commands if each])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tcemu")
def commands() -> None:
    """Tensor-core programming with an executable tensor core."""


@commands.command(cls=_PassesOn)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--no-browser", is_flag=True, help="Start the server and print its address, but do not open a browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the server, or the next free one if it is taken.")
@click.option("--lay-out-only", is_flag=True, help="Lay the course out and stop.")
@click.option(
    "--course",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Lay out the course of this folder, which has a course.toml, in place of the installed one.",
)
@click.option("--no-warm", is_flag=True, help="Do not compile the kernels first, as `tcemu warm` does.")
@click.pass_obj
def lab(
    passed_on: list[str],
    folder: Path | None,
    no_browser: bool,
    port: int | None,
    lay_out_only: bool,
    course: Path | None,
    no_warm: bool,
) -> None:
    """Lay the course out in FOLDER and open it in JupyterLab.

    Without FOLDER, the course goes into the current folder or, in a clone of the repository, into its my-course, which
    git ignores.

    You can run it again at any time. Files that you changed stay as they are, files that you did not change are updated
    to the installed version of the course, and if both changed, the course's version is put beside yours as
    NAME.new.ipynb. To start a notebook afresh, delete it. If FOLDER is the clone itself, its own notebooks are opened
    in place, to be edited.

    JupyterLab opens with START.md, which shows your progress, what is next, and how long the rest takes. It follows
    what you solve.

    The first time, the kernels are compiled for this processor before JupyterLab opens, so that no cell has to wait.

    Everything after -- is passed to jupyter lab.
    """
    folder = own_folder() if folder is None else folder
    clone = clone_opened(folder)
    if clone:
        click.echo(f"This is a clone of the repository: opening the notebooks of {clone}.")
    else:
        _lay_out(folder, course)
    if not lay_out_only:
        require("course", "tcemu lab", "jupyterlab")
        if not no_warm and (warmed := warm_up()):
            click.echo(warmed)
        options = (["--no-browser"] if no_browser else []) + ([f"--port={port}"] if port else [])
        open_lab(clone or folder, files(clone)[0] if clone else START, [*options, *passed_on])


def _lay_out(folder: Path, course: Path | None) -> None:
    """Lay the course out, say what happened and how far the learner has come, and write the first page."""
    from tcemu.course.manifests import manifest  # the exercises, which no other command needs
    from tcemu.course.overviews import overview, write_first_page

    click.echo(report(folder, lay_out(folder, manifest(course).contents())))
    click.echo(overview(folder).summary)
    write_first_page(folder)


def report(folder: Path, done: list[Laid]) -> str:
    """Return a few lines that say what was laid out in `folder`."""
    counts = Counter(laid.action for laid in done)
    summary = ", ".join(f"{count} {action}" for action, count in counts.items())
    beside = [
        f"{laid.name} is yours and stays as it is; the course's new version is {laid.at}."
        for laid in done
        if laid.action == "laid beside"
    ]
    return "\n".join([f"The course is in {folder.resolve()} (files: {summary}).", *beside])


def open_lab(folder: Path, first: str, options: list[str]) -> None:
    """Run JupyterLab in this process until it is stopped, with `folder` as its root and the file `first` open."""
    from jupyterlab.labapp import LabApp

    # Defaults of the course, such as pages that open rendered; the learner's own settings take precedence.
    defaults = str(Path(__file__).parent / "course" / "jupyter")
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, (defaults, os.environ.get("JUPYTER_CONFIG_PATH"))))
    arguments = [f"--ServerApp.root_dir={folder.resolve()}", f"--LabApp.default_url=/lab/tree/{quote(first)}"]
    # In a container, root is often the only user; the server listens on this machine only and requires a token.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--allow-root")
    LabApp.launch_instance([*arguments, *options])


def main() -> None:
    """Run the command line; for a `TcemuError`, print its message and exit with code 2."""
    try:
        commands()
    except TcemuError as error:
        click.echo(wrapped(f"tcemu: {error}"), err=True)
        sys.exit(USER_ERROR)


def wrapped(text: str) -> str:
    """The text in lines that fit the terminal, broken between words; unchanged if the width is unknown."""
    if not (sys.stderr.isatty() or os.environ.get("COLUMNS")):
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
        if len(line) > width
        else line
        for line in text.splitlines()
    )


if __name__ == "__main__":
    main()

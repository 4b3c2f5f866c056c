"""``tcemu book``: the course as a static site, with the instructions, the sanitizer's rules and the reference."""

from __future__ import annotations

from pathlib import Path

import click

from tcemu.extras import require

__all__ = ["book"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--course",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Build the course of this folder, which has a course.toml, in place of the installed one.",
)
@click.option("--strict", is_flag=True, help="Fail if a link is broken, or anything else causes a warning.")
@click.option("--still", is_flag=True, help="Do not run the notebooks: pictures and questions do not answer.")
def book(folder: Path, course: Path | None, strict: bool, still: bool) -> None:
    """Build the course as a web site in FOLDER.

    The pages are the notebooks with their stored outputs, and pages made from the tables: every family of instructions,
    every rule of the sanitizer, and the Python reference. Open FOLDER/index.html; no server and no kernel is needed:
    the notebooks are run once, and the pages keep what their controls and questions answer.
    """
    require("book", "the book", "sphinx", "myst_nb", "sphinx_book_theme", "anywidget")
    from tcemu.commands.book.build import build

    pages = build(folder, course, strict=strict, still=still)
    click.echo(f"{pages} pages. Open {folder / 'index.html'}")

"""``tcemu lite``: the laboratory as a static site, which runs in the reader's browser."""

from __future__ import annotations

from pathlib import Path

import click

from tcemu.extras import require

__all__ = ["lite"]


@click.command()
@click.argument("site", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--wheels",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep what is fetched in this folder, and fetch nothing that is there.",
)
@click.option("--no-book", is_flag=True, help="Build the laboratory only.")
def lite(site: Path, wheels: Path | None, no_book: bool) -> None:
    """Build the course as a web site in SITE that needs no server: the book, and JupyterLab in the browser.

    Python, numpy and tcemu run in the reader's browser, and what a reader writes stays there. The site asks no other
    site for anything; any server of files can serve it, for example python3 -m http.server --directory SITE.
    """
    require("lite", "the laboratory in the browser", "jupyterlite_core", "jupyterlite_pyodide_kernel", "anywidget")
    from tcemu.commands.lite.build import build

    size = build(site, wheels, book=not no_book)
    click.echo(f"{size / 1e6:.1f} MB. Serve it: python3 -m http.server --bind 127.0.0.1 --directory {site}")

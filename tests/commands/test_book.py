"""The book: one strict build of the whole site, whose pages and links are then looked at.

The sidebar lists the same pages beside each of them, and drawing it takes a third of the time. Of the notebooks,
exercises, instructions and parts of the reference only the first notebook has it here, unless everything is asked.
"""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import quick
from click.testing import CliRunner

from tcemu.cli import commands
from tcemu.commands.book.docstrings import processed
from tcemu.course import manifest
from tcemu.instructions import FAMILIES
from tcemu.sanitizer import RULES

#: Takes the sidebar from pages of which there are many.
FEW_SIDEBARS = """
from tcemu.commands.book import build
settings = build._settings
many = "notebooks/0[1-9]*", "notebooks/1*", "exercises/*", "instructions/*", "reference/*"
bare = dict.fromkeys(many, [])
build._settings = lambda wanted: settings(wanted) | {"html_sidebars": bare}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The book, built with warnings as errors: a link to a page that does not exist is a warning."""
    pytest.importorskip("sphinx_book_theme", reason="the extra `book` is not installed")
    folder = tmp_path_factory.mktemp("book") / "site"
    code = "" if quick.THOROUGH else FEW_SIDEBARS
    command = [sys.executable, "-c", f"{code}\nimport tcemu.cli\ntcemu.cli.main()", "book", "--strict", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Links(HTMLParser):
    """The links of a page, and its anchors."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.add(given.get("id") or "")
        if tag == "a" and given.get("href"):
            self.targets.append(str(given["href"]))


@pytest.mark.slow
def test_every_notebook_family_and_rule_has_its_place(site):
    for entry in manifest().notebooks:
        assert (site / "notebooks" / entry.file).with_suffix(".html").is_file()
    assert len(list((site / "instructions").glob("*.html"))) == len(FAMILIES) + 1
    assert set(RULES) <= Links(site / "rules.html").places
    assert json.loads(re.search(r"\{.*\}", (site / "searchindex.js").read_text(encoding="utf-8")).group(0))


@pytest.mark.slow
def test_every_link_leads_somewhere(site):
    pages = {page: Links(page) for page in site.rglob("*.html")}
    for page, links in pages.items():
        for target in links.targets:
            path, _, place = unquote(target).partition("#")
            if re.match(r"[a-z]+:", path) or path.startswith("_sources"):
                continue
            found = (page.parent / path).resolve() if path else page
            assert found.is_file(), f"{page}: {target}"
            if place and found in pages:
                assert place in pages[found].places, f"{page}: {target}"


@pytest.mark.slow
def test_pictures_answer_the_pointer_without_a_kernel(site):
    page = (site / "notebooks" / "00_first_light.html").read_text(encoding="utf-8")
    assert 'onkeydown="' in page
    assert "<svg" in page
    assert "theme.js" in page, "the pictures follow the theme"


def test_docstrings_become_restructured_text():
    lines = ["Multiply `a` by *b*.", "", "    code(*x)", ""]
    lines += ["Steps:", "  - one;", "  - two.", "Then `c_d`.", "", ">>> 1 * 1"]
    processed(None, "", "", None, None, lines)
    text = "\n".join(lines)
    assert text.startswith("Multiply ``a`` by \\*b\\*.\n\n::\n\n")
    assert "\n\n- one;\n- two.\n\nThen ``c_d``.\n\n>>> 1 * 1\n" in text


def test_without_sphinx_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("tcemu.errors.find_spec", lambda _: None)
    done = CliRunner().invoke(commands, ["book", str(tmp_path)])
    assert "needs sphinx, myst_nb and sphinx_book_theme, which the extra `book` installs" in str(done.exception)

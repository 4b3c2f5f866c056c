"""The glossary: every term that a notebook links to is in it, has an explanation, and is listed at the top."""

import json
import re
from pathlib import Path

import pytest
from places import ROOT

FOLDER = ROOT / "notebooks"


def text(path: Path) -> str:
    """The Markdown of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def terms() -> dict[str, str]:
    """What is said of each term, by its anchor: JupyterLab writes a dash for a space."""
    parts = re.split(r"^### (.+)$", text(FOLDER / "glossary.ipynb"), flags=re.MULTILINE)[1:]
    return {name.replace(" ", "-"): said.strip() for name, said in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[0-9][0-9]_*.ipynb")), ids=lambda path: path.stem)
def test_every_link_leads_to_a_term(path: Path) -> None:
    for anchor in re.findall(r"\]\(glossary\.ipynb#([^)]*)\)", text(path)):
        assert anchor in terms()


def test_a_term_is_explained_in_a_few_sentences() -> None:
    for name, said in terms().items():
        first = said.split("\n## ")[0].strip()
        assert 40 < len(first) < 500, name
        assert first.endswith("."), name


def test_all_terms_are_listed_at_the_top() -> None:
    listed = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", text(FOLDER / "glossary.ipynb"))
    assert [anchor for _, anchor in listed] == sorted(terms(), key=lambda name: name.replace("-", " ").lower())
    assert all(name.replace(" ", "-") == anchor for name, anchor in listed)

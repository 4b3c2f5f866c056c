"""What every notebook of the course has, and the form in which it is stored; nbval compares the outputs themselves."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from tcemu.course.release import SPOKEN_OF

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
#: Where learners write their own matrix product; tests/course/test_ladder.py tests it.
WORKSHOP = "15_your_gemm"
#: What no GPU that answers here can execute.
NOT_ASKED = ("16_tensor_memory", "17_blackwell_gemm")
SAVE = "run `python tools/save_notebooks.py`"


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    """One notebook's file."""
    return Path(request.param)


@pytest.fixture
def notebook(path: Path) -> Any:
    """One notebook, read."""
    import nbformat  # takes a second, in every worker

    return nbformat.read(path, as_version=4)


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _outputs(notebook: Any) -> list[Any]:
    return [output for cell in _code(notebook) for output in cell.outputs]


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS][:2] == ["00_first_light", "01_numbers"]


def test_it_is_valid_and_small(path: Path, notebook: Any) -> None:
    import nbformat

    nbformat.validate(notebook)
    assert path.stat().st_size < 1_000_000


def test_it_opens_with_a_title_a_goal_and_the_time_it_takes(path: Path, notebook: Any) -> None:
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    number = path.stem.split("_")[0]
    assert first.source.startswith(f"# {number} ")
    assert first.source.splitlines()[0] == f"# {notebook.metadata.title}"
    for part in ("**Goal.**", "After this notebook you can", "**Time:**"):
        assert part in first.source


def test_it_ends_with_three_questions_whose_answers_are_folded(notebook: Any) -> None:
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    end = text[text.index("## Three questions") :]
    assert re.findall(r"^\*\*(\d)\.\*\*", end, re.MULTILINE) == ["1", "2", "3"]
    assert end.count(">Answer</summary>") == end.count("</details>") == 3


def test_its_links_to_notebooks_lead_somewhere(path: Path, notebook: Any) -> None:
    for cell in notebook.cells:
        for target in re.findall(r"\]\(([^)#:]+\.ipynb)\)", cell.source):
            assert (path.parent / target).is_file(), target


def _texts(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def _headings(path: Path) -> set[str]:
    """What JupyterLab calls the headings of a notebook in links."""
    text = "\n".join(_texts(path))
    return {found.strip().replace(" ", "-") for found in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def test_the_path_of_two_hours_leads_to_sections_and_takes_two_hours() -> None:
    first = ROOT / "notebooks" / "00_first_light.ipynb"
    (text,) = (each for each in _texts(first) if "## If you have two hours" in each)
    rows = re.findall(r"^\| \[(\d\d): ([^\]]+)\]\(([^)#]+)#([^)]+)\) \| [^|]+ \| (\d+) \|$", text, re.MULTILINE)
    assert len(rows) > 10
    for number, heading, name, anchor, _ in rows:
        assert name.startswith(number)
        assert anchor == heading.replace(" ", "-")
        assert anchor in _headings(first.with_name(name)), f"{name} has no section {heading!r}"
    assert sum(int(minutes) for *_, minutes in rows) == 120
    order = [name for _, _, name, *_ in rows]
    assert order == sorted(order), "the path goes through the notebooks in their order"
    assert "#If-you-have-two-hours" in _texts(first)[0]


def test_it_narrates_and_the_package_computes(notebook: Any) -> None:
    """A dozen lines a cell, more of CUDA C++, kernels and folded questions; kernels and exercises alone define."""
    for cell in _code(notebook):
        lines = re.sub(r"^from .* import \((?:\n.*)*?\n\)$", "", cell.source, flags=re.MULTILINE).splitlines()
        own = [line for line in lines if line.strip() and not line.startswith(("import ", "from ", "%load_ext"))]
        folded = cell.metadata.get("jupyter", {}).get("source_hidden") or "kernel" in cell.metadata.get("tags", [])
        assert len(own) <= (36 if cell.source.startswith("%%cuda") else 16 if folded else 12), cell.source
        if not {"kernel", "exercise"} & set(cell.metadata.get("tags", [])):
            assert not re.search(r"^\s*(def|class|while|try|if)\b", cell.source, re.MULTILINE), cell.source


def test_it_is_stored_as_it_was_run(notebook: Any) -> None:
    counts = [cell.execution_count for cell in _code(notebook)]
    assert counts == list(range(1, len(counts) + 1)), SAVE
    assert all(output.output_type != "error" for output in _outputs(notebook))
    assert all(output.get("name") != "stderr" for output in _outputs(notebook))


def test_nothing_that_changes_from_run_to_run_is_stored(path: Path, notebook: Any) -> None:
    assert "widgets" not in notebook.metadata, SAVE
    assert notebook.metadata.kernelspec.name == "python3"
    assert "version" not in notebook.metadata.language_info, SAVE
    for output in _outputs(notebook):
        assert not any("widget" in medium for medium in output.get("data", {})), SAVE
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"object at 0x|/home/|/tmp/|/root/|(?<![\w./-])/(?:[\w.-]+/)+[\w.-]+\.(?:py|cu|ptx)\b", text)


def test_every_picture_can_be_read_without_a_kernel(notebook: Any) -> None:
    """The stored page of a picture holds the drawing, an image for pages that drop it, and its words."""
    pictures = [
        output.data for output in _outputs(notebook) if "<figure" in output.get("data", {}).get("text/html", "")
    ]
    assert pictures
    for data in pictures:
        page = data["text/html"]
        assert "<svg" in page
        assert re.search(r'<img class="[^"]*" alt="[^"]{15,}" src="data:image/svg\+xml;base64,', page)
        assert ">In words</summary>" in page
        assert data["text/plain"]


def test_answers_are_folded_away(notebook: Any) -> None:
    """Every question is a prediction: the reader answers first, and a page without a kernel folds the answer away."""
    for cell in notebook.cells[1:]:
        if cell.cell_type == "markdown":
            assert not re.search(r"\*\*predict", cell.source, re.IGNORECASE), cell.source
        elif "predict(" in cell.source:
            assert cell.metadata.jupyter.source_hidden, f"the code gives the answer away. {SAVE}"
            (output,) = cell.outputs
            assert output.data["text/plain"].startswith("Predict. ")
            assert ">Answer</summary><p>" in output.data["text/html"]


def test_what_is_said_to_be_the_same_is_the_same(notebook: Any) -> None:
    printed = [line for output in _outputs(notebook) for line in str(output.get("text", "")).splitlines()]
    assert [line for line in printed if re.search(r"(same|equal)\b.*: False", line)] == []


def test_a_task_says_what_it_asks(notebook: Any) -> None:
    for text, task in pairwise(notebook.cells):
        if "exercise" in task.metadata.get("tags", []):
            assert text.cell_type == "markdown", task.id
            assert not text.source.strip().splitlines()[-1].startswith("#"), f"{task.id}: only a heading is before it"


def test_what_verdicts_and_cards_speak_of_is_imported(path: Path, notebook: Any) -> None:
    if path.stem == WORKSHOP:
        pytest.skip("it has no exercise")
    wanted = re.compile(rf"^from tcemu\.course import {', '.join(SPOKEN_OF)}\b", re.MULTILINE)
    assert any(wanted.search(cell.source) for cell in _code(notebook))


def test_the_reader_predicts_moves_sliders_writes_code_and_asks_a_gpu(path: Path, notebook: Any) -> None:
    if path.stem == WORKSHOP:
        pytest.skip("its reader writes whole kernels, which %%rung checks")
    cells = _code(notebook)
    shown = [output.get("data", {}).get("text/plain", "") for output in _outputs(notebook)]
    tagged = [tag for cell in cells for tag in cell.metadata.get("tags", [])]
    assert sum("predict(" in cell.source for cell in cells) >= 3
    assert sum(text.startswith("<Explorer ") for text in shown) >= 2
    assert tagged.count("exercise") >= 2
    assert tagged.count("live-gpu") >= (path.stem not in NOT_ASKED)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for heading in ("## Pitfalls", "## Summary", "## Three questions", "## Exercises"):
        assert f"{heading}\n" in prose, heading


def test_the_first_notebooks_ask_before_they_tell() -> None:
    import nbformat

    asked = [sum("predict(" in cell.source for cell in _code(nbformat.read(path, 4))) for path in NOTEBOOKS[:2]]
    assert min(asked) >= 6


def test_cells_for_a_gpu_are_tagged_compared_and_say_who_answered(notebook: Any) -> None:
    for cell in _code(notebook):
        live = "live-gpu" in cell.metadata.get("tags", [])
        assert live == ("live." in cell.source), cell.source
        assert ("nbval-ignore-output" in cell.metadata.get("tags", [])) == ("interact(" in cell.source)
        if live:
            (output,) = cell.outputs
            assert re.search(r"^recorded on NVIDIA \w+ \(sm_\d+a?\), \d{4}-\d\d-\d\d$", output.text, re.MULTILINE), SAVE


@pytest.mark.parametrize(("number", "cells"), [(0, ["c38"]), (1, ["c22a", "c37a"])])
def test_the_first_notebooks_have_cells_for_a_gpu(number: int, cells: list[str]) -> None:
    import nbformat

    first = nbformat.read(NOTEBOOKS[number], as_version=4)
    assert [cell.id for cell in _code(first) if "live-gpu" in cell.metadata.get("tags", [])] == cells


def test_it_is_stored_in_the_form_that_saving_gives_it(path: Path, notebook: Any) -> None:
    """nbval runs the cells and compares their output."""
    import nbformat
    from save_notebooks import normal

    assert nbformat.writes(normal(notebook)) + "\n" == path.read_text(encoding="utf-8"), SAVE

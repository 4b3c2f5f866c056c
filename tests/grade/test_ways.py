"""A notebook that `check` calls right in Jupyter is right in the grader, however its author works."""

import json

import pytest
from boxed import marks, needs_box
from quick import spread, turn
from rows import rows
from ways import WAYS
from ways_with_tcemu import IMPORT, MMA, WITH_TCEMU

from tcemu.course.running import results

#: Collects what `check` says in a kernel, and prints it at the end.
BEGIN = """import json as _json
from tcemu.course.checking import verdicts_of as _of
_collect = _of('ada')
_said = _collect.__enter__()"""
END = "print(_json.dumps([verdict.state for verdict in _said]))"


ALL = [*WAYS, *((what, [IMPORT, MMA, *cells], "right") for what, cells in WITH_TCEMU)]


def in_a_kernel(sources, folder):
    """What the last check of a notebook says in a Jupyter kernel."""
    import nbformat
    from nbclient import NotebookClient

    cells = [nbformat.v4.new_code_cell(source) for source in (BEGIN, *sources, END)]
    for cell in cells[1:-1]:
        cell.metadata["tags"] = ["raises-exception"]  # people run one cell after another, whatever happens
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, resources=resources).execute()
    text = "".join(output.get("text", "") for output in cells[-1].outputs)
    return json.loads(text)[-1]


@pytest.mark.slow
@rows("what, sources, says", spread(ALL, 25, first=4 * turn(25)), lambda what, *_: what)
def test_jupyter_says(what, sources, says, tmp_path):
    assert in_a_kernel([_numbered(each) for each in sources], tmp_path) == says


def _numbered(source):
    """The kernel has run one cell more, which begins to collect."""
    return source.replace("Out[2]", "Out[3]").replace("In[2]", "In[3]")


@pytest.mark.slow
@needs_box
@rows("what, sources, says", spread(ALL, 8, first=turn(8)), lambda what, *_: what)
def test_the_grader_says_the_same(what, sources, says):
    assert marks(*sources)["where_of_b"].state == says


@pytest.mark.slow
@rows("what, sources, says", ALL, lambda what, *_: what)
def test_checking_in_a_terminal_says_the_same(what, sources, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [{"cell_type": "code", "id": f"c{number}", "source": each} for number, each in enumerate(sources)]
    path = tmp_path / "02_fragments.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert [result.state for result in results(path) if result.name == "where_of_b"][-1:] == [says]

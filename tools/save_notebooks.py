"""Run the notebooks and store them with their outputs, in the form that the tests compare.

    .venv/bin/python tools/save_notebooks.py [notebooks/NAME.ipynb ...]

What differs from run to run is left out: ids and states of widgets, times, the version of Python, output to stderr,
and the line that says that a kernel is being compiled. Cells tagged `live-gpu` show the recorded answer, even if
there is a GPU; to record the answer for a new cell, run the notebook on an H200 with
TCEMU_LIVE_RECORD=tcemu/live/recorded.json, without this tool. A widget is saved as its first picture; the widget
itself appears when the cell runs. The code of a question is folded.
"""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
_WIDGETS = "application/vnd.jupyter.widget-"


def normal(notebook: Any) -> Any:
    """Bring a notebook into the stored form, in place, and return it."""
    title = notebook.metadata.get("title")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
            **({"title": title} if title else {}),
        }
    )
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        # The code of a question stands between the text and the question, and gives the answer away.
        asks = cell.cell_type == "code" and re.search(r"^predict\(", cell.source, re.MULTILINE)
        hidden = {"jupyter": {"source_hidden": True}} if asks else {}
        cell.metadata = nbformat.from_dict(({"tags": tags} if tags else {}) | hidden)
        if "outputs" in cell:
            cell.outputs = joined([output for output in cell.outputs if output.get("name") != "stderr"])
        for output in cell.get("outputs", []):
            output.pop("transient", None)
            for medium in [name for name in output.get("data", {}) if name.startswith(_WIDGETS)]:
                del output.data[medium]
        if "outputs" in cell:  # without a kernel nothing is left of `interact` but the names of its parts
            told = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
            cell.outputs = [
                output for output, text in zip(cell.outputs, told, strict=True) if not text.startswith("interactive(")
            ]
    return notebook


def joined(outputs: list[Any]) -> list[Any]:
    """Outputs in which consecutive prints are one piece; where they were split depends on timing."""
    whole: list[Any] = []
    for output in outputs:
        if output.output_type == "stream" and whole and whole[-1].get("name") == output.name:
            whole[-1].text += output.text
        else:
            whole.append(output)
    return whole


def save(path: Path) -> None:
    """Run one notebook in its folder and store it."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    os.environ.update(TCEMU_LIVE="recorded", TCEMU_QUIET="1")  # the kernel inherits them
    place = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", store_widget_state=True, resources=place)
    client.execute()
    nbformat.write(normal(notebook), path)


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("notebooks", type=Path, nargs="*", help="all notebooks if none")
    for path in options.parse_args().notebooks or sorted(NOTEBOOKS.glob("*.ipynb")):
        save(path)
        print(f"saved {path}")

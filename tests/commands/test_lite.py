"""The files of the laboratory in a browser; the site itself is in tests/browser/test_lite.py."""

import json

from places import ROOT

from tcemu.commands.lite.build import _trusted

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_notebooks_show_each_picture_once_and_no_commas_between_lines(row):
    for path in NOTEBOOKS:
        stored = json.loads(path.read_text(encoding="utf-8"))
        made = json.loads(_trusted(json.loads(path.read_text(encoding="utf-8"))))
        with row(path.stem):
            assert [cell["source"] for cell in made["cells"]] == [cell["source"] for cell in stored["cells"]]
            outputs = [output for cell in made["cells"] for output in cell.get("outputs", ())]
            texts = [data for output in outputs for data in output.get("data", {}).values()]
            assert not [text for text in texts if isinstance(text, list)]
            assert not [text for text in texts if "-image" in text and '<img class="tc' in text]
            pictures = "".join(text for text in texts if isinstance(text, str)).count('class="tcemu-picture"')
            assert pictures == path.read_text(encoding="utf-8").count('class=\\"tcemu-picture\\"')
            assert all(cell["metadata"]["trusted"] for cell in made["cells"] if cell["cell_type"] == "code")

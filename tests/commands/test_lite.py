"""The files of the laboratory in a browser; the site itself is in tests/browser/test_lite.py."""

import json
from importlib.machinery import SourcelessFileLoader
from importlib.util import module_from_spec, spec_from_file_location

from places import ROOT

from tcemu.commands.lite.build import _trusted
from tcemu.commands.lite.packages import _compiled

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


def test_a_module_of_the_site_is_imported_without_its_source(tmp_path):
    """What is no module, or a template that is no Python, stays as it is."""
    name, data = _compiled("answer.py", b"def f():\n    return 6 * 7\n", "/place/")
    assert name == "answer.pyc"
    (tmp_path / name).write_bytes(data)
    loader = SourcelessFileLoader("answer", str(tmp_path / name))
    loaded = module_from_spec(spec_from_file_location("answer", tmp_path / name, loader=loader))
    loader.exec_module(loaded)
    assert (loaded.f(), loaded.f.__code__.co_filename) == (42, "/place/answer.py")
    for name, data in (("data.txt", b"1 +"), ("template.py", b"{{ name }} = 1 +")):
        assert _compiled(name, data, "/place/") == (name, data)

"""The laboratory as a static site, in real browsers, with no network but this machine's.

One build serves all tests. Every day another notebook runs, with --thorough all do, in both browsers. Skipped without a
browser, and where the wheel that has Pyodide (tcemu/commands/lite/wheels.txt) can be fetched no longer.
"""

import json

import lite
import pytest
import quick
from lab import CHROMIUM
from places import ROOT
from quick import turn

from tcemu.errors import CourseError

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("websocket", reason="websocket-client is not installed: pip install websocket-client")
pytestmark = pytest.mark.slow

BROWSERS = {"chromium": CHROMIUM, "firefox": lite.FIREFOX}
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
#: The first notebook, and another every day.
SOME = NOTEBOOKS if quick.THOROUGH else [NOTEBOOKS[0], NOTEBOOKS[1 + turn(len(NOTEBOOKS) - 1)]]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    pytest.importorskip("jupyterlite_core", reason="the extra `lite` is not installed")
    import setuptools  # noqa: F401 - JupyterLite imports distutils, which setuptools refuses to find there later

    from tcemu.commands.lite.build import build

    site = tmp_path_factory.mktemp("lite") / "site"
    try:
        size = build(site, book=False)
    except CourseError as error:
        if "fetch" in str(error):
            pytest.skip(str(error))
        raise
    assert size < 60_000_000
    with lite.served(site) as address:
        yield address


@pytest.fixture(scope="module", params=BROWSERS)
def opened(request, address, tmp_path_factory):
    if BROWSERS[request.param] is None:
        pytest.skip(f"{request.param} is not installed")
    with getattr(lite, request.param)(tmp_path_factory.mktemp(request.param)) as (goto, evaluate):
        yield lite.Site(address, goto, evaluate)


def code(folder, name):
    held = json.loads((ROOT / folder / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in held["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", SOME)
def test_a_notebook_runs_to_its_stored_outputs(opened, name):
    opened.open(f"notebooks/{name}.ipynb")
    found, _ = opened.run_all()
    for cell, outputs in zip(code("notebooks", name), found, strict=True):
        assert not [each for each in outputs if each["output_type"] == "error"], "".join(cell["source"])
        if "nbval-ignore-output" not in cell["metadata"].get("tags", ()):  # it is ignored everywhere
            assert lite.comparable(outputs) == lite.comparable(cell["outputs"]), "".join(cell["source"])
    if name == NOTEBOOKS[0]:
        assert opened.slide() < 10_000


@pytest.mark.parametrize("name", NOTEBOOKS[:-1] if quick.THOROUGH else NOTEBOOKS[:1])
def test_an_exercise_fails_and_passes_and_a_reload_keeps_that(opened, name):
    path = f"exercises/{name}.ipynb"
    opened.open(path)
    checks = 0
    for cell in code("exercises", name)[:3]:
        opened.execute("".join(cell["source"]))
    solved = "import tcemu.course.progress as p; print(sum('solved' in e for e in p.read()['exercises'].values()))"
    before = int(opened.execute(solved))
    if name == NOTEBOOKS[0]:
        wrong = "def first_product(A, B, C):\n    return A @ B * 0\nprint(bool(check(first_product)))"
        assert opened.execute(wrong).endswith("False\n")
    for cell in code("solutions", name):
        source = "".join(cell["source"])
        told = opened.execute(source)
        if source.startswith("check("):
            checks += 1
            assert "Error" not in told, (source, told)
    assert int(opened.execute(solved)) == before + checks > before
    opened.open(path)
    assert int(opened.execute(solved)) == before + checks

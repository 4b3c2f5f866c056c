"""The laboratory as a static site, in real browsers, with no network but this machine's.

One build serves all tests. Every day the other browser opens it, and runs the first notebook and another one in turn;
with --thorough both browsers run all of them. Skipped without a browser, and where the wheel that has Pyodide
(tcemu/commands/lite/wheels.txt) can be fetched no longer.
"""

import json

import lite
import pytest
import quick
from lab import CHROMIUM
from places import ROOT
from quick import turn

from tcemu.commands.lite.cells import compiled_cells
from tcemu.cuda import available
from tcemu.errors import CourseError

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("websocket", reason="websocket-client is not installed: pip install websocket-client")
pytestmark = pytest.mark.slow

BROWSERS = {"chromium": CHROMIUM, "firefox": lite.FIREFOX}
LESSONS = sorted(path.stem for path in (ROOT / "solutions").glob("[0-9]*.ipynb"))
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
#: The first notebook for two days, one in each browser, and then another one for two days.
ANOTHER = NOTEBOOKS[1 + quick.DAY // 4 % (len(NOTEBOOKS) - 1)]
SOME = NOTEBOOKS if quick.THOROUGH else [(NOTEBOOKS[0], ANOTHER)[quick.DAY // 2 % 2]]


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
    assert size < 50_000_000
    with lite.served(site) as address:
        yield address


@pytest.fixture(scope="module", params=quick.spread(BROWSERS, 2, turn(2)))
def opened(request, address, tmp_path_factory):
    name = "chromium" if request.param == "firefox" and not lite.new_enough() else request.param
    if BROWSERS[name] is None:
        pytest.skip(f"{name} is not installed")
    with getattr(lite, name)(tmp_path_factory.mktemp(name)) as (goto, evaluate):
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


def test_an_exercise_fails_and_passes_and_a_reload_keeps_that(opened):
    path = f"exercises/{LESSONS[0]}.ipynb"
    solved = "import tcemu.course.progress as p; print(sum('solved' in e for e in p.read()['exercises'].values()))"
    opened.open(path)
    before = int(opened.execute(solved))
    begin, solution, asked = ("".join(cell["source"]) for cell in code("solutions", LESSONS[0])[:3])
    wrong = "def first_product(A, B, C):\n    return A @ B * 0"
    assert [right(opened, begin, answer, asked) for answer in (wrong, solution)] == [False, True]
    assert int(opened.execute(solved)) == before + 1
    opened.open(path)
    assert int(opened.execute(solved)) == before + 1


def right(opened, begin, answer, asked):
    opened.execute(begin)
    opened.execute(answer)
    told = opened.execute(f"print(bool({asked}))")
    assert told.split()[-1] in ("True", "False"), told
    return told.split()[-1] == "True"


def test_solutions_are_right(opened):
    """Those in CUDA C++ as well, which a page can only run once they have been compiled elsewhere."""
    opened.visit(f"exercises/{LESSONS[0]}.ipynb")
    for name in LESSONS if quick.THOROUGH else [LESSONS[turn(len(LESSONS))]]:
        if available():
            compiled = compiled_cells([ROOT / "solutions" / f"{name}.ipynb"])
            opened.execute(
                f"from tcemu.cuda import stored; stored.lookup('', '', ())\nstored._all().update({compiled!r})"
            )
        checks = 0
        for cell in code("solutions", name):
            source = "".join(cell["source"])
            if source.startswith("check("):
                told, checks = opened.execute(f"print(bool({source}))"), checks + 1
                assert told.endswith("True\n") or (not available() and "NameError" in told), (source, told)
            else:
                opened.execute(source)
        assert checks


def test_a_page_says_that_it_installs_nothing_and_compiles_nothing(opened):
    opened.visit(f"exercises/{LESSONS[0]}.ipynb")
    assert "This page has what the course needs" in opened.execute("%pip install torch")
    opened.execute("%load_ext tcemu.cuda")
    told = opened.execute("%%cuda\n__global__ void f(int *x) { *x = 4711; }")
    assert "NVRTC, which compiles CUDA C++ that is not a cell of the course" in told


def test_a_deadlock_is_told_and_the_page_goes_on(opened):
    """A browser's Python ends if the frames of a warp that waits are read."""
    opened.visit(f"exercises/{LESSONS[0]}.ipynb")
    asked = "import tcemu\ndef wait(warp):\n    warp.bar_sync(1, 64)\n"
    told = opened.execute(f"{asked}tcemu.launch(lambda warp: warp.warpid or wait(warp), 1, 64)")
    assert "called at" in told, told
    assert opened.execute("print(6 * 7)") == "42\n"

"""The book: one strict build of the whole site, whose pages and links are then looked at, in a browser too.

The sidebar lists the same pages beside each of them, and drawing it takes a third of the time. Of the notebooks,
exercises, instructions and parts of the reference only the first notebook has it here, unless everything is asked. Two
of the notebooks are run, the first one and another every day: the others are as they are stored.
"""

import functools
import http.server
import json
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
import quick
from click.testing import CliRunner
from lab import ARGUMENTS, CHROMIUM
from places import ROOT

from tcemu.cli import commands
from tcemu.commands.book.build import lay_out_sources
from tcemu.commands.book.docstrings import processed
from tcemu.commands.book.running import answers
from tcemu.course import manifest
from tcemu.instructions import FAMILIES
from tcemu.sanitizer import RULES

#: Notebooks whose explorers and questions answer.
FIRST = "00_first_light"
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
RUN = LESSONS if quick.THOROUGH else [FIRST, LESSONS[1 + quick.turn(len(LESSONS) - 1)]]
#: Takes the sidebar from pages of which there are many, runs few notebooks, and rarely looks for garbage, of which
#: Sphinx makes little.
LESS = f"""
import gc
from tcemu.commands.book import build
gc.set_threshold(20_000, 20, 100)
build._asks = lambda notebook: notebook.stem in {RUN}
settings = build._settings
many = "notebooks/0[1-9]*", "notebooks/1*", "exercises/*", "instructions/*", "reference/*"
bare = dict.fromkeys(many, [])
build._settings = lambda wanted, **more: settings(wanted, **more) | dict(html_sidebars=bare)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The book, built with warnings as errors: a link to a page that does not exist is a warning."""
    pytest.importorskip("sphinx_book_theme", reason="the extra `book` is not installed")
    folder = tmp_path_factory.mktemp("book") / "site"
    code = "" if quick.THOROUGH else LESS
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
def test_the_reference_has_what_one_calls_first(site):
    page = (site / "reference" / "tcemu.html").read_text(encoding="utf-8")
    for name in ("launch", "run", "matmul", "parse", "whose_bits", "Instruction"):
        assert f'descname">{name}</span>' in page, name


# ---------------------------------------------------------------------------------------------- in a browser

#: Width and height of a phone's page.
PHONE = {"width": 390, "height": 844}
#: The figures of a page that one does not see: their drawing has no height, or their image is shown as well.
UNSEEN = """() => [...document.querySelectorAll("figure.tcemu-picture")].filter((each) => {
    for (let box = each; box; box = box.parentElement) if (box.nodeName === "DETAILS") box.open = true;
    const high = (what) => each.querySelector(what)?.getBoundingClientRect().height ?? 0;
    return high("svg[role=img]") === 0 || high("img") > 0;
}).map((each) => each.getAttribute("aria-label") ?? each.innerText.slice(0, 80))"""
#: How wide the page is, and elements that are wider than the window and in no box that scrolls.
WIDE = """() => {
    const scrolls = (box) => ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
    const reached = (box) => box && box !== document.body && (scrolls(box) || reached(box.parentElement));
    const wide = [...document.querySelectorAll(".bd-article *")].filter(
        (each) => each.getBoundingClientRect().right > innerWidth + 1 && !reached(each.parentElement));
    return [document.scrollingElement.scrollWidth, wide.slice(0, 3).map((each) => each.outerHTML.slice(0, 120))];
}"""
#: The letters that the widest paragraph has room for in a line.
LONGEST = """() => {
    const textContent = "What the tensor core computes is the sum of the products and of one more number. ".repeat(9);
    const one = Object.assign(document.createElement("span"), { textContent });
    one.style.whiteSpace = "nowrap";
    document.querySelector(".bd-article p").append(one);
    const letter = one.getBoundingClientRect().width / textContent.length;
    one.remove();
    const all = [...document.querySelectorAll(".bd-article p:not(th p)")]; // the letters of a heading are wider
    return Math.max(...all.map((each) => each.clientWidth)) / letter;
}"""
#: Answers all questions of a page, with whatever is taken for an answer.
PREDICT = """() => {
    for (const form of document.querySelectorAll(".tcemu-view:has(button) form")) {
        form.querySelectorAll("input[type=radio]").forEach((each) => each.click());
        for (const box of form.querySelectorAll("input[type=text]")) {
            box.value = "1";
            box.dispatchEvent(new Event("input"));
        }
        form.requestSubmit();
    }
}"""
THEMES = "theme => Object.assign(document.documentElement.dataset, { theme, mode: theme })"


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def served(site):
    """The site's address: a page that is opened as a file cannot read others, which search does."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    yield opened
    opened.close()


def _open(page, path):
    """Open a page, and wait until its explorers and questions answer."""
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    page.wait_for_selector("html[data-tcemu-answers=ready]", state="attached")


@pytest.mark.slow
def test_every_picture_is_seen_and_no_page_is_wider_than_a_phone(site, page, row):
    page.set_viewport_size(PHONE)
    figures = 0
    pages = sorted({*site.rglob("*.html")} - {*site.glob("_static/**/*.html")})
    lessons = {*site.glob("*.html"), *site.glob("notebooks/*.html")}
    others = [page for page in pages if page not in lessons]
    for path in [*quick.spread(sorted(lessons), 3, quick.turn(3)), *quick.spread(others, 10, quick.turn(10))]:
        with row(path.relative_to(site).as_posix()):
            _open(page, path)
            page.evaluate(PREDICT)
            assert page.evaluate(WIDE) == [PHONE["width"], []]
            assert page.evaluate(UNSEEN) == []
            figures += page.locator("figure.tcemu-picture").count()
    assert figures > 40


@pytest.mark.slow
@pytest.mark.parametrize("name", ["notebooks/00_first_light", "instructions/mma"])
def test_pictures_answer_the_pointer_and_the_arrow_keys_without_a_kernel(site, page, name):
    _open(page, site / f"{name}.html")
    figure = page.locator("figure:has(.zd)").first
    figure.scroll_into_view_if_needed()
    figure.locator(".zd .i3.j4").hover()
    lit = "all => all.filter(each => getComputedStyle(each).opacity > 0).map(each => each.getAttribute('class'))"
    assert sorted(figure.locator(".y path").evaluate_all(lit)) == ["ai3", "bj4"]
    figure.locator(".tcemu-scroll").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert figure.locator("[role=status]").text_content() == "D[1, 1]: d1 of lane 4"


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_explorers_and_questions_answer_without_a_kernel(site, page, name):
    """On a phone: sliders are large enough for a finger, and change the picture."""
    page.set_viewport_size(PHONE)
    path = site / "notebooks" / f"{name}.html"
    assert path.stat().st_size < 1.5e6
    _open(page, path)
    page.evaluate(PREDICT)
    stored = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    asked = sum("predict(" in "".join(cell["source"]) and cell["cell_type"] == "code" for cell in stored["cells"])
    assert page.locator(".tcemu-view .tcemu-answer").count() >= asked > 0
    for view in page.locator(".tcemu-view").all():
        sliders = [each for each in view.get_by_role("slider").all() if each.is_visible()]
        pictures = {view.locator(".tcemu-figure").inner_html()}
        for slider in sliders:
            assert slider.bounding_box()["height"] >= 40
            slider.press("End" if slider.input_value() == slider.get_attribute("min") else "Home")
            pictures.add(view.locator(".tcemu-figure").inner_html())
        assert len(pictures) > len(sliders) / 2  # 0 · 100 is 100 · 0


@pytest.mark.slow
def test_search_finds_a_page_and_shows_where(served, page):
    page.goto(f"{served}/index.html")
    page.keyboard.press("Control+K")
    page.keyboard.type("ldmatrix")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li .context")
    found = page.locator("#search-results li", has=page.locator(".context", has_text="ldmatrix")).first
    found.locator("a").first.click()
    assert "ldmatrix" in page.locator(".bd-article").inner_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [f"notebooks/{RUN[-1]}", *quick.spread(["instructions/mma", "reference/tcemu"], 2, first=quick.turn(2))]
)
def test_text_is_legible_in_both_themes_and_in_lines_of_a_readable_length(site, page, name):
    from axe_playwright_python.sync_playwright import Axe

    _open(page, site / f"{name}.html")
    page.evaluate(PREDICT)
    assert page.evaluate(LONGEST) <= 90
    parts = {"include": [[".bd-article"]], "exclude": [["svg[role=img] > *"]]}
    for theme in ("light", "dark"):
        page.evaluate(THEMES, theme)
        violations = Axe().run(page, context=parts, options={"resultTypes": ["violations"]}).response["violations"]
        assert [each["id"] for each in violations if each["impact"] in ("serious", "critical")] == [], theme


@pytest.mark.slow
def test_a_page_opens_its_notebook_in_the_laboratory_if_the_site_has_one(tmp_path):
    """And only then. A page that keeps no answers keeps its pictures."""
    name = f"notebooks/{FIRST}.ipynb"
    for live in ("", "live"):
        lay_out_sources(tmp_path / live, manifest(), live)
        cells = json.loads((tmp_path / live / name).read_text(encoding="utf-8"))["cells"]
        first = "".join(cells[0]["source"])
        linked = re.findall(r'href="([^"]*)"', first)
        assert linked == ([f"../live/lab/index.html?path={name}", f"../live/files/{name}"] if live else [])
        assert "<svg" in json.dumps(cells)
        assert "base64" not in json.dumps(cells)


@pytest.mark.slow
def test_a_notebook_is_run_for_its_answers_and_a_cell_that_fails_is_named(tmp_path):
    sources = [
        "from tcemu import show", "show.widgets.rounding_of_a_number('e4m3', 1.3)", "missing",
        "show.predict('How many?', 4);\nshow.predict('How many?', 4)",
    ]  # fmt: skip
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "tried.ipynb")
    [(kept, errors)] = answers([tmp_path / "tried.ipynb"])
    assert {place: facts["kind"] for place, facts in kept.items()} == {1: "explorer", 3: "prediction"}
    assert errors == ["tried.ipynb, cell 2: NameError: name 'missing' is not defined"]


def test_docstrings_become_restructured_text():
    lines = ["Multiply `a` by *b*.", "", "    code(*x)", ""]
    lines += ["Steps:", "  - one;", "  - two.", "Then `c_d`.", "", ">>> 1 * 1"]
    processed(None, "", "", None, None, lines)
    text = "\n".join(lines)
    assert text.startswith("Multiply ``a`` by \\*b\\*.\n\n::\n\n")
    assert "\n\n- one;\n- two.\n\nThen ``c_d``.\n\n>>> 1 * 1\n" in text


@pytest.mark.slow
def test_without_sphinx_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("tcemu.extras.find_spec", lambda _: None)
    done = CliRunner().invoke(commands, ["book", str(tmp_path)])
    assert "needs sphinx, myst_nb, sphinx_book_theme and anywidget, which the extra `book` installs" in str(
        done.exception
    )

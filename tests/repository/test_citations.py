"""Every section of the PTX manual that is cited anywhere exists, and the course covers those on tensor cores."""

import inspect
import json
import re

from places import ROOT

from tcemu.course import exercises, manifest
from tcemu.course.cards import card
from tcemu.errors import TcemuError
from tcemu.instructions import FAMILIES
from tcemu.machine.warp import Warp
from tcemu.manual import ARCHIVE, VERSION, titles
from tcemu.manual import cited as with_titles
from tcemu.sanitizer import RULES

SECTION = re.compile(r"(?<![\w.])(?:[5689]|10)\.\d+(?:\.\d+)+(?![\w.]*\d)")
LISTED = (ROOT / "tcemu" / "sections.txt").read_text(encoding="utf-8").splitlines()[1:]
SECTIONS = set(titles())
#: What the course is about: everything in these chapters.
TAUGHT = ("9.7.14.", "9.7.15.")


def cited(text):
    """The sections after "PTX ISA", also "PTX ISA 9.1, sections X, Y and Z"."""
    for found in re.finditer(r"PTX ISA (?:9\.1, )?(?:sections? )?((?:[\d.]+(?:, | and | to | or )?)+)", text):
        yield from SECTION.findall(found.group(1))


def test_the_titles_are_plain_text():
    """Not the marks that a browser shows beside them."""
    odd = {title for title in titles().values() if not title.replace("…", "").replace("–", "-").isascii()}
    assert not odd


def test_the_list_is_in_order():
    numbers = [[int(part) for part in line.partition("\t")[0].split(".")] for line in LISTED]
    assert numbers == sorted(numbers)


def test_the_tables_cite_sections_that_exist():
    named = {family.name: family.section for family in FAMILIES}
    named |= {rule.id: rule.section for rule in RULES.values()}
    wrong = {name: each for name, sections in named.items() for each in sections.split(", ") if each not in SECTIONS}
    assert not wrong


def test_every_method_of_a_warp_cites_the_section_of_its_instruction():
    families = {family.name: family.section for family in FAMILIES}
    for name, method in vars(Warp).items():
        if name[0] == "_" or not inspect.isfunction(method) or name in {"run", "only", "exit", "registers"}:
            continue
        first = re.match(r"([a-z0-9_.]+)\S*(?: N| in a loop)? \((?:__[^;]*; )?([0-9.]+)\): ", method.__doc__)
        assert first, name
        opcode, section = first.groups()
        root = opcode.split(".")[0]
        sections = [families.get(opcode)] if opcode in families else [
            each for family, each in families.items() if family.startswith(root)
        ]  # fmt: skip
        assert section in sections, name


def test_the_code_and_the_documents_cite_sections_that_exist():
    paths = [*(ROOT / "tcemu").rglob("*.py"), *ROOT.glob("*.md")]
    found = {(path.name, each) for path in paths for each in cited(path.read_text(encoding="utf-8"))}
    assert not [(name, each) for name, each in found if each not in SECTIONS]


def test_the_notebooks_cite_sections_that_exist():
    for folder in ("notebooks", "exercises", "solutions"):
        for path in (ROOT / folder).glob("*.ipynb"):
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                wrong = [each for each in cited("".join(cell["source"])) if each not in SECTIONS]
                assert not wrong, path.name


def test_the_notebooks_cite_version_and_titles():
    """In their text; what errors and reports cite comes with both by itself."""
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"][1:]:
            if cell["cell_type"] == "markdown":
                text = "".join(cell["source"])
                assert not re.search(r"PTX ISA \d+\.\d+\.", text), path.name
                for section in filter(SECTIONS.__contains__, SECTION.findall(text)):
                    assert f"{section} *{titles()[section]}*" in text, path.name


def test_errors_and_reports_cite_version_and_titles():
    text = "the pointer must be a multiple of 32 (guide; PTX ISA 9.7.14.4.2, 5.5 and 9.7.14.4.3), as in PTX ISA 8.7"
    assert with_titles(text) == (
        "the pointer must be a multiple of 32 (guide; PTX ISA 9.1, 9.7.14.4.2 Matrix Storage for WMMA, 5.5 Tensors, "
        "9.7.14.4.3 Warp-level Matrix Load Instruction: wmma.load), as in PTX ISA 8.7"
    )
    assert str(TcemuError("no (PTX ISA 9.7.15.1)")) == "no (PTX ISA 9.1, 9.7.15.1 Warpgroup)"
    assert "(PTX ISA 9.1, 9.7.15.1 Warpgroup, 5.5 Tensors)" in with_titles("(PTX ISA 9.7.15.1, 5.5)")


def test_what_a_learner_looks_up_has_title_version_and_address():
    """The numbers of other versions are others. (The heads of the notebooks: tests/course/test_manifest.py.)"""
    for exercise in exercises().values():
        for section in filter(None, exercise.section.split(", ")):
            assert f"{section} *{titles()[section]}*" in card(exercise)
    glossary = (ROOT / "notebooks" / "glossary.ipynb").read_text(encoding="utf-8")
    assert f"[PTX ISA {VERSION}]({ARCHIVE})" in glossary


def test_the_package_cites_one_version():
    said = {
        each
        for path in (ROOT / "tcemu").rglob("*.py")
        for each in re.findall(r"PTX ISA (\d+\.\d+), (?:section )?\d", path.read_text(encoding="utf-8"))
    }
    assert said == {VERSION}


def test_the_exercises_and_the_manifest_name_sections_that_exist():
    named = [each for exercise in exercises().values() for each in filter(None, exercise.section.split(", "))]
    named += [each for entry in manifest().notebooks for each in entry.manual]
    assert not set(named) - SECTIONS


def test_the_course_covers_every_section_on_tensor_cores():
    """A section counts as covered if a notebook names it, or one that it belongs to (other than a whole chapter)."""
    covered = {each for entry in manifest().notebooks for each in entry.manual}
    missing = [
        section
        for section in SECTIONS
        if section.startswith(TAUGHT) and not any(_above(section, each) for each in covered)
    ]
    assert not missing


def _above(section, other):
    return section == other or section.startswith(other + ".") or other.startswith(section + ".")

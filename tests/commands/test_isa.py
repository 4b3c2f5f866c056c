"""tcemu isa: the contents of the tables as text, CSV, JSON and SVG."""

import csv
import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner
from quick import some
from rows import rows as in_one_test

import tcemu.cli
from tcemu import ArithmeticUnknown, Instruction, TcemuError
from tcemu.arithmetic.words import KNOWN, in_sentences, in_words
from tcemu.commands.isa import isa
from tcemu.instructions import FAMILIES, TARGETS, parse, target_named
from tcemu.instructions.catalogue import catalogue, lines
from tcemu.instructions.compare import compare
from tcemu.instructions.explain import default_target, depth, explain
from tcemu.layouts.evidence import ROWS as EVIDENCE
from tcemu.layouts.formulas import axes, formulas
from tcemu.layouts.questions import held_by, who_holds

HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
SPARSE = "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
UNKNOWN = "wmma.mma.sync.aligned.row.col.m8n32k16.f32.f32"
MOVE = "movmatrix.sync.aligned.m8n8.trans.b16"

#: The first and the last form of every family.
SAMPLE = list(dict.fromkeys(family.variants[number][1] for family in FAMILIES for number in some((0, -1), 1)))
BY_OPCODE = in_one_test("instruction", some(SAMPLE, 6), str)
#: Those that hold a matrix: an instruction that only orders others has no layout, picture or example.
WITH_MATRICES = in_one_test("instruction", some([each for each in SAMPLE if each.fragments], 6), str)


def ask(*arguments):
    """Run tcemu isa in this process; return what it wrote, or raise what it raised."""
    done = CliRunner().invoke(isa, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def admitted(instruction):
    return [name for name in TARGETS if instruction.gate.admits(target_named(name))]


# Explanations ---------------------------------------------------------------------------------------------------------


@WITH_MATRICES
def test_every_family_is_explained_on_every_target_that_has_it(instruction):
    for name in admitted(instruction):
        told = explain(instruction, name)
        found = parse(instruction, name)
        assert (told.opcode, told.target, told.ptx) == (instruction.opcode, name, instruction.gate.ptx)
        assert told.about
        assert told.section[0].isdigit()
        assert bool(told.operands) == bool(told.layouts) == bool(found.fragments) == (not told.unknown)
        for line in told.layouts:
            fragment = found.fragments[line.role]
            assert f"{line.pattern}  " + " ".join(f"{d}={s}" for d, s in line.sizes.items()) == str(fragment.layout)
            assert line.shape == fragment.shape
            assert line.note
        for operand in told.operands:
            assert operand.what, f"{operand.name} is not told"
            if operand.name in found.fragments and operand.registers is not None:
                assert operand.registers == found.fragments[operand.name].registers
        if told.arithmetic and told.arithmetic.known:
            row = found.arithmetic(target_named(name))
            assert told.arithmetic.known == row.known
            assert told.arithmetic.line == in_words(row.model, depth(found))
            assert told.arithmetic.sentences == in_sentences(row.model, depth(found), found.types["d"].name)
            assert told.arithmetic.evidence == KNOWN[row.known]


@WITH_MATRICES
def test_every_example_runs(instruction):
    told = explain(instruction)
    assert told.example, "nothing to run"
    assert all(len(line) <= 80 for line in told.example)
    exec("\n".join(told.example), {})  # noqa: S102 - our own text


@BY_OPCODE
@pytest.mark.slow
def test_the_text_fits_80_columns_and_needs_no_colour(instruction):
    text = ask(instruction)
    assert text.startswith(instruction.opcode)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines()[1:])) <= 80
    for role in instruction.fragments:
        assert max(map(len, ask(instruction, "--operand", role).splitlines()[1:])) <= 80


def test_where_nobody_knows_the_fragments_it_says_so():
    told = explain(UNKNOWN, "sm_70")
    assert not told.layouts
    assert not told.example
    assert "that chip's fragment layouts have not been published" in told.unknown
    assert "The fragment layouts of this chip are not known." in ask(UNKNOWN, "--target", "sm_70")


def test_where_nobody_knows_the_arithmetic_it_says_so(monkeypatch):
    def unknown(self, target):
        raise ArithmeticUnknown(f"it is not known how {target} computes {self}")

    monkeypatch.setattr(Instruction, "arithmetic", unknown)
    assert not explain(HMMA).arithmetic.known
    assert f"it is not known how sm_90a computes {HMMA}." in " ".join(ask(HMMA).split())
    assert next(fact for fact in compare(HMMA, WMMA).facts if fact.what == "arithmetic").first == "unknown"


def test_every_layout_says_how_it_is_known():
    used = set()
    for family in FAMILIES:
        if family.tells is not None:  # of Tensor Memory, which has no fragments
            used.add(next(row for row in EVIDENCE if row.covers(family.name, "", 100, "")))
        for _, instruction in family.variants[:: max(1, len(family.variants) // 20)]:
            for name in admitted(instruction):
                number = target_named(name).number
                for role in parse(instruction, name).fragments:
                    asked = (family.name, role, number, str(instruction.shape))
                    row = next((row for row in EVIDENCE if row.covers(*asked)), None)
                    assert row, f"no row of the table of layouts speaks of {asked}"
                    used.add(row)
    assert used == set(EVIDENCE), "a row of the table that is never used"


def test_the_default_target_is_the_one_that_run_takes_by_default():
    assert default_target(parse(HMMA).gate) == "sm_90a"
    assert {default_target(i.gate) for i in catalogue(family="mma.block_scale")} <= {"sm_120a"}


GOLDEN_MOVE = """\
movmatrix.sync.aligned.m8n8.trans.b16

  Transposes an 8 x 8 matrix across the lanes of a warp. Shape: 8 x 8.
  Needs PTX 7.8 and sm_75 or later. Manual: PTX ISA 9.1, 9.7.14.5.17 Warp-level
  matrix transpose instruction: movmatrix.
  What follows is for sm_80.

Operands
  In PTX's order, with the registers of one lane.

  operand       what       registers  elements each  for tcemu.run
  d        out  8 x 8 b16          1              2  uint32 (..., 32, 1)
  a        in   8 x 8 b16          1              2  uint32 (..., 32, 1)

Layouts
  Row and column are left of the arrow, lane and slot (register and element in
  it) right of it, each as a number in named digits, most significant first.
  How we know (manual): one figure for all architectures; on sm_90 compared with
  an H200.

  d  x (t p) g -> (g t) (x p)   t 0-3, p 0-1, g 0-7
     matrix = 0, row = 2 t + p, column = g
     lane = 4 g + t, register = 0, element = p

  a  x g (t p) -> (g t) (x p)   g 0-7, t 0-3, p 0-1
     matrix = 0, row = g, column = 2 t + p
     lane = 4 g + t, register = 0, element = p

Example
  import numpy as np, tcemu
  opcode = "movmatrix.sync.aligned.m8n8.trans.b16"
  a = np.zeros((32, 1), np.uint32)
  d = tcemu.run(opcode, a, target="sm_80")
"""

GOLDEN_AT = """\
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32

  Operand a on sm_90a: 16 x 16 f16 (row, column), 4 registers a lane, 2 elements
  in each.
  (h g) (c t p) -> (g t) (c h p)   h 0-1, g 0-7, c 0-1, t 0-3, p 0-1
  row = 8 h + g, column = 8 c + 2 t + p, lane = 4 g + t, register = 2 c + h,
  element = p

Held by
  element  lane  register  bits
  A[3][5]    14         0  31:16
"""


def test_golden_texts():
    assert ask(MOVE, "--target", "sm_80") == GOLDEN_MOVE
    assert ask(HMMA, "--operand", "a", "--at", "3,5") == GOLDEN_AT


# The four questions ---------------------------------------------------------------------------------------------------


@BY_OPCODE
def test_who_holds_and_what_is_held_agree_with_the_fragment(instruction):
    for fragment in instruction.fragments.values():
        held = held_by(fragment)
        assert len(held) == fragment.lanes * fragment.registers * fragment.elements_per_register
        for each in held[:: max(1, len(held) // 300)]:
            assert fragment.position(each.lane, each.register, each.element) == each.position
            found = who_holds(fragment, each.position)
            assert [(h.lane, h.register, h.element) for h in found] == fragment.holders(*each.position)
            assert each in found
            width = fragment.format.bits + fragment.format.padding
            assert each.high - each.low + 1 == width
            assert 0 <= each.low <= each.high < fragment.container.register_bits


@pytest.mark.parametrize("target", ["sm_70", "sm_90a", "sm_120a"])
def test_the_sums_of_digits_give_every_place(target):
    every = [parse(i, target).fragments.values() for i in catalogue(target) if "satfinite" not in i.opcode]
    for fragment in {fragment for fragments in every for fragment in fragments}:
        sums, layout = formulas(fragment), fragment.layout
        digits = dict.fromkeys(layout.sizes, 0)
        for digit, size in layout.sizes.items():
            digits[digit] = size - 1
            value = {name: _value(text, digits) for name, text in sums.items()}
            position = tuple(value[axis] for axis in axes(fragment))
            place = value["lane"], value["register"], value.get("element", 0)
            assert fragment.position(*place) == position, f"{sums} at {digits}"


def _value(text, digits):
    """Work "8 h + g" or "2 f + e div 2" out."""
    text = re.sub(r"\b(\d+) ([a-zA-Z])", r"\1 * \2", text).replace(" div ", " // ").replace(" mod ", " % ")
    return eval(text, {}, digits)  # noqa: S307 - our own text


@BY_OPCODE
def test_a_fragment_as_csv_and_json(instruction):
    for role, fragment in parse(instruction, default_target(instruction.gate)).fragments.items():
        whole = rows(ask(instruction, "--operand", role, "--table", "--format", "csv"))
        assert len(whole) == len(held_by(fragment))
        last = fragment.lanes - 1
        told = json.loads(ask(instruction, "--operand", role, "--lane", last, "--format", "json"))
        assert told["operand"] == role
        assert [(h["lane"], h["register"], h["element"]) for h in told["holdings"]] == [
            (last, register, element)
            for register in range(fragment.registers)
            for element in range(fragment.elements_per_register)
        ]


def test_the_questions_in_text():
    assert "  14         0  31:16\n" in ask(HMMA, "--operand", "a", "--at", "3,5")
    assert "A[1][10-11]" in ask(HMMA, "--operand", "a", "--lane", 5, "--register", 2)
    assert len(rows(ask(HMMA, "--operand", "a", "--register", 2, "--format", "csv"))) == 64
    assert "0-1           0.0  4.0" in ask(HMMA, "--operand", "b", "--table")
    # a broadcast is told with every holder, a batch with every matrix
    assert len(rows(ask(WMMA, "--operand", "a", "--at", "3,5", "--format", "csv"))) == 2
    chunks = rows(ask(SPARSE, "--operand", "e", "--at", "3,2", "--format", "csv"))
    assert [row["selector"] for row in chunks] == ["0", "1", "2", "3"]
    assert "the lowest lane of the 2 that hold it" in ask(WMMA, "--operand", "a")


# Lists ----------------------------------------------------------------------------------------------------------------


def opcodes_of(target):
    return [i.opcode for family in FAMILIES for _, i in family.variants if i.gate.admits(target_named(target))]


@pytest.mark.parametrize("target", some(["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"], 1))
def test_the_catalogue_has_exactly_what_the_target_has(target):
    assert [instruction.opcode for instruction in catalogue(target)] == opcodes_of(target)


@pytest.mark.slow
@pytest.mark.parametrize("target", some(["sm_70", "sm_90a"], 1))
def test_a_list_has_exactly_what_the_target_has(target):
    expected = opcodes_of(target)
    assert [row["opcode"] for row in rows(ask("--target", target, "--format", "csv"))] == expected
    told = json.loads(ask("--target", target, "--format", "json"))
    assert [i["opcode"] for family in told for i in family["instructions"]] == expected
    assert sum(family["forms"] for family in told) == len(expected)
    assert sum(line.forms for line in lines(catalogue(target))) == len(expected)
    assert f"{len(expected):,} forms (target {target})" in ask("--target", target)


def test_filters():
    assert {i.family for i in catalogue("sm_90a", type="f16", shape="m16n8k16")} == {"mma", "mma.sp"}
    assert len(catalogue("sm_90a", ptx="6.5", family="mma")) < len(catalogue("sm_90a", family="mma"))
    assert all("e4m3" in i.opcode for i in catalogue(type="e4m3"))
    assert [i.opcode for i in catalogue(family="movmatrix")] == [MOVE]


def test_without_anything_the_families_are_listed():
    text = ask()
    for family in FAMILIES:
        assert f"\n  {family.name} " in text
        assert family.about, f"{family.name} does not say what it does"
        assert f"{family.size:,}" in text


#: What people type, and what the answer has.
TYPED = {
    "mma": ["(family mma)", "\n  mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32\n"],
    "ldmatrix": ["(family ldmatrix)", "\n  ldmatrix.sync.aligned.m8n8.x1.b16\n"],
    "wmma": ["wmma.load: ", "wmma.store: ", "wmma.mma: "],
    "bar": ["\n  7.8   bar.cta.sync\n", "\n  6.0   bar.arrive\n"],
    "m16n8k16": ["(shape m16n8k16)", "\n  7.1   mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n"],
    "m16n8k16 f16": ["(type f16, shape m16n8k16)", f"\n  7.0   {HMMA}\n"],
    "M16N8K16 f16 f32": ["(type f16 and f32, shape m16n8k16)", f"\n  7.0   {HMMA}\n"],
    "--shape 16x8x16 --type bf16": ["(type bf16, shape m16n8k16)"],
    "mma.sync.aligned.m16n8k16.row": ["(begins with mma.sync.aligned.m16n8k16.row.)"],
    "movmatrix sm_90": [f"\n  7.8   {MOVE}\n"],
    f"{HMMA} A[3][5]": ["  A[3][5]    14         0  31:16\n"],
    f"{HMMA} a[3,5]": ["  A[3][5]    14         0  31:16\n"],
    f"{HMMA} --operand A --at 3,5": ["  A[3][5]    14         0  31:16\n"],
    "m16n8k16 f16 A[3][5]": [
        f"{HMMA.replace('f32', 'f16')}, and 1 more with this layout\n",
        "Operand a on sm_90a: 16 x 16 f16 (row, column)",
        "  A[3][5]    14         0  31:16\n",
        "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16, and 3 more",
    ],
}


@pytest.mark.parametrize("typed", TYPED)
def test_what_people_type_is_answered(typed):
    text = ask(*typed.split())
    for words in TYPED[typed]:
        assert words in text


@pytest.mark.slow
def test_every_line_of_a_list_that_is_an_opcode_can_be_pasted():
    for listed in (["mma"], ["wgmma"], ["--target", "sm_90a"], ["m16n8k16"], ["mbarrier"]):
        lines = re.findall(r"^  (?:[0-9.]+ +)?([^\s[]+\.[^\s[]+)$", ask(*listed), re.MULTILINE)
        assert lines
        for word in lines:
            assert parse(word).opcode == word


def test_one_answer_for_the_instructions_with_one_layout():
    told = rows(ask("m16n8k16", "f16", "A[3][5]", "--format", "csv"))
    assert [(row["opcode"].split(".")[1], row["lane"], row["register"]) for row in told] == [
        ("sync", "14", "0"), ("sp", "14", "0")
    ]  # fmt: skip
    told = json.loads(ask("m16n8k16", "f16", "A[3][12]", "--format", "json"))
    assert len(told) == 1, "the stored half of a sparse A has 8 columns"


# Comparing two --------------------------------------------------------------------------------------------------------


def test_an_instruction_does_not_differ_from_itself():
    for instruction in SAMPLE:
        found = compare(instruction, instruction)
        assert not found.moved
        assert not any(fact.differs for fact in found.facts)
    assert "They are the same." in ask("diff", HMMA, HMMA)


def test_what_tells_two_apart():
    found = compare(HMMA, HMMA.replace("m16n8k16", "m16n8k8"))
    facts = {fact.what: (fact.first, fact.second) for fact in found.facts if fact.differs}
    assert facts["needs PTX"] == ("7.0", "6.5")
    assert facts["a: registers"] == ("4 of 2 elements", "2 of 2 elements")
    assert "arithmetic" in facts
    assert found.common == {"d": 128, "a": 128, "b": 64, "c": 128}
    assert not found.moved, "a short shape is the first half of a long one"


def test_elements_that_stand_elsewhere():
    other = parse(WMMA).fragments["b"]
    moved = {each.position: each for each in compare(HMMA, WMMA).moved if each.role == "b"}
    for row in range(16):
        for column in range(8):
            one, two = parse(HMMA).fragments["b"].holders(row, column), other.holders(row, column)
            assert ((row, column) in moved) == (one != two)
            if one != two:
                assert (moved[row, column].first, moved[row, column].second) == (tuple(one), tuple(two))
    listed = rows(ask("diff", HMMA, WMMA, "--operand", "b", "--format", "csv"))
    assert sum(row["kind"] == "element" for row in listed) == len(moved)
    told = json.loads(ask("diff", HMMA, WMMA, "--format", "json"))
    assert told["opcodes"] == [HMMA, WMMA]
    assert "registers 0 and 4" in ask("diff", HMMA, WMMA)


# Pictures and files ---------------------------------------------------------------------------------------------------


@WITH_MATRICES
@pytest.mark.slow
def test_the_picture_is_svg(instruction, tmp_path):
    assert ET.fromstring(ask(instruction, "--format", "svg")).tag.endswith("svg")  # noqa: S314 - our own text
    role = next(iter(instruction.fragments))
    ask(instruction, "--operand", role, "--lane", 3, "-o", tmp_path / "map.svg")
    assert "Lane 3 holds" in ET.parse(tmp_path / "map.svg").getroot().find("{*}desc").text  # noqa: S314 - likewise


def test_the_files_name_chooses_the_format(tmp_path):
    for name, form, read in (("x.json", "json", json.loads), ("x.CSV", "csv", rows), ("x.txt", "text", str.splitlines)):
        assert ask(HMMA, "-o", tmp_path / name) == f"Wrote {tmp_path / name} ({form}).\n"
        assert read((tmp_path / name).read_text(encoding="utf-8"))
    ask(HMMA, "--format", "json", "-o", tmp_path / "y.csv")
    assert json.loads((tmp_path / "y.csv").read_text(encoding="utf-8"))["opcode"] == HMMA


# Wrong inputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ldmatrx.sync"], "no instruction is called 'ldmatrx'. Did you mean 'ldmatrix'?"),
        ([HMMA, "--target", "sm_75"], "Nearest form there: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"),
        ([HMMA, "--ptx", "6.5"], "was introduced in PTX ISA 7.0; .version 6.5 is too old"),
        ([HMMA, "--operand", "a", "--at", "16,0"], "position 16,0 is not in a; valid: row 0 to 15, column 0 to 15"),
        ([HMMA, "--operand", "a", "--at", "3,-1"], "position 3,-1 is not in a; valid: row 0 to 15, column 0 to 15"),
        ([HMMA, "--operand", "a", "--at", "3"], "position 3 is not in a; valid: row 0 to 15, column 0 to 15"),
        ([HMMA, "--operand", "a", "--at", "x,y"], "--at takes row,column as whole numbers, such as 3,5; got 'x,y'"),
        ([HMMA, "--operand", "a", "--lane", "32"], "lane 32: fragment a has lanes 0 to 31"),
        ([HMMA, "--operand", "a", "--lane", "-1"], "lane -1: fragment a has lanes 0 to 31"),
        ([HMMA, "--operand", "b", "--register", "2"], "register 2: fragment b has registers 0 to 1"),
        ([SPARSE, "--operand", "e", "--register", "1"], "register 1: fragment e has register 0 only"),
        ([SPARSE, "--operand", "e", "--at", "4,0,0"], "selector 0 to 3, row 0 to 15, chunk 0 to 3"),
        ([HMMA, "--operand", "q"], "has no fragment 'q'; it has d, a, b and c"),
        ([UNKNOWN, "--target", "sm_70", "--operand", "a"], "that chip's fragment layouts have not been published"),
        (["--target", "sm_91"], "no target is called 'sm_91'. Did you mean 'sm_90'?"),
        (["--ptx", "8"], "'8' is not a PTX version"),
        (["--family", "mam"], "no instruction has the family 'mam'. Did you mean 'mma'?"),
        (["--type", "f15"], "no instruction has the type 'f15'. Did you mean 'f16'?"),
        (["--shape", "m16n8k17"], "no instruction has the shape 'm16n8k17'. Did you mean"),
        (["--target", "sm_70", "--family", "ldmatrix"], "no instruction matches target sm_70, family ldmatrix"),
        (["--format", "svg"], "there is no picture of this"),
        (["ampere"], "The target of ampere is 'sm_80' or 'sm_86'."),
        (["m64n260k16"], "no instruction has the shape 'm64n260k16'. Did you mean 'm64n256k16'?"),
        (["m16n8k16", "m16n8k8"], "no instruction has more than one shape: m16n8k16 and m16n8k8"),
        (["mma", "Q[1][1]"], "no instruction of family mma has a fragment 'q'; they have d, a, b and c"),
        (["mma", "A[1][1]"], "operand a has 34 layouts; say also which shape, type or family"),
        (["m16n8k16", "bf16", "A[16][0]"], "position 16,0 is not in a; valid: row 0 to 15"),
        (["xyzzy"], "no instruction is called 'xyzzy'"),
        (["mma", "half"], "no number format is called 'half'. Did you mean 'f16'?"),
        (["diff", HMMA, WMMA, "--operand", "e"], "operand 'e' is not in both instructions; in both: d, a, b and c"),
        (["diff", HMMA, WMMA, "--format", "svg"], "there is no picture of this"),
        ([HMMA, "-o", "/nowhere/at/all.csv"], "cannot write /nowhere/at/all.csv: No such file or directory"),
    ],
)
def test_a_mistake_is_told(arguments, message):
    with pytest.raises(TcemuError) as error:
        ask(*arguments)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([HMMA, "--lane", "3"], "--lane needs --operand, the matrix that you ask about"),
        ([HMMA, "--type", "f16"], "--type selects what is listed; leave out the instruction"),
        ([HMMA, "--operand", "a", "--at", "1,1", "--lane", "3"], "one question at a time"),
        (["--table"], "--table needs an instruction to ask about"),
        (["diff", HMMA], "diff takes two instructions"),
        (["diff", HMMA, WMMA, "--lane", "3"], "--lane needs a single instruction"),
        ([HMMA, WMMA], "tcemu isa diff compares two."),
        ([HMMA, "f16"], "'f16' selects what is listed; leave out the instruction"),
        (["A[3][5]"], "--operand needs an instruction to ask about"),
        ([HMMA, "A[3][5]", "--at", "3,5"], "the element in brackets takes the place of --at; leave one out"),
        ([HMMA, "--format", "pdf"], "'pdf' is not one of 'text', 'csv', 'json', 'svg'"),
        ([HMMA, "--operand", "a", "--lane", "five"], "'five' is not a valid integer"),
    ],
)
def test_options_that_do_not_go_together(arguments, message):
    done = CliRunner().invoke(isa, arguments)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.slow
def test_the_command_exits_with_2_and_a_sentence():
    command = [sys.executable, "-m", "tcemu.cli", "isa"]
    wrong = subprocess.run([*command, "mma.sink"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("tcemu: mma.sink: '.sink' is not a qualifier of mma. Did you mean 'sync'?")
    question = [HMMA, "--operand", "a", "--at", "3,5"]
    piped = subprocess.run([*command, *question], capture_output=True, text=True, check=False)
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, GOLDEN_AT, "")


def test_completion():
    def complete(arguments, incomplete):
        context = isa.make_context("isa", [*arguments], resilient_parsing=True)
        parameters = {parameter.name: parameter for parameter in isa.params}
        name = arguments[-1].lstrip("-") if arguments else "words"
        return [item.value for item in parameters[name].shell_complete(context, incomplete)]

    assert complete([], "wmma.l") == ["wmma.load."]
    assert HMMA in complete([], HMMA.removesuffix("2"))
    assert complete(["--target"], "sm_12") == ["sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f"]
    assert complete(["--family"], "mma.") == ["mma.sp", "mma.block_scale"]
    assert tcemu.cli.commands.get_command(None, "isa") is isa


def test_the_command_line_starts_without_rich():
    probe = "import sys, tcemu.cli; print('rich' in sys.modules, 'tcemu.show' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize(
    ("opcode", "cycles"),
    [
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", "433.02"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "35.04"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "6"),
    ],
)
def test_what_an_instruction_costs_is_told_with_the_gpu(opcode, cycles):
    """The numbers are those of the H200 in tcemu/timing/costs: 4-bit integers have no tensor cores there."""
    told = CliRunner().invoke(tcemu.cli.commands, ["isa", opcode, "--target", "H100"]).output
    assert "measured on an NVIDIA H200" in told
    assert re.search(rf"interval +warps 1 +{re.escape(cycles)}\n", told)
    data = json.loads(CliRunner().invoke(tcemu.cli.commands, ["isa", opcode, "--format", "json"]).output)
    assert {"NVIDIA H200"} == {row["gpu"] for row in data["costs"]}
    assert "Cost" not in CliRunner().invoke(tcemu.cli.commands, ["isa", opcode, "--target", "sm_120a"]).output

"""What is an instruction and what is none: the table, its spelling and its gates, and errors that teach."""

import random
import re
import sys
from dataclasses import replace
from itertools import pairwise, permutations

import ask_assembler
import numpy as np
import pytest
from ptxas import VERSIONS
from quick import some, spread, turn
from rows import rows

import tcemu
from tcemu import ArithmeticUnknown, IllegalInstruction, OperandError, TargetError, parse, run
from tcemu.errors import TableError, TcemuError
from tcemu.instructions import FAMILIES, TARGETS, plain
from tcemu.instructions.mma import FAMILY as MMA
from tcemu.instructions.operand import Operand
from tcemu.instructions.spelling import Spelling
from tcemu.instructions.targets import Gate, ptx_version, target_named
from tcemu.manual import named

VARIANTS = {instruction.opcode: instruction for _, instruction in MMA.variants}
HMMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#: Of a family with more variants than this, as atom with its 5,825, some are parsed.
MANY = 500

# The table ------------------------------------------------------------------------------------------------------------


@rows("family", some(FAMILIES, 12), lambda family: family.name)
def test_every_variant_parses_and_prints(family):
    for words, instruction in some(spread(family.variants, 1 + len(family.variants) // MANY), 100):
        assert parse(instruction.opcode) is instruction
        assert parse(f"  {instruction.opcode} ;\n") is instruction
        assert parse(instruction) is instruction
        assert str(instruction) == instruction.opcode
        assert family.spelling.write(words) == instruction.opcode
        assert family.spelling.read(instruction.opcode) == words
        assert instruction.opcode in repr(instruction)
        assert instruction.gate.ptx in repr(instruction)
        assert instruction.section[0].isdigit()


def test_an_instruction_is_what_its_opcode_spells():
    for opcode, instruction in VARIANTS.items():
        words = opcode.split(".")
        assert str(instruction.shape) in words
        assert opcode.startswith(
            f"mma.sync.aligned.m{instruction.shape.m}n{instruction.shape.n}k{instruction.shape.k}."
        )
        formats = [word for word in words if word in tcemu.formats.FORMATS]
        assert [instruction.types[role].name for role in "dabc"] == formats
        assert {role: fragment.format for role, fragment in instruction.fragments.items()} == dict(instruction.types)
        m, n, k = instruction.shape
        batch = (4,) if "m8n8k4" in opcode and ".f16.f16." in opcode else ()
        shapes = {"a": (*batch, m, k), "b": (*batch, k, n), "c": (*batch, m, n), "d": (*batch, m, n)}
        assert {role: fragment.shape for role, fragment in instruction.fragments.items()} == shapes


def test_qualifiers_may_stand_in_any_order():
    rng = random.Random(5)
    for opcode in VARIANTS:
        words = opcode.split(".")[1:]
        types = iter([word for word in words if word in tcemu.formats.FORMATS])
        layouts = iter([word for word in words if word in ("row", "col")])
        rng.shuffle(words)
        # operands keep their order: d a b c, and A's layout before B's
        words = [
            next(types) if w in tcemu.formats.FORMATS else next(layouts) if w in ("row", "col") else w for w in words
        ]
        assert str(parse(".".join(["mma", *words]))) == opcode


def test_every_order_of_one_opcode():
    fixed = ["sync", "aligned", "m8n8k16", "satfinite"]
    expected = "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32"
    for order in permutations(fixed):
        assert str(parse(f"mma.{'.'.join(order)}.row.col.s32.s8.u8.s32")) == expected
        assert str(parse(f"mma.s32.row.s8.{'.'.join(order)}.u8.s32.col")) == expected


def test_instructions_are_values():
    assert parse(HMMA) == parse(HMMA)
    assert len({parse(HMMA), parse(f"{HMMA};"), parse("mma.aligned.sync.m16n8k16.row.col.f32.f16.f16.f32")}) == 1
    assert parse(HMMA) != HMMA


def test_a_table_that_contradicts_itself_is_refused_when_it_is_asked():
    twice = replace(MMA, written=(*MMA.rows, MMA.rows[3]))
    for ask in (lambda: twice.rows, lambda: twice.variants, lambda: twice.size, lambda: twice.find(parse(HMMA).words)):
        with pytest.raises(TableError, match="two rows of mma spell the same instruction"):
            ask()
    turned = replace(MMA.rows[-1], slots={**MMA.rows[-1].slots, "op": ("xor", "and")})
    with pytest.raises(TableError, match="two rows of mma spell the same instruction"):
        replace(MMA, written=(*MMA.rows[:-1], turned)).nearest({})
    unlike = replace(MMA, make=lambda words, row, opcode: MMA.make({**words, "satfinite": "satfinite"}, row, opcode))
    with pytest.raises(TableError, match="does not read back as"):
        unlike.find(parse(HMMA).words)
    with pytest.raises(TableError, match="slots and vocabularies differ"):
        Spelling("mma.{shape}", {"size": ("m8n8k4",)})


def test_no_table_contradicts_itself(row):
    for family in FAMILIES:
        with row(family.name):
            assert replace(family).rows == family.written  # the copy has not been asked yet


# Legality: test_legality.py, and here what is none -------------------------------------------------------------------


def test_what_the_assembler_takes_and_forgets_is_refused():
    for types in ("bf16.bf16", "tf32.tf32"):
        for layouts in ("row.row", "row.col", "col.row", "col.col"):
            with pytest.raises(IllegalInstruction) as error:
                parse(f"mma.sync.aligned.m8n8k4.{layouts}.f32.{types}.f32")
            for words in (
                "The assembler accepts it",
                "emits no instruction",
                "D would keep its old value",
                "Nearest legal form: mma.",
            ):
                assert words in str(error.value)


def neighbours(words, rng, count):
    """Opcodes that differ from a legal one by one or two words of the vocabulary, a word more or a word less."""
    slots = list(MMA.spelling.vocabulary)
    for _ in range(count):
        changed = dict(words)
        for slot in rng.sample(slots, rng.choice((1, 1, 2))):
            word = rng.choice(("", *MMA.spelling.vocabulary[slot]))
            changed.pop(slot, None)
            if word:
                changed[slot] = word
        yield changed


def check_refusals(variants, count):
    legal = {frozenset(words.items()) for words, _ in MMA.variants}
    rng = random.Random(11)
    for words, _ in variants:
        for changed in neighbours(words, rng, count):
            opcode = MMA.spelling.write({slot: changed.get(slot, "") for slot in MMA.spelling.vocabulary}).replace(
                "..", "."
            )
            if frozenset(changed.items()) in legal:
                assert MMA.spelling.read(parse(opcode).opcode) == changed
                continue
            with pytest.raises(IllegalInstruction) as error:
                parse(opcode)
            assert opcode in str(error.value)
            assert "PTX ISA 9.1, 9.7.14.5.14" in str(error.value)


@pytest.mark.slow
def test_what_is_not_in_the_table_is_refused():
    check_refusals(some(MMA.variants, 60), 4)


@pytest.mark.slow
def test_much_that_is_not_in_the_table_is_refused():
    check_refusals(spread(MMA.variants, 4, first=turn(4)), 12)


@pytest.mark.slow
def test_the_whole_product_of_the_vocabulary():
    """Words alone, without spelling: legal means present, so what is present must be what the assembler takes."""
    opcodes = [opcode for opcode in ask_assembler.read() if opcode in VARIANTS]
    legal = {frozenset(MMA.spelling.read(opcode).items()) for opcode in opcodes}
    choices = [
        [None, *words] if slot in ("kind", "satfinite", "rounding", "op") else words
        for slot, words in MMA.spelling.vocabulary.items()
    ]
    slots = tuple(MMA.spelling.vocabulary)
    rng = random.Random(3)
    for _ in spread(range(1_500), 3):
        words = {slot: word for slot, word in zip(slots, (rng.choice(some) for some in choices), strict=True) if word}
        if frozenset(words.items()) in legal:
            assert MMA.find(words).opcode in VARIANTS
        else:
            with pytest.raises(IllegalInstruction, match=r"Nearest legal form: mma\.sync"):
                MMA.find(words)


# Targets and versions -------------------------------------------------------------------------------------------------


def test_three_kinds_of_targets():
    # plain: this chip and every later one, the others' a and f targets included
    onion = Gate("7.0", ("sm_80",))
    assert [name for name in TARGETS if not onion.admits(target_named(name))] == ["sm_70", "sm_72", "sm_75"]
    # a: this target alone
    assert [name for name in TARGETS if Gate("8.0", ("sm_90a",)).admits(target_named(name))] == ["sm_90a"]
    # f: the family from this chip on, under a target that promises the family or the chip
    family = Gate("8.8", ("sm_120f",))
    assert [name for name in TARGETS if family.admits(target_named(name))] == [
        "sm_120a",
        "sm_120f",
        "sm_121a",
        "sm_121f",
    ]
    hundred = Gate("8.8", ("sm_100f",))
    assert hundred.admits(target_named("sm_103f"))
    assert not any(hundred.admits(target_named(name)) for name in ("sm_103", "sm_90a", "sm_110a", "sm_120a", "sm_120f"))
    later = Gate("8.8", ("sm_103f",))
    assert not later.admits(target_named("sm_100a"))
    assert not later.admits(target_named("sm_100f"))
    assert later.admits(target_named("sm_103a"))


def test_targets_have_the_names_that_ptx_gives_them():
    assert set(ask_assembler.TARGETS) <= set(TARGETS)
    for name, target in TARGETS.items():
        assert str(target) == name
        assert target_named(name) is target
    assert "sm_89a" not in TARGETS
    assert "sm_90f" not in TARGETS


def test_versions_are_numbers_and_not_text():
    assert ptx_version("10.0") > ptx_version("9.1") > ptx_version("8.7")
    for earlier, later in pairwise(VERSIONS):
        assert ptx_version(earlier) < ptx_version(later)
    assert parse(HMMA, target="sm_80", ptx="10.0") is parse(HMMA)


# Errors: the opcode ---------------------------------------------------------------------------------------------------

#: What is asked, and what the answer must say.
BAD_OPCODES = {
    "a misspelt opcode": ("mmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ["'mmma'", "Did you mean 'mma'?"]),
    "no such opcode": ("add.f32", ["PTX has add; kernels in CUDA C++ and PTX execute it"]),
    "capitals": (HMMA.upper(), ["PTX is written in lower case", f"Nearest legal form: {HMMA} (PTX"]),
    "no .aligned": (HMMA.replace(".aligned", ""), [".aligned is missing", "mandatory"]),
    "no .sync": (HMMA.replace(".sync", ""), [".sync is missing", "mandatory"]),
    "two .sync": (HMMA.replace(".sync", ".sync.sync"), ["there is one .sync too many", "has it only once"]),
    "a misspelt qualifier": (
        HMMA.replace("aligned", "aligneed"),
        ["'.aligneed' is not a qualifier of mma", "Did you mean 'aligned'?"],
    ),
    "a misspelt shape": (
        HMMA.replace("m16n8k16", "m16n8k17"),
        ["'.m16n8k17' is not a qualifier of mma", "Did you mean 'm16n8k1"],
    ),
    "a misspelt type": (
        HMMA.replace(".f16.f16", ".bf16.bf61"),
        ["'.bf61' is not a qualifier of mma", "Did you mean 'bf16'?"],
    ),
    "a strange qualifier": (HMMA + ".wobble", ["'.wobble' is not a qualifier of mma"]),
    "no shape": (HMMA.replace(".m16n8k16", ""), ["the .shape qualifier is missing", ".m8n8k4", "or .m"]),
    "no layouts": (HMMA.replace(".row.col", ""), ["the .alayout qualifier is missing", ".row or .col"]),
    "one layout": (HMMA.replace(".row.col", ".row"), ["the .blayout qualifier is missing", ".row or .col"]),
    "three layouts": (HMMA.replace(".row", ".row.row"), ["there is one .col too many", ".alayout and .blayout"]),
    "three types": (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16",
        ["the .ctype qualifier is missing", ".f16", ".f32", ".f64 or .s32"],
    ),
    "five types": (HMMA + ".f16", ["there is one .f16 too many", ".dtype, .atype, .btype and .ctype"]),
    "B by rows": (
        HMMA.replace("col", "row"),
        ["Only m8n8k4 of f16 has other layouts", "ldmatrix .trans", f"Nearest legal form: {HMMA}"],
    ),
    "A by columns": (
        HMMA.replace("row", "col"),
        ["Only m8n8k4 of f16 has other layouts", f"Nearest legal form: {HMMA}"],
    ),
    "another shape's type": (
        HMMA.replace(".f16.f16", ".e4m3.e4m3").replace("k16", "k8"),
        [".m16n8k8 cannot be combined", ".shape must be .m16n8k32 or .m16n8k16"],
    ),
    "types that differ": (
        HMMA.replace(".f16.f16", ".f16.bf16"),
        [".bf16 cannot be combined with the other qualifiers", ".btype must be .f16", f"Nearest legal form: {HMMA}"],
    ),
    "accumulators that differ": (
        HMMA.replace(".f32.f16", ".f16.f16"),
        ["cannot be combined with the other qualifiers", ".dtype must be .f32"],
    ),
    "a rounding of f16": (
        HMMA.replace("col", "col.rz"),
        [".rz cannot be combined with the other qualifiers", ".rounding must be absent", f"Nearest legal form: {HMMA}"],
    ),
    "satfinite of f16": (HMMA.replace("col", "col.satfinite"), ["cannot be combined", ".satfinite must be absent"]),
    "f64 of m16n8k32": (
        "mma.sync.aligned.m16n8k32.row.col.f64.f64.f64.f64",
        [".m16n8k32 cannot be combined", ".shape must be .m8n8k4, .m16n8k4, .m16n8k8 or .m16n8k16"],
    ),
    "fp6 without its kind": (
        "mma.sync.aligned.m16n8k32.row.col.f32.e3m2.e2m1.f32",
        ["The .kind qualifier is missing", ".kind must be .kind::f8f6f4"],
    ),
    "fp6 of k16": (
        "mma.sync.aligned.m16n8k16.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
        [".m16n8k16 cannot be combined", ".shape must be .m16n8k32"],
    ),
    "b1 without its operation": (
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32",
        ["The .op qualifier is missing", ".op must be .xor or .and"],
    ),
    "b1 without .popc": (
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor",
        [".popc and .xor or .and must occur together"],
    ),
    ".popc alone": (HMMA + ".popc", [".popc and .xor or .and must occur together"]),
    "an empty qualifier": (HMMA.replace(".sync", "..sync"), ["a qualifier is missing: there are two dots"]),
    "a dot at the end": (HMMA + ".", ["a qualifier is missing: there are two dots"]),
    "operands in the text": (
        HMMA + " {%f0,%f1}, {%r0}, {%r1}, {%f0,%f1};",
        ["give only the opcode", "operands are separate arguments", "e.g. 'mma."],
    ),
    "an empty text": ("", ["an empty string is not an instruction"]),
    "a blank text": (" \t\n;", ["an empty string is not an instruction"]),
    "nothing": (None, ["an instruction must be a string", "e.g. 'mma.", "NoneType"]),
    "bytes": (HMMA.encode(), ["an instruction must be a string", "bytes"]),
    "a number": (5, ["must be a string", "int"]),
    "numpy's number": (np.float32(5), ["must be a string", "float32"]),
    "a list": ([HMMA], ["must be", "list"]),
    "an array": (np.zeros(3), ["must be", "ndarray"]),
}


@pytest.mark.parametrize("mistake", BAD_OPCODES)
def test_an_opcode_that_is_none_is_explained(mistake):
    text, words = BAD_OPCODES[mistake]
    for ask in (parse, lambda text: run(text, None, None, None)):
        with pytest.raises(IllegalInstruction) as error:
            ask(text)
        message = str(error.value)
        for word in words:
            assert word in message
        if isinstance(text, str) and text.startswith("mma.") and " " not in text:
            assert message.startswith(f"{text}: ")  # what was asked
            assert re.search(r"(Nearest legal form|The nearest form .* needs .*): mma\.sync\.aligned\.", message)
            assert message.endswith(f"({named('9.7.14.5.14')})")


@pytest.mark.parametrize(
    ("text", "slot", "nearest"),
    [
        (HMMA.replace("k16", "k12"), ".shape must be .m8n8k4, .m16n8k8", HMMA),
        (HMMA.replace("f16.f16", "f61.f16"), ".atype must be .f16, .bf16", HMMA),
        (HMMA.replace("f16.f16", "bf16.bf61"), ".btype must be .f16, .bf16", HMMA.replace("f16.f16", "bf16.bf16")),
        (
            "mma.sp::ordered.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
            "'.sp::ordered' is not a qualifier of mma.",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x3.shared.b16",
            ".num must be .x1, .x2 or .x4",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16",
            ".shape must be, for example, .m64n16k16",
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n7k16.f32.f16.f16",
            "Did you mean 'm64n8k16'?",
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        ),
    ],
)
def test_a_misspelt_word_is_told_its_slot_and_the_nearest_form(text, slot, nearest):
    with pytest.raises(IllegalInstruction) as error:
        parse(text)
    assert slot in str(error.value)
    assert f"Nearest legal form: {nearest} (PTX ISA 9.1, 9.7.1" in str(error.value)


def test_numpys_text_is_text():
    assert parse(np.str_(HMMA)) is parse(HMMA)


@pytest.mark.parametrize("text", ["x" * 100_000, "mma." + "x" * 100_000, "mma" + ".sync" * 20_000, HMMA + "." * 50_000])
def test_a_message_stays_readable_whatever_is_asked(text):
    for ask in (
        lambda: parse(text),
        lambda: parse(HMMA, target=text),
        lambda: parse(HMMA, ptx=text),
        lambda: tcemu.formats.lookup(text),
    ):
        with pytest.raises(TcemuError) as error:
            ask()
        assert len(str(error.value)) < 1000


# Errors: the target and the version -----------------------------------------------------------------------------------

FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"
FP6 = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32"
KIND = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32"
F64 = "mma.sync.aligned.m16n8k16.row.col.rz.f64.f64.f64.f64"

BAD_TARGETS = {
    "an architecture too old": (
        HMMA,
        "sm_75",
        IllegalInstruction,
        [
            "does not exist on sm_75",
            "it needs sm_80 or later",
            "Nearest form there: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        ],
    ),
    "with nothing near": (
        FP8,
        "sm_80",
        IllegalInstruction,
        ["does not exist on sm_80", "it needs sm_89 or later", "sm_80 has no such instruction with these types"],
    ),
    "f64 before Hopper": (
        F64,
        "sm_89",
        IllegalInstruction,
        ["it needs sm_90 or later", "Nearest form there: mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64"],
    ),
    "a feature of another family": (FP6, "sm_100a", IllegalInstruction, ["does not exist on sm_100a", "sm_120f"]),
    "a feature of a later chip": (FP6, "sm_90a", IllegalInstruction, ["does not exist on sm_90a", "sm_120f"]),
    "an a target is not forward compatible": (
        KIND,
        "sm_90a",
        IllegalInstruction,
        [
            "does not exist on sm_90a",
            "sm_100f (also sm_100a, sm_103a and sm_107a)",
            f"Nearest form there: {KIND.replace('.kind::f8f6f4', '')}",
        ],
    ),
    "a plain target": (
        KIND,
        "sm_120",
        IllegalInstruction,
        ["does not exist on sm_120", "sm_120f (also sm_120a and sm_121a)", "Compile for sm_120a: sm_120 has only"],
    ),
    "a misspelt target": (
        HMMA,
        "sm90",
        TargetError,
        ["no target is called 'sm90'", "Did you mean 'sm_90'?", "The targets are sm_70, sm_72"],
    ),
    "an a target that is none": (
        HMMA,
        "sm_89a",
        TargetError,
        ["no target is called 'sm_89a'", "Did you mean 'sm_89'?"],
    ),
    "a virtual architecture": (HMMA, "compute_90", TargetError, ["no target is called 'compute_90'"]),
    "capitals": (HMMA, "SM_90", TargetError, ["no target is called 'SM_90'", "The targets are"]),
    "an empty target": (HMMA, "", TargetError, ["no target is called ''", "The targets are"]),
    "a number": (HMMA, 90, TargetError, ["a target must be a string, e.g. 'sm_90a'", "int"]),
    "a pair": (HMMA, (9, 0), TargetError, ["a target must be a string", "tuple"]),
}


@pytest.mark.parametrize("mistake", BAD_TARGETS)
def test_a_target_without_the_instruction_is_explained(mistake):
    opcode, target, error, words = BAD_TARGETS[mistake]
    for ask in (lambda: parse(opcode, target=target), lambda: run(opcode, None, None, None, target=target)):
        with pytest.raises(error) as caught:
            ask()
        for word in words:
            assert word in str(caught.value)
        if error is IllegalInstruction:
            assert str(caught.value).startswith(f"{opcode} does not exist on {target}")
            assert f"{named('9.7.14.5.14')}, Target ISA Notes" in str(caught.value)


@pytest.mark.parametrize("target", [None, ["sm_90"], {}, np.zeros(2)], ids=["None", "a list", "a dict", "an array"])
def test_run_needs_a_target_in_words(target):
    with pytest.raises(TcemuError, match="must be"):
        run(HMMA, None, None, None, target=target)


BAD_VERSIONS = {
    "too old": (
        "6.5",
        IllegalInstruction,
        [HMMA, "was introduced in PTX ISA 7.0", ".version 6.5 is too old", f"{named('9.7.14.5.14')}, PTX ISA Notes"],
    ),
    "in words": ("seven", TargetError, ["'seven' is not a PTX version", "e.g. '8.7'"]),
    "of one number": ("8", TargetError, ["'8' is not a PTX version", "e.g. '8.7'"]),
    "of three numbers": ("8.7.1", TargetError, ["'8.7.1' is not a PTX version"]),
    "negative": ("-8.7", TargetError, ["is not a PTX version"]),
    "in other digits": ("٨.٧", TargetError, ["is not a PTX version"]),
    "empty": ("", TargetError, ["'' is not a PTX version"]),
    "a number": (8.7, TargetError, ["a PTX version must be a string, e.g. '8.7'", "float"]),
    "a pair": ((8, 7), TargetError, ["a PTX version must be a string", "tuple"]),
}


@pytest.mark.parametrize("mistake", BAD_VERSIONS)
def test_a_version_without_the_instruction_is_explained(mistake):
    version, error, words = BAD_VERSIONS[mistake]
    with pytest.raises(error) as caught:
        parse(HMMA, ptx=version)
    for word in words:
        assert word in str(caught.value)


# Errors: the operands -------------------------------------------------------------------------------------------------


def zeros(*shape, dtype=np.uint32):
    return np.zeros(shape, dtype)


A, B, C = zeros(32, 4), zeros(32, 2), zeros(32, 4)

BAD_OPERANDS = {
    "none": ((), ["takes registers of A, B and C, and returns D", "got 0 operands"]),
    "too few": ((A, B), ["takes registers of A, B and C", "got 2 operands"]),
    "D among them": ((C, A, B, C), ["takes registers of A, B and C", "got 4 operands"]),
    "too few registers": (
        (A, zeros(32, 1), C),
        [
            "operand b (f16) must be uint32 registers of shape (..., 32, 2)",
            "1 register a lane where 2 are needed",
            "4 elements a lane, 2 to a register",
        ],
    ),
    "too many registers": (
        (A, B, zeros(32, 8)),
        ["operand c (f32) must be uint32 registers of shape (..., 32, 4)", "8 registers a lane where 4 are needed"],
    ),
    "A and B exchanged": ((B, A, C), ["operand a (f16)", "2 registers a lane where 4 are needed"]),
    "16 lanes": (
        (zeros(16, 4), B, C),
        ["operand a", "got shape (16, 4)", "16 lanes", "a warp has 32 lanes, and every lane takes part"],
    ),
    "64 lanes": ((A, B, zeros(64, 4)), ["operand c", "64 lanes", "a warp has 32"]),
    "transposed": (
        (zeros(4, 32), B, C),
        ["operand a", "got shape (4, 32)", "Lanes come first, then registers: transpose it"],
    ),
    "one lane": ((zeros(4), B, C), ["operand a", "got shape (4,)", "The last two axes are lanes and registers"]),
    "floats": ((A, B, zeros(32, 4, dtype=np.float32)), ["operand c (f32) must be uint32", "got dtype float32"]),
    "a matrix": (
        (zeros(16, 16, dtype=np.float16), B, C),
        ["operand a (f16) must be uint32", "got dtype float16", "Fragment.pack"],
    ),
    "64-bit registers": ((A, B.astype(np.uint64), C), ["operand b (f16) must be uint32", "got dtype uint64", "astype"]),
    "signed registers": ((A, B.astype(np.int32), C), ["operand b (f16) must be uint32", "got dtype int32", "view"]),
    "lists": ((A.tolist(), B, C), ["operand a (f16) must be uint32", f"got dtype {np.dtype(int)}", "astype"]),
    "nothing": ((A, None, C), ["operand b (f16) must be uint32", "got dtype object"]),
    "words": (("a", B, C), ["operand a (f16) must be uint32", "got dtype <U1"]),
    "ragged lists": ((A, B, [[1], [1, 2]]), ["operand c: not an array of registers"]),
    "warps that do not fit": (
        (zeros(3, 32, 4), zeros(2, 32, 2), C),
        [HMMA, "do not broadcast", "a (3,)", "b (2,)", "c ()"],
    ),
}
if sys.maxsize > 2**32:  # numpy describes no such arrays with 32 bits
    BAD_OPERANDS |= {
        "more warps than memory": (
            (np.broadcast_to(A, (10**14, 32, 4)), B, C),
            [HMMA, f"D of {10**14} warps takes {512 * 10**14} bytes"],
        ),
        "more warps than numbers": (
            (np.broadcast_to(A, (10**9, 1, 32, 4)), np.broadcast_to(B, (10**9, 32, 2)), C),
            [f"{10**18} warps"],
        ),
    }


@pytest.mark.parametrize("mistake", BAD_OPERANDS)
def test_operands_that_do_not_fit_are_explained(mistake):
    operands, words = BAD_OPERANDS[mistake]
    with pytest.raises(OperandError) as error:
        run(HMMA, *operands)
    for word in (HMMA, "PTX ISA 9.1, 9.7.14.5.14", *words):
        assert word in str(error.value)


def test_f64_takes_registers_of_64_bits():
    opcode = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
    with pytest.raises(
        OperandError, match=r"operand a \(f64\) must be uint64 registers of shape \(\.\.\., 32, 1\); got dtype uint32"
    ):
        run(opcode, zeros(32, 1), zeros(32, 1), zeros(32, 2))
    wide = np.zeros((32, 1), np.uint64)
    assert run(opcode, wide, wide, np.zeros((32, 2), np.uint64)).dtype == np.uint64


@pytest.mark.parametrize("name", ["shared", "memory"])
def test_mma_has_no_use_for_memory(name):
    with pytest.raises(OperandError) as error:
        run(HMMA, A, B, C, **{name: np.zeros(1024, np.uint8)})
    for word in (HMMA, f"{name}=", "registers only"):
        assert word in str(error.value)


def test_what_nobody_knows_is_said_and_not_guessed():
    from tcemu.arithmetic import find

    with pytest.raises(ArithmeticUnknown) as error:
        find(70, "mma", "m16n8k32", "e4m3", "e4m3", "f32", "f32")
    for word in ("it is not known", "sm_70", "m16n8k32", "e4m3", "it is known for sm_89"):
        assert word in str(error.value)


def test_a_family_brings_the_roles_that_it_alone_has():
    roles = {"taddr": Operand("taddr", "value", registers=1), "d_x2": Operand("d", "value", registers=2)}
    rows = [plain.one("8.6", "sm_100", num="x2")]
    loads = plain.family("tload", "tload.{num}", "9.7.16", rows, signature="d_{num} = taddr", roles=roles)
    ((_, made),) = loads.variants
    told = [(each.role, each.registers, each.direction) for each in made.operands]
    assert told == [("d", 2, "out"), ("taddr", 1, "in")]
    ((_, lost),) = replace(loads, roles={}).variants
    with pytest.raises(TableError, match=r"no row of ROLES and none of the family's roles is called d_x2"):
        lost.operands  # noqa: B018 - reading it raises

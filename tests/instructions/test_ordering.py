"""wgmma.fence, commit_group and wait_group, fence.proxy.async: legal forms, and errors that say where to use them."""

import assembler
import numpy as np
import pytest
from click.testing import CliRunner

import tcemu
from tcemu import IllegalInstruction, OperandError, parse
from tcemu.commands.isa import isa
from tcemu.instructions import FAMILIES
from tcemu.instructions.catalogue import catalogue
from tcemu.instructions.explain import explain
from tcemu.instructions.ordering import COMMIT, FENCE, PROXY, WAIT
from tcemu.live import Device
from tcemu.live.runner.families import recordable

ORDERING = (FENCE, COMMIT, WAIT, PROXY)
FORMS = [instruction for family in ORDERING for _, instruction in family.variants]
WAITS = "wgmma.wait_group.sync.aligned"
#: Lowest PTX version and targets, by ptxas 13.5; fence.proxy.async.shared::cluster by ptxas 13.0.
FROM_90 = "sm_90 sm_90a sm_100 sm_100a sm_100f sm_103a sm_107a sm_110a sm_120 sm_120a sm_120f sm_121a sm_121f"
LEGAL = {
    "wgmma.fence.sync.aligned": "sm_90a",
    "wgmma.commit_group.sync.aligned": "sm_90a",
    "wgmma.wait_group.sync.aligned": "sm_90a",
    "fence.proxy.async": FROM_90,
    "fence.proxy.async.shared::cta": FROM_90,
    "fence.proxy.async.shared::cluster": FROM_90,
    "fence.proxy.async.global": FROM_90,
}


# Legality -------------------------------------------------------------------------------------------------------------


def test_the_forms_are_those_that_the_assembler_takes():
    assert {form.opcode for form in FORMS} == set(LEGAL)
    for opcode, targets in LEGAL.items():
        assert [name for name in assembler.ASKED if assembler.accepted(opcode, target=name)] == targets.split()
        assert parse(opcode, ptx="8.0").opcode == opcode
        with pytest.raises(IllegalInstruction, match=r"was introduced in PTX ISA 8\.0"):
            parse(opcode, ptx="7.8")


def test_qualifiers_in_any_order():
    assert parse("wgmma.fence.aligned.sync") is parse("wgmma.fence.sync.aligned")
    assert parse("fence.proxy.global.async;") is parse("fence.proxy.async.global")


@pytest.mark.parametrize(
    ("opcode", "words"),
    [
        ("wgmma.fence.sync", [".aligned is missing; it is mandatory", "form: wgmma.fence.sync.aligned", "9.7.15.7.1"]),
        ("wgmma.wait_group.aligned", [".sync is missing", "9.7.15.7.3"]),
        ("wgmma.wait_group.sync.aligned 0", ["give only the opcode", "operands are separate arguments"]),
        ("wgmma.commit.sync.aligned", ["wgmma is followed by .commit_group, .fence, .mma_async or .wait_group"]),
        ("fence.proxy", ["the .proxy qualifier is missing", "form: fence.proxy.alias", "9.7.13.4"]),
        ("fence.proxy.async.shared", ["Did you mean 'shared::cta'?", ".space must be .shared::cta"]),
        ("fence.proxy.async.global.global", ["there is one .global too many"]),
        ("fence.acq_rel", ["qualifier is missing; it must be .cta, .gpu, .sys or .cluster", "fence.acq_rel.cta"]),
    ],
)
def test_what_is_refused(opcode, words):
    with pytest.raises(IllegalInstruction) as error:
        parse(opcode)
    for word in words:
        assert word in str(error.value)


def test_a_target_that_lacks_it():
    with pytest.raises(IllegalInstruction, match=r"needs sm_90a \(.* 9\.7\.15\.7\.1.*, Target ISA Notes\)\.$"):
        parse("wgmma.fence.sync.aligned", target="sm_100a")


# What an instruction without registers is -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_there_is_nothing_but_the_order(form):
    assert dict(form.fragments) == dict(form.types) == {}
    assert str(form.shape) == ""
    assert form.lanes == (128 if form.opcode.startswith("wgmma") else 1)
    assert repr(form) == f"<{form.opcode}: no registers; PTX 8.0, {form.gate.targets}>"
    told = explain(form)
    assert told.arithmetic is None
    assert told.rules
    assert not told.layouts
    assert not told.unknown
    assert [operand.name for operand in told.operands] == (["N"] if form.opcode == WAITS else [])


def test_what_the_machine_asks():
    spaces = {form.words.get("space", ""): form.facts.spaces for form in FORMS if form.family == PROXY.name}
    assert spaces == {
        "": ("shared", "global"), "shared::cta": ("shared",), "shared::cluster": ("shared",), "global": ("global",),
    }  # fmt: skip
    assert [operand.kind for operand in parse(WAITS).operands] == ["immediate"]
    assert parse("fence.proxy.async").operands == ()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_alone_it_is_refused_with_where_it_belongs(form):
    operands = [0] * (form.opcode == WAITS)
    target = "sm_90a"
    with pytest.raises(OperandError, match=r"only has a meaning in a kernel; .* tcemu\.launch"):
        tcemu.run(form, *operands, target=target)
    with pytest.raises(OperandError, match="does not take shared="):
        tcemu.run(form, *operands, target=target, shared=np.zeros(16, np.uint8))
    with pytest.raises(OperandError, match="takes"):
        tcemu.matmul(np.zeros((64, 16)), np.zeros((16, 8)), instruction=form)


def test_no_gpu_is_asked_for_one():
    h200 = Device("NVIDIA H200", (9, 0), 13000, "", 232448)
    assert not {family.name for family in ORDERING} & {instruction.family for instruction in recordable(h200)}


# tcemu isa ------------------------------------------------------------------------------------------------------------


def ask(*arguments):
    return CliRunner().invoke(isa, arguments)


@pytest.mark.parametrize("family", ORDERING, ids=lambda family: family.name)
def test_a_list_names_the_instructions(family):
    assert [form.opcode for form in catalogue(family=family.name)] == [form.opcode for _, form in family.variants]
    text = ask("--family", family.name).output
    assert all(form.opcode in text for _, form in family.variants)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kind", ["text", "json", "csv"])
def test_one_is_explained(form, kind):
    done = ask(form.opcode, "--format", kind)
    assert done.exit_code == 0, done.exception
    if kind != "csv":
        assert form.section in done.output
    if kind == "text":
        assert "Who holds what" not in done.output
        assert "Rules" in done.output


def test_there_is_no_picture_and_no_fragment():
    assert "there is no picture of this" in str(ask(FENCE.name + ".sync.aligned", "--format", "svg").exception)
    assert "has no fragment 'a'; it has nothing" in str(ask("fence.proxy.async", "--operand", "a").exception)


def test_two_compared():
    done = ask("diff", "fence.proxy.async.global", WAITS)
    assert done.exit_code == 0
    assert "needs target" in done.output
    assert "Element by element" not in done.output


def test_no_shape_is_no_shape():
    with pytest.raises(IllegalInstruction, match=r"has the shape ''\. There are \d+, for example m8n8k4"):
        catalogue(shape="")


def test_the_families_stand_in_the_table():
    assert set(ORDERING) <= set(FAMILIES)

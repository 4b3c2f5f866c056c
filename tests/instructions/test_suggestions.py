"""What an error suggests for a misspelt opcode: a legal form of the same family, the same everywhere."""

import re
import string

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

import tcemu
import tcemu.cli
from tcemu.instructions import FAMILIES
from tcemu.instructions.table import family_of

#: Word for word what these were suggested for other families once.
MISSPELT = {
    "barrier.cluster.arrve": "barrier.cluster.arrive",
    "barrier.cluster.wwait": "barrier.cluster.wait",
    "match.al.sync.b32": "match.all.sync.b32",
    "cvta.too.shared.u64": "cvta.to.shared.u64",
    "bar.snc": "bar.sync",
    "st.bu4k": "st.bulk",
    "cp.async.bullk.wait_group.read": "cp.async.bulk.wait_group.read",
    "mbarrier.arrive.expect_tx.shared:cta.b64": "mbarrier.arrive.expect_tx.shared::cta.b64",
    "wgmma.commit_group.sync.alinged": "wgmma.commit_group.sync.aligned",
    "wgmma.mma.sync.aligned.m64n128k16.f32.f16.f16": "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
}


def suggested(text):
    """The nearest legal form and the word that an error suggests; the word is None if there is no such hint."""
    with pytest.raises(tcemu.IllegalInstruction) as error:
        tcemu.parse(text)
    form = re.search(r"Nearest legal form: (\S+)", str(error.value))
    word = re.search(r"Did you mean '([^']+)'\?", str(error.value))
    assert form, str(error.value)
    return form[1], word and word[1]


@pytest.mark.parametrize("text", MISSPELT)
def test_a_misspelt_opcode_leads_to_what_was_meant(text):
    form, _ = suggested(text)
    assert form == MISSPELT[text]


@st.composite
def misspelt(draw):
    """A legal opcode and the same with one letter of one word lost, doubled, replaced, or two exchanged."""
    family = draw(st.sampled_from(FAMILIES))
    opcode = draw(st.sampled_from(family.variants))[1].opcode
    words = opcode.split(".")
    at = draw(st.integers(1, len(words) - 1)) if len(words) > 1 else 0
    word = words[at]
    place = draw(st.integers(0, max(len(word) - 2, 0)))
    changed = draw(
        st.sampled_from(
            [
                word[:place] + word[place + 1 :],
                word[:place] + word[place : place + 1] + word[place:],
                word[:place] + draw(st.sampled_from(string.ascii_lowercase + string.digits)) + word[place + 1 :],
                word[:place] + word[place + 1 : place + 2] + word[place : place + 1] + word[place + 2 :],
            ]
        )
    )
    return opcode, ".".join([*words[:at], changed, *words[at + 1 :]])


@examples(200)
@given(misspelt())
def test_a_suggestion_is_legal_and_of_the_same_family(pair):
    opcode, text = pair
    try:
        tcemu.parse(text)
    except tcemu.IllegalInstruction:
        if text.split(".")[0] == opcode.split(".")[0] and len(opcode.split(".")) > 1:
            form, word = suggested(text)
            mnemonic = family_of(tcemu.parse(opcode)).mnemonic
            assert family_of(tcemu.parse(form)).mnemonic == mnemonic
            assert word is None or word in form.split("."), "the hint and the nearest form are one answer"


@pytest.mark.parametrize("mnemonic", ["cvt", "add", "mov", "fma", "selp", "setp"])
def test_another_instruction_of_ptx_is_not_taken_for_a_misspelt_one(mnemonic):
    with pytest.raises(tcemu.IllegalInstruction, match=f"PTX has {mnemonic}, but tcemu does not run it") as error:
        tcemu.parse(f"{mnemonic}.f32")
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize(("sass", "ptx"), [("HMMA.16816.F32", "mma.sync"), ("LDSM.16.M88.4", "ldmatrix")])
def test_sass_leads_to_ptx(sass, ptx):
    with pytest.raises(tcemu.IllegalInstruction, match=f"this is SASS.*the PTX instruction is {ptx}"):
        tcemu.parse(sass)


def test_a_function_of_cuda_leads_to_ptx():
    with pytest.raises(tcemu.IllegalInstruction, match="Did you mean 'shfl'"):
        tcemu.parse("__shfl_sync")


def test_a_shape_that_is_none_gets_one_answer():
    """From tcemu.parse, tcemu.run, tcemu isa INSTRUCTION and tcemu isa --shape."""
    wrong = "wgmma.mma_async.sync.aligned.m64n260k16.f32.f16.f16"
    right = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"
    told = []
    for ask in (tcemu.parse, tcemu.run):
        with pytest.raises(tcemu.IllegalInstruction) as error:
            ask(wrong)
        told.append(str(error.value))
    told += [str(CliRunner().invoke(tcemu.cli.commands, ["isa", wrong]).exception)]
    assert len(set(told)) == 1
    assert f"Nearest legal form: {right}" in told[0]
    for asked in (["--shape", "m64n260k16"], ["m64n260k16"]):
        answer = str(CliRunner().invoke(tcemu.cli.commands, ["isa", *asked]).exception)
        assert "Did you mean 'm64n256k16'?" in answer
    assert "Did you mean 'm64n256k16'?" in told[0]

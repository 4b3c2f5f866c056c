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
from tcemu.commands import isa_words
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
@pytest.mark.slow
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
    with pytest.raises(tcemu.IllegalInstruction, match=f"PTX has {mnemonic}; kernels in CUDA C") as error:
        tcemu.parse(f"{mnemonic}.f32")
    assert "Did you mean" not in str(error.value)


@pytest.mark.parametrize(("sass", "ptx"), [("HMMA.16816.F32", "mma.sync"), ("LDSM.16.M88.4", "ldmatrix")])
def test_sass_leads_to_ptx(sass, ptx):
    with pytest.raises(tcemu.IllegalInstruction, match=f"this is SASS.*the PTX instruction is {ptx}"):
        tcemu.parse(sass)


#: Names of CUDA C++, CUTLASS and CuTe, from their documentation, and the PTX instruction that each one is.
CALLED = {
    "__syncthreads": "bar.sync", "__syncthreads()": "bar.sync", "__syncwarp": "bar.warp.sync",
    "__shfl_sync": "shfl.sync", "__shfl_xor_sync": "shfl.sync.bfly", "__shfl_down": "shfl.sync.down",
    "__ballot_sync": "vote.sync.ballot", "__match_all_sync": "match.all.sync", "__reduce_add_sync": "redux.sync.add",
    "atomicAdd": "atom", "__threadfence": "fence", "__ldg": "ld.global",
    "wmma::mma_sync": "wmma.mma", "nvcuda::wmma::load_matrix_sync": "wmma.load", "store_matrix_sync": "wmma.store",
    "__pipeline_memcpy_async": "cp.async", "cuda::memcpy_async": "cp.async", "tma": "cp.async.bulk.tensor",
    "SM90_TMA_LOAD_MULTICAST": "cp.async.bulk.tensor", "cute::warpgroup_wait<0>": "wgmma.wait_group",
    "cudaGridDependencySynchronize": "griddepcontrol.wait", "cute::elect_one_sync": "elect.sync",
    "SM80_16x8x16_F32F16F16F32_TN": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "SM80_16x8x32_S32U8S8S32_TN_SATURATE": "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32",
    "SM80_16x8x256_S32U1U1S32_TN_XORPOPC": "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
    "SM80_16x8x8_F32TF32TF32F32_TN": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "SM70_8x8x4_F32F16F16F32_NT": "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32",
    "SM90_64x128x16_F32BF16BF16_SS": "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
    "SM90::GMMA::MMA_64x96x32_F32E4M3E5M2_RS_TN": "wgmma.mma_async.sync.aligned.m64n96k32.f32.e4m3.e5m2",
    "SM75_U32x4_LDSM_N": "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "SM75_U16x4_LDSM_T": "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
    "SM90_U16x8_STSM_T": "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
}  # fmt: skip


def test_a_name_of_cuda_leads_to_ptx(row):
    for name, ptx in CALLED.items():
        with row(name):
            with pytest.raises(tcemu.IllegalInstruction, match=f"the PTX instruction is {re.escape(ptx)}[. ]"):
                tcemu.parse(re.sub("[(<].*", "", name))
            told = CliRunner().invoke(tcemu.cli.commands, ["isa", name])
            assert told.exit_code == 0, told.output
            assert ptx in told.output.replace("family ", "").replace("begins with ", "")
            if len(ptx.split(".")) > 4:
                assert tcemu.parse(ptx)


def test_no_instruction_is_taken_for_a_name_of_cuda(row):
    for name in dict.fromkeys(each for family in FAMILIES for each in (family.name, family.mnemonic)):
        with row(name):
            assert isa_words.read([name], isa_words.Filters()).filters.called is None


@pytest.mark.parametrize(
    "line",
    [
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3},{%r0,%r1},{%r2},{%f4,%f5,%f6,%f7};",
        "@%p1 mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2}, {%f4, %f5};",
    ],
)
def test_a_pasted_line_of_ptx_is_explained(line):
    told = CliRunner().invoke(tcemu.cli.commands, ["isa", line])
    assert told.output.startswith("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32\n")
    split = CliRunner().invoke(tcemu.cli.commands, ["isa", *line.split()])
    assert split.output == told.output


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

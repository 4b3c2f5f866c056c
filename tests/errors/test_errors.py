"""The phrases that messages share."""

import subprocess
import sys

import pytest

from tcemu.errors import TargetError, did_you_mean, nearest, ranges, span
from tcemu.extras import install
from tcemu.instructions import parse
from tcemu.instructions.targets import target_named

RANGES = {(): "", (5,): "5", (0, 1): "0 to 1", (0, 1, 2, 3, 8): "0 to 3, 8", (1, 3, 4, 6): "1, 3 to 4, 6"}


@pytest.mark.parametrize("numbers", RANGES)
def test_consecutive_numbers_are_joined(numbers):
    assert ranges(numbers) == RANGES[numbers]
    assert ranges(iter(numbers), "-") == RANGES[numbers].replace(" to ", "-")


def test_a_span_of_one_number_is_that_number():
    assert (span(3, 3), span(3, 4), span(3, 4, "–")) == ("3", "3 to 4", "3–4")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("mxfp8", " Did you mean 'mxfp8_e4m3' or 'mxfp8_e5m2'?"),
        ("nvpf4", " Did you mean 'nvfp4'?"),
        ("m", ""),
        ("int8", ""),
    ],
)
def test_a_beginning_means_every_word_that_has_it(word, hint):
    assert did_you_mean(word, ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "nvfp4")) == hint


#: NVIDIA's tables of compute capabilities, developer.nvidia.com/cuda-gpus and /cuda-legacy-gpus.
CHIPS = {
    "TITAN V": "sm_70", "Jetson AGX Xavier": "sm_72", "T1000": "sm_75", "Quadro RTX 8000": "sm_75", "A30": "sm_80",
    "A2": "sm_86", "RTX A6000": "sm_86", "Jetson Orin Nano": "sm_87", "RTX 4000 SFF Ada": "sm_89", "GH200": "sm_90a",
    "GB200": "sm_100a", "B300": "sm_103a", "Jetson T5000": "sm_110a", "RTX PRO 6000 Blackwell": "sm_120a",
    "DGX Spark": "sm_121a",
    "v100": "sm_70", "T4": "sm_75", "a100": "sm_80", "RTX 3060 Ti": "sm_86", "l40s": "sm_89", "rtx4090": "sm_89",
    "h100": "sm_90a", "NVIDIA H200": "sm_90a", "hopper": "sm_90a", "b200": "sm_100a", "RTX 5090": "sm_120a",
    "ampere": "sm_80' or 'sm_86", "blackwell": "sm_100a' or 'sm_120a", "ada": "sm_89", "volta": "sm_70",
    "turing": "sm_75", "H100 SXM": "sm_90a", "NVIDIA H100 80GB HBM3": "sm_90a", "A100-SXM4-40GB": "sm_80",
    "NVIDIA RTX 6000 Ada Generation": "sm_89", "Quadro RTX 6000": "sm_75", "titan rtx": "sm_75", "AGX Orin": "sm_87",
}  # fmt: skip


@pytest.mark.parametrize("name", CHIPS)
def test_the_name_of_a_gpu_leads_to_its_target(name):
    if " or " not in CHIPS[name]:
        assert str(target_named(name)) == CHIPS[name]
        return
    with pytest.raises(TargetError, match=f"no target is called '{name}'. The target of {name} is '{CHIPS[name]}'"):
        target_named(name)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("sm90", "sm_90"), ("SM_90A", "sm_90a"), ("compute_90", "sm_90"), ("compute_90a", "sm_90a"), ("8.9", "sm_89"),
        ("9.0", "sm_90"), (90, "sm_90"), ("sm_95", "sm_90"),
        ("sm_90f", "sm_90"),
    ],
)  # fmt: skip
def test_another_spelling_of_a_target_leads_to_it(name, target):
    with pytest.raises(TargetError, match=f"Did you mean '{target}'"):
        target_named(name)


def test_a_renamed_target_is_told_so():
    """CUDA 13's release notes: sm_101 is sm_110. The assembler still takes the former name, from PTX 8.6 on."""
    former, today = target_named("sm_101a"), target_named("sm_110a")
    assert former == today
    assert (str(former), former.ptx, str(today), today.ptx) == ("sm_101a", "8.6", "sm_110a", "9.0")
    with pytest.raises(TargetError, match="CUDA 13 renamed sm_101a to 'sm_110a', the target of Thor"):
        target_named("sm101a")


def test_a_version_older_than_the_target_is_told_so():
    opcode = "tcgen05.wait::ld.sync.aligned"
    assert parse(opcode, target="sm_100f", ptx="8.8").opcode == opcode
    told = r"sm_100f was introduced in PTX ISA 8\.8; \.version 8\.7 is too old for \.target sm_100f"
    with pytest.raises(TargetError, match=told):
        parse(opcode, target="sm_100f", ptx="8.7")


@pytest.mark.parametrize("name", ["P100", "GTX 1080", "pascal", "sm_60", "sm61", 52])
def test_a_gpu_without_tensor_cores_is_told_so(name):
    with pytest.raises(TargetError, match="It has no tensor cores: they came with sm_70, the V100"):
        target_named(name)


@pytest.mark.parametrize("name", ["mi300", "mi100", "sm_140", "rubin", "", "sm_", None, ["sm_90"], "gfx90a", "90000"])
def test_what_is_like_no_target_is_not_taken_for_one(name):
    with pytest.raises(TargetError) as error:
        target_named(name)
    assert "Did you mean" not in str(error.value)


#: Of words that are equally like a wrong one, the one with the nearest number.
NEAREST = {
    ("m64n260k16", tuple(f"m64n{n}k16" for n in range(8, 264, 8))): "m64n256k16",
    ("m64n100k16", tuple(f"m64n{n}k16" for n in range(8, 264, 8))): "m64n104k16",
    ("x3", ("x1", "x2", "x4")): "x4",
    ("b31", ("b8", "b16", "b32", "b64")): "b32",
    ("8v", ("v2", "v4", "v8")): "v8",
    ("v44", ("v2", "v4", "v8")): "v4",
}


@pytest.mark.parametrize(("word", "accepted"), NEAREST)
def test_of_like_words_the_nearest_number_is_meant(word, accepted):
    assert nearest(word, accepted) == [NEAREST[word, accepted]]


def test_a_message_that_says_what_to_install_leaves_setuptools_as_it_was():
    """nbgrader imports setuptools, which cannot be imported again once its finder has looked for pip."""
    code = "from tcemu.extras import install; install('nbgrader'); import setuptools"
    subprocess.run([sys.executable, "-W", "error:Distutils", "-c", code], check=True)
    assert install("a b").endswith(' install "a b"')

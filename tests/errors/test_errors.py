"""The phrases that messages share."""

import pytest

from tcemu.errors import TargetError, did_you_mean, ranges, span
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
    "ampere": "sm_80' or 'sm_86", "blackwell": "sm_100a' or 'sm_120a",
}  # fmt: skip


@pytest.mark.parametrize("name", CHIPS)
def test_the_name_of_a_gpu_leads_to_its_target(name):
    with pytest.raises(TargetError, match=f"no target is called '{name}'. The target of {name} is '{CHIPS[name]}'"):
        target_named(name)


@pytest.mark.parametrize(
    ("name", "target"), [("sm90", "sm_90"), ("SM_90A", "sm_90a"), ("compute_90", "sm_90"), ("8.9", "sm_89")]
)
def test_another_spelling_of_a_target_leads_to_it(name, target):
    with pytest.raises(TargetError, match=f"Did you mean '{target}'"):
        target_named(name)

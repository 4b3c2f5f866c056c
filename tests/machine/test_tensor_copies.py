"""Tensor copies against silicon: what an H200 left in both memories, replayed by the emulator."""

import json

import numpy as np
import pytest
from places import GOLDEN
from tensor_copies import MISALIGNED, MODES, REFUSED, Copied, recorded, stopping

from tcemu.machine.tensor_map import ELEMENTS

FILE = json.loads((GOLDEN / "sm_90a-tensor-copies.json").read_text(encoding="utf-8"))
COPIES = [(Copied.of(row), answer) for *row, answer in FILE["copies"]]
every_way = pytest.mark.parametrize("storing", [False, True], ids=["load", "store"])


@every_way
@pytest.mark.parametrize("rank", range(1, 6))
def test_what_the_gpu_answered(rank, storing):
    asked = [(copy, answer) for copy, answer in COPIES if (copy.map.rank, copy.storing) == (rank, storing)]
    assert asked
    wrong = [f"{copy}: GPU {answer}, emulator {copy.answer()}" for copy, answer in asked if copy.answer() != answer]
    assert not wrong, f"{len(wrong)} of {len(asked)}: {wrong[:3]}"


def test_everything_was_asked():
    assert [copy for copy, _ in COPIES] == [*recorded(), *stopping()]
    stopped = {copy: answer for copy, answer in COPIES if answer.startswith("CUDA_ERROR")}
    assert list(stopped) == list(stopping())
    assert set(stopped.values()) == {REFUSED, MISALIGNED}
    assert {copy.map.element for copy, _ in COPIES} == set(ELEMENTS)
    assert {copy.map.swizzle for copy, _ in COPIES} == set(MODES)
    assert {copy.map.fill for copy, _ in COPIES} == {"zeros", "nan"}


def test_the_file_says_where_it_comes_from():
    assert {"gpu", "target", "driver", "date", "command", "row"} <= set(FILE["provenance"])
    assert FILE["provenance"]["command"].startswith("python tests/tensor_copies.py")


@every_way
def test_a_byte_that_differs_is_seen(storing):
    """In either memory, at any address."""
    copy, answer = next(each for each in COPIES if each[0].storing == storing and each[0].map.rank == 3)
    for which in (0, 1):
        memories = copy.emulated()
        assert copy.told(memories) == answer
        at = np.random.default_rng(which).integers(len(memories[which]))
        memories[which][at] ^= 1
        assert copy.told(memories) != answer

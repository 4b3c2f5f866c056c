"""tcemu.live.compare: differences to the bit, and the smallest inputs that show them."""

import fake_gpus
import numpy as np
import pytest
from fake_gpus import MMA, STORE, sample

import tcemu
from tcemu import live
from tcemu.errors import GpuError
from tcemu.live.campaigns.minimise import minimise
from tcemu.live.runner.compare import judge
from tcemu.vectors import Case, cases, emulator


def smallest(case, answer):
    """The smallest input for which `answer` is not the emulator's."""
    return minimise(case, answer, lambda some: some.answer(fake_gpus.emulated), "G", "sm_90a")


# ------------------------------------------------------------------------------------------------ comparing


def test_equal_answers(card):
    found = live.compare(MMA, *sample().operands)
    assert found
    assert str(found) == "equal, 256 registers"


@pytest.mark.slow
@pytest.mark.parametrize("card", ["Wrong"], indirect=True)
def test_a_difference_is_reported_to_the_bit(card):
    a, b, c = sample().operands
    a[0, 0, 0], a[1, 0, 0] = 0, 8
    found = live.compare(MMA, a, b, c)
    assert not found
    first = found.first
    assert (first.warp, first.lane, first.register, first.bit, first.row, first.column) == ((1,), 0, 0, 0, 0, 0)
    assert first.gpu ^ first.emulator == 1
    text = str(found)
    for part in ("1 of 256 registers differ", "warp 1, lane 0, register 0, bit 0 (row 0, column 0)", "the GPU has 0x"):
        assert part in text
    assert "arithmetic row: 1 fused sum of 8 products, 25 bits kept; silicon" in text


def test_the_element_of_a_shared_register_is_found():
    """Bit 20 of a register with two f16 is in its second element: one column further."""
    instruction = tcemu.parse("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16")
    one = np.zeros((32, 2), np.uint32)
    other = one.copy()
    other[5, 1] = 1 << 30
    first = judge(instruction, other, one, "GPU", "sm_90a").first
    assert (first.warp, first.lane, first.register, first.bit) == ((), 5, 1, 30)
    assert (first.row, first.column) == instruction.fragments["d"].position(5, 1, 1)
    assert (first.gpu_value, first.emulator_value) == (2.0, 0.0)


def test_a_difference_in_memory_is_reported_by_byte():
    one = np.zeros((2, 64), np.uint8)
    other = one.copy()
    other[1, 17] = 6
    found = judge(tcemu.parse(STORE), other, one, "GPU", "sm_90a")
    assert "memory 1, byte 0x11, bit 1: the GPU has 0x06, the emulator 0x00" in str(found)
    assert "128 bytes differ" in str(found)


@pytest.mark.slow
def test_comparing_a_store_leaves_the_memory_alone(card):
    memory = np.zeros(512, np.uint8)
    found = live.compare(STORE, np.arange(32) * 16, np.ones((32, 1), np.uint32), shared=memory)
    assert str(found) == "equal, 512 bytes"
    assert not memory.any()


@pytest.mark.slow
@pytest.mark.parametrize("card", ["Strict"], indirect=True)
def test_a_row_that_only_the_gpu_refuses_is_an_error_and_not_a_difference(card):
    """The manual lets rows of a fragment of 8 bytes a lane start at multiples of 8; an H200 does not."""
    load, shared = "wmma.load.a.sync.aligned.row.m16n16k16.shared.u8", np.zeros(4096, np.uint8)
    assert live.compare(load, np.int64(16), np.int64(32), shared=shared)
    with pytest.raises(GpuError, match=r"^wmma\.load\.a.*MISALIGNED.*every line of the matrix must start at"):
        live.compare(load, np.int64(8), np.int64(32), shared=shared)


# ------------------------------------------------------------------------------------------------ making small


def test_the_smallest_failing_input():
    """Wrong only where bit 0 of A[0][0] and of C[0][0] is set: all else becomes zero, and three numbers stay."""
    case = sample(warps=64, kind="bits")
    failing = smallest(case, lambda some: some.answer(fake_gpus.flawed))
    assert failing.alone
    assert failing.case.warps == 1
    assert [int(np.count_nonzero(operand)) for operand in failing.case.operands] == [1, 0, 1]
    assert failing.comparison.differing == 1
    text = str(failing)
    assert "a[0, 0] = " in text
    assert "b: zeros" in text
    assert "c[0, 0] = " in text
    assert smallest(case, lambda some: some.answer(fake_gpus.emulated)) is None


def test_a_difference_that_needs_its_neighbours_stays_as_it_is():
    case = sample(warps=8)
    failing = smallest(case, lambda some: some.answer(fake_gpus.flickering))
    assert not failing.alone
    assert failing.case is case
    why = "the difference needs other warps, or does not occur every time"
    assert str(failing).endswith(f"No warp of {case.key} differs alone: {why}.")


def test_a_load_is_made_small_too():
    case = sample("ldmatrix.sync.aligned.m8n8.x1.shared.b16", warps=4, kind="bits")

    def flawed(some: Case):
        answer = some.answer(emulator("sm_90a"))
        answer[:, 7, 0] ^= answer[:, 7, 0] & 1
        return answer

    failing = smallest(case, flawed)
    assert np.count_nonzero(failing.case.bytes) == 1


@pytest.mark.parametrize("where", ["registers", "shared"])
def test_a_wgmma_is_made_small_too(where):
    """Descriptors, the predicate and immediates stay; matrices and shared memory become zero but for what is needed."""
    every = cases(tcemu.parse("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"), "bits", 1024)
    case = next(each for each in every if each.key.endswith(where))

    def flawed(some: Case):
        answer = some.answer(emulator("sm_90a"))
        answer[..., 0, 0] ^= some.operands[0][..., 0, 0] & some.bytes[..., 5] & 1
        return answer

    failing = smallest(case, flawed)
    assert failing.alone
    assert np.count_nonzero(failing.case.operands[0]) == np.count_nonzero(failing.case.bytes) == 1
    text = str(failing)
    assert "d[0, 0] = " in text
    assert "shared[0x5] = 0x" in text
    assert "scale_d: 0x" in text
    assert ("a: zeros" in text) == (where == "registers")
    assert ("imm_trans_a: " in text) == (where == "shared")

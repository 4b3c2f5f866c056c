"""The same instructions on the GPU of this machine and in the emulator: pytest --live.

Without --live, or without a GPU, these skip; the golden files (test_golden.py, test_mma_silicon.py) stand in.
"""

import numpy as np
import pytest

import tcemu
from tcemu import live
from tcemu.live.runner.compare import judge
from tcemu.live.runner.families import recordable
from tcemu.vectors import cases, classes, emulator

WARPS = 32
STAND_IN = "the golden files stand in"


def reason(config):
    """Why the GPU is not asked; empty where it is."""
    if not config.getoption("--live"):
        return f"asks a GPU only with --live; {STAND_IN}"
    missing = live.why_not()
    return f"no GPU: {missing}; {STAND_IN}" if missing else ""


def pytest_generate_tests(metafunc):
    if "instruction" in metafunc.fixturenames:
        skipped = reason(metafunc.config)
        found = [None] if skipped else recordable(live.device())
        marks = [pytest.mark.skip(reason=skipped)] if skipped else []
        names = ["every instruction"] if skipped else [instruction.opcode for instruction in found]
        metafunc.parametrize(
            "instruction", [pytest.param(each, marks=marks, id=name) for each, name in zip(found, names, strict=True)]
        )


@pytest.fixture(scope="module")
def device(request):
    skipped = reason(request.config)
    if skipped:
        pytest.skip(skipped)
    return live.device()


@pytest.mark.live_gpu
def test_the_gpu_answers_as_the_emulator_does(instruction, device):
    model = emulator(device.target)
    for kind in classes(instruction):
        for case in cases(instruction, kind, WARPS, "test_live"):
            answer, expected = case.answer(live.run), case.answer(model)
            assert answer.dtype == expected.dtype
            assert answer.shape == expected.shape
            comparison = judge(instruction, answer, expected, device.name, device.target)
            assert comparison, f"{case.key}: {comparison}"


OPCODE = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"


@pytest.mark.live_gpu
def test_leading_axes_broadcast_on_the_gpu_too(device):
    a, b, c = next(cases(tcemu.parse(OPCODE), "near", 6)).operands
    assert live.compare(OPCODE, a.reshape(2, 3, *a.shape[1:]), b[0], c[:3])
    assert live.run(OPCODE, a[:0], b[:1], c[:1]).shape == (0, 32, 4)


@pytest.mark.live_gpu
def test_stores_of_many_warps_into_one_memory(device):
    opcode = "stmatrix.sync.aligned.m8n8.x4.shared.b16"
    registers = np.arange(100 * 32 * 4, dtype=np.uint32).reshape(100, 32, 4)
    addresses = np.arange(100)[:, None] * 16 + np.arange(32) * 16  # each warp overwrites the one before
    memory = np.zeros(4096, np.uint8)
    assert live.compare(opcode, addresses, registers, shared=memory)
    assert not memory.any()
    live.run(opcode, addresses, registers, shared=memory)
    assert memory.any()


@pytest.mark.live_gpu
def test_cuda_runs_and_what_goes_wrong_there_is_told_and_gone(device, capfd):
    x = np.arange(8, dtype=np.float32)
    live.cuda("__global__ void twice(float* x, int n) { x[threadIdx.x] *= n; }", "twice", 1, 8, x, np.int32(2))
    assert x.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    live.cuda("__global__ void more(float* x) { x[threadIdx.x] += 1; }", "more", 1, 1, x, launches=5)
    assert x[0] == 5
    x[0] = 0
    for source, seconds, words in (
        ("__global__ void f(float* x) { x[1ull << 40] = 1; }", 10, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("__global__ void f(volatile float* x) { while (x[0] >= 0) { } }", 0.5, "did not finish within 0.5 s"),
        ('__global__ void f(float* x) { asm("trap;"); }', 10, "CUDA_ERROR"),
    ):
        with pytest.raises(tcemu.TcemuError, match=words):
            live.cuda(source, "f", 1, 1, x, seconds=seconds)
        live.cuda("__global__ void g(float* x) { x[0] = 7; }", "g", 1, 1, x)
        assert x[0] == 7
    with pytest.raises(tcemu.TcemuError, match=r"line 2: error.*\n    y = 1;"):
        live.cuda("__global__ void f() {\ny = 1;\n}", "f", 1, 1)

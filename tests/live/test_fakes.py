"""tcemu.live without a GPU: what is missing, what travels, what is refused, and what goes wrong on a GPU."""

import subprocess
import sys
import time

import fake_gpus
import numpy as np
import pytest
from fake_gpus import MMA, STORE, sample

import tcemu
from tcemu import live
from tcemu.errors import CompilationError, GpuError, GpuUnavailable, OperandError, TargetError, TcemuError
from tcemu.instructions import FAMILIES, mma_block_scale
from tcemu.live.process import client, device, troubles
from tcemu.live.process.job import Result
from tcemu.live.runner import cuda, run
from tcemu.live.runner.families import MANNERS, recordable
from tcemu.vectors import cases, classes, emulator

#: As the README writes it.
INSTALL = 'in the clone of tcemu run: python3 -m pip --python .venv install -c requirements.lock -e ".[gpu]"'

# ------------------------------------------------------------------------------------------------ what is missing


def test_importing_live_loads_nothing_of_cuda():
    probe = "import tcemu.live, sys; print([name for name in sys.modules if name.split('.')[0] in ('cuda', 'cupy')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    probe = "import tcemu, sys; print('tcemu.live' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_the_packages_it_says_which_extra(monkeypatch):
    monkeypatch.setattr(device, "_installed", lambda module: module != "cuda.core")
    start = time.monotonic()
    assert live.available() is False
    assert live.why_not() == f"cuda-core is not installed; {INSTALL}"
    assert time.monotonic() - start < 0.1
    for ask in (lambda: live.run(MMA), lambda: live.compare(MMA), lambda: live.cuda("", "f", 1, 1)):
        with pytest.raises(GpuUnavailable, match=r"-c requirements.lock -e \"\.\[gpu\]\""):
            ask()


MISSING = {
    "no_driver": "NVIDIA's driver is not installed, or this process does not find it (libcuda.so.1 not found)",
    "no_device": "the driver is there, but it finds no GPU: is CUDA_VISIBLE_DEVICES set",
    "too_old_a_device": "Tesla P100 has compute capability 6.0; tensor cores came with 7.0",
    "too_new_a_device": "NVIDIA X1 has compute capability 99.0, which this version of tcemu does not know",
    "ends_at_once": "the process that holds the GPU ended unexpectedly (exit code 3)",
}


@pytest.mark.parametrize(("card", "message"), MISSING.items(), ids=MISSING, indirect=["card"])
def test_what_is_missing_is_told(card, message):
    assert live.why_not().startswith(message)
    assert live.available() is False
    fake_gpus.RUNNING.clear()


def test_the_real_worker_without_a_driver(monkeypatch):
    """Where NVIDIA's packages are missing, or the driver, the process says so and ends."""
    fake_gpus.RUNNING.clear()
    monkeypatch.setattr(device, "_installed", lambda _module: True)
    client.close()
    if not live.available():
        assert "driver" in live.why_not() or "No module named 'cuda'" in live.why_not()
    client.close()


@pytest.mark.parametrize("name", sorted(troubles._SENTENCES))
def test_every_trouble_has_words(name):
    told = troubles.in_words(name, 2.0)
    assert len(told) > 25
    assert "{" not in told
    assert told.endswith(f"({name})") == name.startswith("CUDA_")
    assert troubles.after(told).endswith(troubles.AFTERWARDS)


def test_an_error_that_nobody_wrote_words_for_keeps_its_name():
    assert troubles.in_words("CUDA_ERROR_NEW") == "the driver reports an error (CUDA_ERROR_NEW)"
    assert troubles.missing(["a", "b"]) == f"a and b are not installed; {INSTALL}"


# ------------------------------------------------------------------------------------------------ running


def test_the_device_is_told(card):
    assert live.available()
    assert live.why_not() == ""
    chip = live.device()
    assert (chip.target, chip.ptx) == ("sm_90a", "9.0")
    assert str(chip) == "Emulated GPU (sm_90a), driver 580.0, CUDA 13.0"


SOME = [instruction.opcode for instruction in recordable(fake_gpus.CARD)][::31]


@pytest.mark.parametrize("opcode", SOME)
def test_operands_and_answers_travel(card, opcode):
    instruction = tcemu.parse(opcode)
    for case in cases(instruction, classes(instruction)[0], 3, "fakes"):
        answer, expected = case.answer(live.run), case.answer(emulator("sm_90a"))
        assert answer.dtype == expected.dtype
        assert np.array_equal(answer, expected)


#: What each card lacks, and what it needs.
LACKS = {
    "V100": ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "sm_75 or later; this GPU is sm_70"),
    "T4": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_80 or later; this GPU is sm_75"),
    "A100": ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89 or later; this GPU is sm_80"),
    "L4": ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "sm_90a; this GPU is sm_89"),
}


@pytest.mark.parametrize(("card", "lacks"), LACKS.items(), ids=LACKS, indirect=["card"])
def test_other_cards_answer_what_they_have_and_say_what_they_lack(card, lacks):
    """Registers, loads and stores as that card lays them out; on a driver of CUDA 12.4, as Colab has it."""
    chip = live.device()
    assert chip == getattr(fake_gpus, card).device
    model, found = emulator(chip.target), recordable(chip)
    for instruction in found[:: len(found) // 12]:
        for case in cases(instruction, classes(instruction)[0], 2, "fakes"):
            assert np.array_equal(case.answer(live.run), case.answer(model)), case.key
    opcode, needs = lacks
    with pytest.raises(GpuUnavailable, match=f"needs {needs}. tcemu.run emulates it"):
        live.run(opcode)


@pytest.mark.parametrize("shape", ["dense", "sparse"])
def test_block_scaled_operands_travel(monkeypatch, shape):
    """Blackwell has them; the fake reads the byte-ids and thread-ids out of the kernel."""
    card = live.Device("Emulated Blackwell", (12, 0), 13000, "", 101376)
    monkeypatch.setattr(fake_gpus.EmulatedGpu, "device", card)
    monkeypatch.setattr(run, "device", lambda: card)
    answering = fake_gpus.EmulatedGpu()
    monkeypatch.setattr(client, "ask", lambda job: Result(answering.run(job)))
    found = next(each for _, each in mma_block_scale.FAMILY.variants if ("e" in each.fragments) == (shape == "sparse"))
    for case in list(cases(found, "near", 2, "fakes"))[::7]:
        assert np.array_equal(case.answer(live.run), case.answer(emulator("sm_120a")))


def test_leading_axes_broadcast(card):
    a, b, c = sample(warps=6).operands
    spread = a.reshape(2, 3, *a.shape[1:])
    assert np.array_equal(live.run(MMA, spread, b[0], c[:3]), tcemu.run(MMA, spread, b[0], c[:3]))
    assert live.run(MMA, a[:0], b[:1], c[:1]).shape == (0, 32, 4)


@pytest.mark.parametrize("leading", [(), (3,), (2, 1)])
def test_stores_change_memory_in_place_in_the_order_of_the_warps(card, leading):
    memory = [np.zeros((*leading, 333), np.uint8) for _ in range(2)]
    registers = np.arange(6 * 32, dtype=np.uint32).reshape(2, 3, 32, 1)
    addresses = np.arange(32) * 16 % 320
    for answer, bytes_ in zip((live.run, tcemu.run), memory, strict=True):
        assert answer(STORE, addresses, registers, shared=bytes_) is None
    assert memory[0].any()
    assert np.array_equal(*memory)


ADDRESSES, ONE = np.arange(32) * 16, np.zeros((32, 1), np.uint32)
A, B, C = sample(warps=4).operands
WRONG = [
    ((MMA, A, B), {}),
    ((MMA, A[..., :1], B, C), {}),
    ((MMA, A.astype(float), B, C), {}),
    ((MMA, A[:2], B[:3], C), {}),
    ((MMA, A, B, C), {"shared": np.zeros(16, np.uint8)}),
    (("mma.sync.aligned.m16n8k9", A, B, C), {}),
    ((7, A, B, C), {}),
    (([], A, B, C), {}),
    (("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", A, B, C), {}),
    ((STORE, np.arange(32) * 8, ONE), {"shared": np.zeros(512, np.uint8)}),
    ((STORE, ADDRESSES, ONE), {"shared": np.zeros(64, np.uint8)}),
    ((STORE, ADDRESSES, ONE), {"memory": np.zeros(512, np.uint8)}),
    ((STORE, ADDRESSES, ONE), {}),
    ((STORE, ADDRESSES, ONE), {"shared": [0] * 512}),
    ((STORE, ADDRESSES, ONE), {"shared": np.frombuffer(bytes(512), np.uint8)}),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_operands_are_refused_in_the_emulators_words(card, number):
    given, memories = WRONG[number]
    with pytest.raises(TcemuError) as here:
        tcemu.run(*given, **memories)
    with pytest.raises(type(here.value)) as there:
        live.run(*given, **memories)
    if isinstance(here.value, OperandError):
        assert str(there.value) == str(here.value)


def test_metadata_that_is_not_legal_never_reaches_the_gpu(card):
    a, b, c, _, f = sample("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").operands
    with pytest.raises(OperandError, match="metadata of lane 0"):
        live.run("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c, np.zeros((2, 32), np.uint32), f)


def test_what_the_card_lacks_is_told(card):
    blackwell = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32"
    with pytest.raises(GpuUnavailable, match=r"needs sm_100f .*; this GPU is sm_90a\. tcemu\.run emulates it"):
        live.run(blackwell)
    with pytest.raises(TargetError, match="a GPU answers for itself: this one is Emulated GPU, sm_90a, not sm_80"):
        live.run(MMA, *sample().operands, target="sm_80")
    assert live.run(MMA, *sample().operands, target="sm_90").shape == (2, 32, 4)
    later = [family for family in FAMILIES if family.name not in MANNERS]
    for family in later:
        with pytest.raises(GpuUnavailable, match=f"one at a time, and not {family.name}"):
            live.run(family.variants[0][1])


def test_more_shared_memory_than_a_block_has(card):
    with pytest.raises(OperandError, match=r"shared= has 300000 bytes; a block on Emulated GPU has at most 232448"):
        live.run(STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32), shared=np.zeros(300000, np.uint8))


# ------------------------------------------------------------------------------------------------ what goes wrong

TROUBLE = {
    "hang": (GpuError, r"did not end within 0\.5 s and was stopped: .* never reach\? Your session goes on"),
    "illegal_address": (GpuError, r"an address outside every array; .*CUDA_ERROR_ILLEGAL_ADDRESS\)\. Your session"),
    "illegal_instruction": (GpuError, r"CUDA_ERROR_ILLEGAL_INSTRUCTION\)\. Your session goes on"),
    "crash": (GpuError, r"ended unexpectedly \(exit code 7\)\. Your session goes on"),
    "deaf": (GpuError, r"gave no answer within .* s and was stopped\. Your session goes on"),
    "syntax": (CompilationError, r'1 error:\nline 2: error: identifier "y" is undefined\n    x\[0\] = y;'),
}


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_told_and_the_next_call_works(card, name, monkeypatch):
    monkeypatch.setattr(client, "AROUND", 2.0)
    error, message = TROUBLE[name]
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(error, match=message):
        live.cuda("__global__ void f(float* x) {\n    x[0] = y;\n}", name, 1, 1, x, seconds=0.5)
    live.cuda("", "twice", 1, 1, x)
    assert x.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_an_interrupt_stops_the_kernel_too(card, monkeypatch):
    worker = client.current()

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_next", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.cuda("", "deaf", 1, 1)
    assert not worker.alive
    live.cuda("", "twice", 1, 1, np.zeros(1))


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_what_a_kernel_prints_is_printed(card, capsys):
    for _ in range(2):
        live.cuda("", "says", 1, 1)
        assert capsys.readouterr().out == "hello from a thread\n"


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_arrays_come_back_unless_they_are_read_only(card):
    x = np.arange(6).reshape(2, 3).T
    fixed = np.ones(3)
    fixed.flags.writeable = False
    live.cuda("", "twice", (1, 2), 32, x, fixed, np.float32(1))
    assert x.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert fixed.tolist() == [1, 1, 1]


ARGUMENTS = [
    ((1, 1, 2.0), {}, r"argument 0: 2\.0 does not say its C type; write np\.float32"),
    ((1, 1, 2), {}, r"argument 0: 2 does not say its C type; write np\.int32"),
    ((1, 1, "x"), {}, "a numpy array or a numpy scalar is needed; got str"),
    ((1, 1, np.array([None])), {}, "an array of object has no C type"),
    ((0, 1), {}, "grid is a positive int or a tuple of up to three; got 0"),
    ((1, (1, 1, 1, 1)), {}, "block is a positive int or a tuple of up to three"),
    ((1, 1), {"shared": 1 << 30}, "shared= is 0 to 232448 bytes on Emulated GPU"),
    ((1, 1), {"seconds": 0}, "seconds= is more than 0"),
    ((1, 1), {"options": ["-G"]}, "options are -IFOLDER and -DNAME"),
]


@pytest.mark.parametrize(("given", "named", "message"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_wrong_arguments_of_cuda(card, given, named, message):
    with pytest.raises(OperandError, match=message):
        live.cuda("", "f", *given, **named)


def test_a_kernel_that_is_not_there_and_a_header_that_is_not():
    log = '__nv_name_map(2): error: identifier "g" is undefined'
    assert cuda.explained("", "g", log).startswith("the source compiles, but has no kernel 'g'")
    log = 'kernel.cu(1): catastrophic error: cannot open source file "mma.h"'
    assert "CUDA's headers come with" in cuda.explained("#include <mma.h>", "g", log)

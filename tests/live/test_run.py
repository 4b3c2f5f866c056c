"""tcemu.live.run with fake GPUs: what is sent, and what is rejected."""

import fake_gpus
import numpy as np
import pytest
from fake_gpus import MMA, STORE, sample
from quick import some, spread, turn

import tcemu
from tcemu import live
from tcemu.errors import GpuUnavailable, OperandError, TargetError, TcemuError
from tcemu.instructions import FAMILIES, mma_block_scale
from tcemu.live.process import client
from tcemu.live.process.job import Result
from tcemu.live.runner import run
from tcemu.live.runner.families import MANNERS, recordable
from tcemu.vectors import cases, classes, emulator


@pytest.mark.slow
def test_the_device_is_described(card):
    assert live.available()
    assert live.why_not() == ""
    chip = live.device()
    assert (chip.target, chip.ptx) == ("sm_90a", "9.0")
    assert str(chip) == "Emulated GPU (sm_90a), driver 580.0, CUDA 13.0"


SOME = spread([instruction.opcode for instruction in recordable(fake_gpus.CARD)][::31], 2, first=turn(2))


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
#: Two of them, every day the other two.
CARDS = {name: LACKS[name] for name in some(spread(LACKS, 2, first=turn(2)), 1)}


@pytest.mark.parametrize(("card", "lacks"), CARDS.items(), ids=CARDS, indirect=["card"])
@pytest.mark.slow
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


@pytest.mark.parametrize("shape", ["dense", pytest.param("sparse", marks=pytest.mark.slow)])
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


@pytest.mark.slow
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


def test_what_the_card_lacks_is_reported(card):
    blackwell = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32"
    with pytest.raises(GpuUnavailable, match=r"needs sm_100f .*; this GPU is sm_90a\. tcemu\.run emulates it"):
        live.run(blackwell)
    with pytest.raises(TargetError, match="for its own target only: it is Emulated GPU, sm_90a, not sm_80"):
        live.run(MMA, *sample().operands, target="sm_80")
    assert live.run(MMA, *sample().operands, target="sm_90").shape == (2, 32, 4)
    later = [family for family in FAMILIES if family.name not in MANNERS]
    for family in later:
        with pytest.raises(GpuUnavailable, match=f"one at a time, but not {family.name}|; this GPU is sm_90a"):
            live.run(family.variants[0][1])


def test_more_shared_memory_than_a_block_has(card):
    with pytest.raises(OperandError, match=r"shared= has 300000 bytes, but a block on Emulated GPU has at most 232448"):
        live.run(STORE, np.arange(32) * 16, np.zeros((32, 1), np.uint32), shared=np.zeros(300000, np.uint8))

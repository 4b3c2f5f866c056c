"""tcemu.live.answer: from a GPU that is none, from the store, and from the emulator if neither has one."""

import re
import subprocess
import sys
from configparser import ConfigParser

import nbformat
import numpy as np
import pytest
from places import ROOT

import tcemu
from tcemu.errors import GpuUnavailable, OperandError
from tcemu.live import Device
from tcemu.live.runner import answers
from tcemu.vectors import cases

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
BLACKWELL = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32"
STORE = "stmatrix.sync.aligned.m8n8.x1.shared.b16"
CARD = Device("NVIDIA TEST", (9, 0), 13000, "580.1", 200_000)
OLD = Device("Tesla T4", (7, 5), 13000, "580.1", 60_000)


def registers(seed=0):
    """Return registers of A, B and C."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2**32, (32, MMA.fragments[role].registers), np.uint32) for role in "abc"]


@pytest.fixture
def lab(monkeypatch, tmp_path):
    """Return a function that sets which GPU there is; the store is empty."""
    held = {}
    monkeypatch.delenv("TCEMU_LIVE", raising=False)
    monkeypatch.delenv("TCEMU_LIVE_RECORD", raising=False)
    monkeypatch.setattr(answers, "_course", lambda: held)

    def found(device):
        def run(instruction, *operands, **memories):
            if not instruction.gate.admits(device.chip):
                raise GpuUnavailable(f"{instruction} needs {instruction.gate.targets}; this GPU is {device.target}.")
            return tcemu.run(instruction, *operands, **memories)

        def ask():
            if device is None:
                raise GpuUnavailable("no driver")
            return device

        monkeypatch.setattr(answers, "device", ask)
        monkeypatch.setattr(answers, "run", run)
        answers._gpu.cache_clear()
        return held

    yield found
    answers._gpu.cache_clear()


def record(lab, monkeypatch, tmp_path, instruction, *operands, **memories):
    """Record an answer of CARD and put it into the store."""
    path = tmp_path / "recorded.json"
    held = lab(CARD)
    monkeypatch.setenv("TCEMU_LIVE_RECORD", str(path))
    answer = answers.answer(instruction, *operands, **memories)
    monkeypatch.delenv("TCEMU_LIVE_RECORD")
    held.update(answers.json.loads(path.read_text(encoding="utf-8")))
    return answer


def test_a_gpu_answers_live(lab):
    lab(CARD)
    operands = registers()
    answer = answers.answer(MMA, *operands)
    assert answer.live
    assert answer.target == "sm_90a"
    assert answer.source == "live on NVIDIA TEST (sm_90a), driver 580.1, CUDA 13.0"
    np.testing.assert_array_equal(answer.registers, tcemu.run(MMA, *operands))


def test_what_was_recorded_is_the_same_bits(lab, monkeypatch, tmp_path):
    operands = registers()
    live = record(lab, monkeypatch, tmp_path, MMA, *operands)
    lab(None)
    recorded = answers.answer(str(MMA), *operands)
    assert not recorded.live
    assert recorded.target == live.target
    assert re.fullmatch(r"recorded on NVIDIA TEST \(sm_90a\), \d{4}-\d\d-\d\d", recorded.source)
    assert recorded.registers.dtype == live.registers.dtype
    np.testing.assert_array_equal(recorded.registers, live.registers)
    recorded.registers[0] = 0  # a copy: the next reader gets the bits again
    np.testing.assert_array_equal(answers.answer(MMA, *operands).registers, live.registers)


def test_other_operands_are_another_question(lab, monkeypatch, tmp_path):
    record(lab, monkeypatch, tmp_path, MMA, *registers())
    lab(None)
    assert not answers.answer(MMA, *registers()).emulated
    other = answers.answer(MMA, *registers(1))
    assert other.emulated
    assert not other.live
    assert other.target == "sm_90a"
    why = "no recording has these inputs, and no GPU can be asked (no driver)"
    assert other.source == f"emulated as on sm_90a: {why}"
    np.testing.assert_array_equal(other.registers, tcemu.run(MMA, *registers(1)))


def test_without_a_gpu_wrong_operands_are_errors_all_the_same(lab):
    lab(None)
    with pytest.raises(OperandError):
        answers.answer(MMA, *registers()[:2])


def test_an_instruction_of_another_chip_is_emulated_as_there(lab):
    lab(OLD)
    answer = answers.answer(BLACKWELL, *next(cases(tcemu.parse(BLACKWELL), "near", 1)).operands)
    assert answer.emulated
    assert answer.target.startswith("sm_1")
    assert re.search(r"and Tesla T4 lacks the instruction \(mma.*this GPU is sm_75", answer.source)


def test_a_store_without_a_recording_is_emulated_in_place(lab):
    lab(None)
    bytes_ = np.zeros(512, np.uint8)
    answer = answers.answer(STORE, np.arange(32) * 16, np.full((32, 1), 7, np.uint32), shared=bytes_)
    assert answer.emulated
    assert bytes_.any()
    np.testing.assert_array_equal(answer.registers, bytes_)


def test_an_instruction_that_the_card_lacks_is_reported(lab, monkeypatch, tmp_path):
    operands = registers()
    record(lab, monkeypatch, tmp_path, MMA, *operands)
    lab(OLD)
    answer = answers.answer(MMA, *operands)
    assert not answer.live
    assert re.search(r"recorded on NVIDIA TEST .*; Tesla T4 lacks it: mma.*needs sm_80 or later", answer.source)


def test_a_store_changes_memory_live_and_recorded(lab, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    addresses, held = np.arange(32) * 16, rng.integers(0, 2**32, (32, 1), np.uint32)
    live, later = np.zeros(512, np.uint8), np.zeros(512, np.uint8)
    record(lab, monkeypatch, tmp_path, STORE, addresses, held, shared=live)
    lab(None)
    answer = answers.answer(STORE, addresses, held, shared=later)
    assert live.any()
    np.testing.assert_array_equal(later, live)
    np.testing.assert_array_equal(answer.registers, live)


def test_with_a_gpu_wrong_operands_are_errors(lab):
    lab(CARD)
    with pytest.raises(OperandError):
        answers.answer(MMA, *registers()[:2])


def test_the_environment_may_ask_for_what_was_recorded(lab, monkeypatch):
    lab(CARD)
    monkeypatch.setenv("TCEMU_LIVE", "recorded")
    answer = answers.answer(MMA, *registers())
    assert answer.emulated
    assert "TCEMU_LIVE=recorded" in answer.source


def test_a_missing_gpu_is_looked_for_once(lab, monkeypatch, tmp_path):
    operands = registers()
    record(lab, monkeypatch, tmp_path, MMA, *operands)
    lab(None)
    answers.answer(MMA, *operands)
    monkeypatch.setattr(answers, "device", lambda: pytest.fail("looked again"))
    answers.answer(MMA, *operands)


def test_importing_it_loads_nothing_of_cuda():
    probe = "import tcemu.live, sys; print([name for name in sys.modules if name.split('.')[0] in ('cuda', 'numba')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_course_comes_with_the_answers_of_its_cells():
    answers._course.cache_clear()
    for key, held in answers._course().items():
        opcode, _ = key.split(" ")
        assert str(tcemu.parse(opcode, held["target"])) == opcode
        assert held["gpu"] == "NVIDIA H200"
        assert answers._unpacked(held).shape == tuple(held["shape"])


def test_nbval_forgives_who_answered_and_nothing_else():
    rules = ConfigParser()
    rules.read(ROOT / "tests" / "nbval.cfg", encoding="utf-8")
    rule = rules["who answered"]
    first = nbformat.read(ROOT / "notebooks" / "00_first_light.ipynb", as_version=4)
    (text,) = (o.text for c in first.cells if "live-gpu" in c.metadata.get("tags", []) for o in c.outputs)
    live = re.sub(r"recorded on .*", "live on NVIDIA A100 (sm_80), driver 580.1, CUDA 13.0", text)
    assert text != live
    clean = re.sub(rule["regex"], rule["replace"], text)
    assert clean == re.sub(rule["regex"], rule["replace"], live)
    assert clean == "answered by a GPU\n"

"""tcemu.live's comparisons, smallest inputs, recordings and commands, with GPUs that are none."""

import io
import json

import fake_gpus
import numpy as np
import pytest
from click.testing import CliRunner
from fake_gpus import MMA, STORE, sample
from places import TESTS
from rich.console import Console

import tcemu
import tcemu.cli
from tcemu import live
from tcemu.commands.progress import bar
from tcemu.errors import GpuError, GpuUnavailable, TcemuError
from tcemu.live.campaigns.minimise import minimise
from tcemu.live.campaigns.record import record
from tcemu.live.campaigns.verify import verify
from tcemu.live.process import device
from tcemu.live.runner.compare import judge
from tcemu.live.runner.families import recordable
from tcemu.vectors import Case, cases, classes, emulator


def smallest(case, answer):
    """The smallest input for which `answer` is not the emulator's."""
    return minimise(case, answer, lambda some: some.answer(fake_gpus.emulated), "G", "sm_90a")


# ------------------------------------------------------------------------------------------------ comparing


def test_equal_answers(card):
    found = live.compare(MMA, *sample().operands)
    assert found
    assert str(found) == "equal, 256 registers"


@pytest.mark.parametrize("card", ["Wrong"], indirect=True)
def test_a_difference_is_told_to_the_bit(card):
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


def test_a_difference_in_memory_is_told_by_byte():
    one = np.zeros((2, 64), np.uint8)
    other = one.copy()
    other[1, 17] = 6
    found = judge(tcemu.parse(STORE), other, one, "GPU", "sm_90a")
    assert "memory 1, byte 0x11, bit 1: the GPU has 0x06, the emulator 0x00" in str(found)
    assert "128 bytes differ" in str(found)


def test_comparing_a_store_leaves_the_memory_alone(card):
    memory = np.zeros(512, np.uint8)
    found = live.compare(STORE, np.arange(32) * 16, np.ones((32, 1), np.uint32), shared=memory)
    assert str(found) == "equal, 512 bytes"
    assert not memory.any()


@pytest.mark.parametrize("card", ["Strict"], indirect=True)
def test_a_row_that_only_the_gpu_refuses_is_told_and_no_difference(card):
    """The manual lets rows of a fragment of 8 bytes a lane start at multiples of 8; an H200 does not."""
    load, shared = "wmma.load.a.sync.aligned.row.m16n16k16.shared.u8", np.zeros(4096, np.uint8)
    assert live.compare(load, np.int64(16), np.int64(32), shared=shared)
    with pytest.raises(GpuError, match=r"^wmma\.load\.a.*MISALIGNED.*every line of the matrix starts at"):
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
    why = "the difference needs its neighbours, or comes and goes"
    assert str(failing).endswith(f"No warp of {case.key} differs on its own: {why}.")


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


# ------------------------------------------------------------------------------------------------ recording


def few(family):
    return [each for each in recordable(fake_gpus.CARD) if each.family == family][:2]


def test_a_recording_says_where_it_comes_from_and_goes_on_where_it_stopped(tmp_path):
    asked = []

    def stopping(instruction, *operands, **memories):
        asked.append(instruction)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return fake_gpus.emulated(instruction, *operands, **memories)

    chosen = [*few("mma"), *few("ldmatrix")]
    with pytest.raises(KeyboardInterrupt):
        record(tmp_path, fake_gpus.CARD, chosen, "tcemu record FOLDER", stopping)
    kept = json.loads((tmp_path / "sm_90a-mma.json").read_text())
    assert len(kept["sha256"]) == 4
    assert kept["provenance"]["gpu"] == "Emulated GPU"
    assert kept["provenance"]["driver"] == "580.0, CUDA 13.0"
    files = record(tmp_path, fake_gpus.CARD, chosen, "tcemu record FOLDER", stopping)
    total = [
        sum(1 for each in few(name) for kind in classes(each) for _ in cases(each, kind, 1))
        for name in ("mma", "ldmatrix")
    ]
    assert [len(file.sha256) for file in files] == total
    assert [file.new for file in files] == [total[0] - 4, total[1]]
    assert [file.differing for file in files] == [0, 0]
    with np.load(tmp_path / "sm_90a-mma.npz") as samples:
        assert set(samples) == set(files[0].sha256)
    assert not (tmp_path / "sm_90a-ldmatrix.npz").exists()
    assert not list(tmp_path.glob(".*"))
    assert [file.new for file in record(tmp_path, fake_gpus.CARD, chosen, "tcemu record FOLDER", stopping)] == [0, 0]


def test_a_recording_is_the_golden_file_where_the_answers_are(tmp_path):
    chosen = few("mma.sp")
    (file,) = record(tmp_path, fake_gpus.CARD, chosen, "", fake_gpus.emulated)
    golden = json.loads((TESTS / "golden" / "sm_90a-mma.sp.json").read_text())["sha256"]
    assert file.sha256.items() <= golden.items()


def test_a_wrong_answer_is_recorded_as_it_is_and_counted(tmp_path):
    (file,) = record(tmp_path, fake_gpus.CARD, few("mma"), "", fake_gpus.flawed)
    assert file.differing > 0


@pytest.mark.parametrize("content", ["{}", "no json", '{"provenance": {}, "sha256": 3}'])
def test_a_folder_with_other_files_is_refused(tmp_path, content):
    (tmp_path / "sm_90a-mma.json").write_text(content)
    with pytest.raises(TcemuError, match=r"sm_90a-mma\.json (is not a golden file|was recorded elsewhere)"):
        record(tmp_path, fake_gpus.CARD, few("mma"), "", fake_gpus.emulated)


def test_another_gpus_recording_is_refused(tmp_path):
    record(tmp_path, fake_gpus.CARD, few("movmatrix"), "", fake_gpus.emulated)
    other = live.Device("NVIDIA H100", (9, 0), 13000, "580.0", 232448)
    with pytest.raises(TcemuError, match="was recorded elsewhere, with gpu 'Emulated GPU': give another folder"):
        record(tmp_path, other, few("movmatrix"), "", fake_gpus.emulated)


# ------------------------------------------------------------------------------------------------ the commands


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "verdict"), [(fake_gpus.emulated, "0 differences"), (fake_gpus.flawed, "a difference")]
)
def test_processes_share_the_instructions(answer, verdict):
    chosen = [*few("mma"), *few("ldmatrix")]
    heard = []
    outcome = verify(fake_gpus.CARD, chosen, 2.0, 2, "seed", lambda out: heard.append(out.total), answer, 64)
    assert verdict in str(outcome)
    assert heard
    if verdict == "0 differences":
        assert outcome.total > 0
        assert outcome.failing is None
        assert outcome.instructions == {instruction.opcode for instruction in chosen}
    else:
        assert "a[" in str(outcome.failing)
        assert outcome.where.case().key == outcome.where.key


@pytest.mark.slow
def test_a_process_that_breaks_is_told(monkeypatch):
    with pytest.raises(TcemuError, match=r"not installed|driver|no GPU"):
        verify(fake_gpus.CARD, few("mma"), 5.0, 1, "seed")


@pytest.mark.parametrize(
    "command",
    ["record somewhere", "verify", "measure somewhere", "verify --family mna", "measure somewhere --suite no"],
)
def test_the_commands_first_say_what_is_missing(monkeypatch, command, tmp_path):
    monkeypatch.setattr(device, "_installed", lambda _module: False)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(tcemu.cli.commands, command.split())
    assert isinstance(done.exception, GpuUnavailable)
    assert str(done.exception).startswith("cuda-bindings and cuda-core are not installed; in the clone of tcemu run: ")
    assert done.output == ""
    assert not list(tmp_path.iterdir())


def test_no_bar_is_drawn_before_work_begins():
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    with bar("{task.completed} of {task.total}", terminal) as shown:
        assert terminal.file.getvalue() == ""
        shown.show("comparing", 3, 7)
        shown.progress.refresh()
    assert "comparing" in terminal.file.getvalue()
    assert "3 of 7" in terminal.file.getvalue()
    with bar("", quiet := Console(file=io.StringIO(), force_terminal=True)), pytest.raises(GpuUnavailable):
        raise GpuUnavailable
    assert quiet.file.getvalue() == ""


def test_record_on_the_command_line(card, tmp_path):
    done = CliRunner().invoke(tcemu.cli.commands, ["record", "--family", "movmatrix", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert "1 cases, 1 of them new, 0 words differ from the emulator" in done.output
    kept = json.loads((tmp_path / "new" / "sm_90a-movmatrix.json").read_text())
    assert kept["provenance"]["command"] == "tcemu record --family movmatrix FOLDER"
    assert done.exit_code == 0


@pytest.mark.parametrize("option", [["--family", "mna"], ["--shape", "m1n1k1"]])
def test_a_family_or_shape_that_does_not_exist(card, option):
    done = CliRunner().invoke(tcemu.cli.commands, ["verify", *option])
    assert isinstance(done.exception, tcemu.IllegalInstruction)
    assert "There are" in str(done.exception)

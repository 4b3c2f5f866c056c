"""tcemu record, verify and measure with GPUs that are none: recordings, processes, the commands."""

import json

import fake_gpus
import numpy as np
import pytest
from click.testing import CliRunner
from places import TESTS

import tcemu
import tcemu.cli
from tcemu import live
from tcemu.errors import GpuUnavailable, TcemuError
from tcemu.live.campaigns.record import record
from tcemu.live.campaigns.verify import verify
from tcemu.live.process import device
from tcemu.live.runner.families import recordable
from tcemu.vectors import cases, classes

# ------------------------------------------------------------------------------------------------ recording


def few(family):
    return [each for each in recordable(fake_gpus.CARD) if each.family == family][:2]


@pytest.mark.slow
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


@pytest.mark.slow
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
    for seconds in (1.0, 4.0, 16.0):  # on a busy machine one second may not be enough for all of them
        outcome = verify(fake_gpus.CARD, chosen, seconds, 2, "seed", lambda out: heard.append(out.total), answer, 64)
        if len(outcome.instructions) == len(chosen) or outcome.failing is not None:
            break
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
def test_a_process_that_fails_is_reported(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # where there is a GPU
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


def test_record_on_the_command_line(card, tmp_path):
    done = CliRunner().invoke(tcemu.cli.commands, ["record", "--family", "movmatrix", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert "1 case, 1 of them new, 0 words differ from the emulator" in done.output
    kept = json.loads((tmp_path / "new" / "sm_90a-movmatrix.json").read_text())
    assert kept["provenance"]["command"] == "tcemu record --family movmatrix FOLDER"
    assert done.exit_code == 0


@pytest.mark.parametrize("option", [["--family", "mna"], ["--shape", "m1n1k1"]])
def test_a_family_or_shape_that_does_not_exist(card, option):
    done = CliRunner().invoke(tcemu.cli.commands, ["verify", *option])
    assert isinstance(done.exception, tcemu.IllegalInstruction)
    assert "There are" in str(done.exception)

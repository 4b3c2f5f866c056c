"""The questions about tcgen05 for a card that is not here: everything up to asking, and asking the emulator."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner

import tcemu
from tcemu.cli import commands
from tcemu.errors import GpuError, TcemuError
from tcemu.live import Device
from tcemu.live.campaigns.tcgen05 import kernel, record
from tcemu.live.campaigns.tcgen05.questions import SHARED, questions
from tcemu.live.process.job import Result

B200 = Device("B200 by the emulator", (10, 0), 13000, "580.0", 232448)
#: One of each kind of question: the beginnings of their names.
KINDS = [
    "what columns hold", "dense: .cta_group::1.kind::f16", "dense: .cta_group::1.kind::mxf4nvf4", "pair: ", "ws: ",
    "scale-input-d 7", "zero-column mask 0x0003", "sparse 0: .sp.cta_group::1.kind::f8f6f4", "copy: ", "M of 0",
]  # fmt: skip


def chosen(target="sm_100a"):
    """The first question of each kind."""
    return [next(each for each in questions(target) if each.name.startswith(kind)) for kind in KINDS]


def answered(job):
    """What a card would: the emulator runs the kernel's PTX, and a launch that it ends is refused."""
    arrays = {
        each.name: np.zeros(each.shape, each.dtype) if each.value is None else each.value for each in job.arguments
    }
    cluster = {"cluster": 2} if job.grid == (2,) else {}
    try:
        run = tcemu.ptx.load(job.code)[job.kernel]
        run(
            job.grid[0], job.block[0], *arrays.values(), target="sm_100a", shared=job.shared, sanitizer="off", **cluster
        )
    except TcemuError as error:
        raise GpuError(str(error)) from None
    return Result(arrays)


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_110a"])
def test_questions_have_names_of_their_own_that_make_their_memory(target):
    asked = questions(target)
    assert len(asked) > 400
    assert len({each.name for each in asked}) == len(asked)
    again = {each.name: each for each in questions(target)}
    for each in asked[::60]:
        assert each.shared.shape == (each.group, SHARED)
        assert np.array_equal(each.shared, again[each.name].shared)
        assert np.array_equal(each.tensor, again[each.name].tensor)
        assert (each.shared[0] != 0).any()


@pytest.mark.slow
def test_what_the_emulator_would_record(tmp_path, monkeypatch):
    """Kernels give what the machine gives from the same memory; what it does not execute is refused or unknown."""
    monkeypatch.setattr(record, "questions", chosen)
    seen = []
    found = record.record(tmp_path, B200, "tcemu record --tcgen05 FOLDER", answered, seen.append)
    assert seen == [each.name for each in chosen()]
    assert found.differing == []
    assert {name.split(" ")[0] for name in found.refused} == {"M", "scale-input-d"}
    assert len(found.arrays) == len(KINDS) - 2
    told = json.loads((tmp_path / "sm_100a-tcgen05.json").read_text())
    assert told["provenance"]["gpu"] == B200.name
    assert set(told["sha256"]) == set(found.arrays)
    with np.load(tmp_path / "sm_100a-tcgen05.npz") as held:
        assert all(np.array_equal(held[name], array) for name, array in found.arrays.items())
    again = record.record(tmp_path, B200, "", lambda _: pytest.fail("asked again"), seen.append)
    assert (again.new, len(again.arrays), again.refused) == (0, len(found.arrays), found.refused)
    other = Device("another", (10, 0), 13000, "580.0", 232448)
    with pytest.raises(TcemuError, match="recorded elsewhere, on B200 by the emulator"):
        record.record(tmp_path, other, "", answered, seen.append)


def test_a_word_that_differs_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "questions", lambda target: chosen(target)[1:2])

    def wrong(job):
        found = answered(job)
        found.arrays["out"][0, 5, 3] ^= 1
        return found

    assert record.record(tmp_path, B200, "", wrong, print).differing == [chosen()[1].name]


@pytest.mark.slow
def test_a_dry_run_writes_the_kernels(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "questions", chosen)
    found = CliRunner().invoke(commands, ["record", "--tcgen05", "--dry-run", "sm_100a", str(tmp_path / "kernels")])
    assert found.exit_code == 0, found.output
    assert "10 kernels for sm_100a; the emulator answers 8 of the questions" in found.output
    assert "how the hardware rounds a D that scale_input_d has made smaller" in found.output
    texts = [path.read_text() for path in sorted((tmp_path / "kernels").iterdir())]
    assert [text.splitlines()[0] for text in texts] == [f"// {each.name}" for each in chosen()]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tcgen05", "--dry-run", "sm_90a"], "sm_90a has no tcgen05"),
        (["--dry-run", "sm_100a"], "goes with --tcgen05"),
    ],
)
def test_what_cannot_be_asked(words, says, tmp_path):
    found = CliRunner().invoke(commands, ["record", *words, str(tmp_path)])
    assert found.exit_code != 0
    assert says in found.output + str(found.exception)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no ptxas")
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_the_assembler_takes_the_kernels(target, tmp_path):
    for each in questions(target)[::35]:
        path = tmp_path / "question.ptx"
        path.write_text(kernel.code(each, target))
        command = ["ptxas", f"-arch={target}", str(path), "-o", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, f"{each.name}:\n{done.stderr.decode()}"

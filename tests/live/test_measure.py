"""Microbenchmarks without a GPU: what the kernels are, what becomes of their clocks, and the file."""

import shutil
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner
from quick import spread, turn

import tcemu.cli
from tcemu import live, wavefronts
from tcemu.errors import GpuError, GpuUnavailable, TcemuError
from tcemu.live import Device
from tcemu.live.campaigns.measure import SUITES, measure, memory, run
from tcemu.live.campaigns.measure.probe import Part, Probe, always
from tcemu.live.process.job import Result
from tcemu.timing.costs import read

CARD = Device("NVIDIA TEST", (9, 0), 13000, "580.1", 227 << 10)
PTXAS = shutil.which("ptxas")
COST, OVERHEAD = 3, 7


class Worker:
    """Stands in for the process that holds the GPU: every copy costs COST cycles, every trip OVERHEAD."""

    alive = True

    def ask(self, job):
        """Answer as a kernel would."""
        given = {argument.name: argument for argument in job.arguments}
        (warps, parts, _, _), threads = given["times"].shape, given["sink"].shape[0]
        trips, per_trip = int(given["trips"].value), np.array([1, 2]) * 8 * COST + OVERHEAD
        times = np.zeros((warps, parts, 2, 2), np.uint64)
        times[..., 0] = 1000 + 5 * np.arange(warps)[:, None, None]  # not all warps start and end together
        times[..., 1] = 1000 + trips * per_trip
        return Result({"times": times, "sink": np.full(threads, 1024, np.uint64)})

    def stop(self):
        """Nothing to stop."""


@pytest.fixture
def card(monkeypatch):
    """A GPU that is none."""
    monkeypatch.setattr(run, "device", lambda: CARD)
    monkeypatch.setattr(live, "device", lambda: CARD)
    monkeypatch.setattr(run, "Worker", Worker)


def test_a_cost_is_what_twice_the_copies_take_longer():
    part = Part("nop", "interval", {}, always("nop;"), 8, per=2)
    probe = Probe((part, part), threads=64)
    times = Worker().ask(probe.job("9.0", "sm_90a", 0)).arrays["times"]
    assert probe.read(times) == [(COST / 2, OVERHEAD)] * 2


def test_the_table_is_written_and_added_to(card, tmp_path):
    told = []
    path = measure(tmp_path, ["barriers"], runs=4, progress=lambda *args: told.append(args))
    assert path == tmp_path / "sm_90a.json"
    assert told[-1] == (len(told), len(told), "barriers")
    first = read(path)
    assert first.provenance["gpu"] == "NVIDIA TEST"
    assert first.provenance["runs"] == 4
    assert first.provenance["failed"] == {}
    row = first.find("bar.sync", "interval", {"warps": 4})
    assert (row.median, row.quartiles, row.runs, row.overhead) == (COST, (COST, COST), 4, OVERHEAD)
    again = read(measure(tmp_path, ["barriers", "copies"], runs=3))
    assert len(again) > len(first)
    assert again.rows[0].runs == 3
    assert len({(row.instruction, row.what, str(row.how)) for row in again}) == len(again)


def test_what_does_not_run_is_left_out_and_reported(card, monkeypatch, tmp_path):
    def ask(self, job):
        if job.kernel == "proxy":
            raise GpuError("an illegal instruction")
        return Worker.ask(self, job)

    monkeypatch.setattr(run, "Worker", type("Broken", (Worker,), {"ask": ask}))
    table = read(measure(tmp_path, ["barriers"], runs=3))
    assert table.provenance["failed"] == {"proxy": "an illegal instruction"}
    assert not table.of("fence.proxy.async")
    assert table.of("bar.sync")


def test_unknown_suites_and_missing_gpus(card, monkeypatch, tmp_path):
    with pytest.raises(TcemuError, match=r"no suite 'fences'; there are barriers, copies, shared memory"):
        measure(tmp_path, ["fences"])

    def none():
        raise GpuUnavailable("no driver")

    monkeypatch.setattr(run, "device", none)
    with pytest.raises(GpuUnavailable):
        measure(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_command(card, tmp_path):
    done = CliRunner().invoke(tcemu.cli.commands, ["measure", str(tmp_path), "--suite", "barriers", "--runs", "3"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("NVIDIA TEST (sm_90a), driver 580.1, CUDA 13.0\n")
    assert f"{tmp_path / 'sm_90a.json'}: " in done.output
    assert "costs in cycles of NVIDIA TEST" in done.output
    assert read(tmp_path / "sm_90a.json").provenance["command"] == 'tcemu measure --suite "barriers" --runs 3 FOLDER'


def test_older_chips_get_what_they_have():
    probes = {name: list(suite("sm_75", "7.8")) for name, suite in SUITES.items() if "wgmma" not in name}
    assert probes["copies"] == []
    instructions = {part.instruction for some in probes.values() for probe in some for part in probe.parts}
    assert "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32" in instructions
    assert not any("m16n8k16" in name or "stmatrix" in name or "wgmma" in name for name in instructions)
    assert all("proxy" not in probe.ptx("7.8", "sm_75") for some in probes.values() for probe in some)


@pytest.mark.slow
def test_names_of_kernels_are_their_own():
    names = [probe.name for suite in SUITES.values() for probe in suite("sm_90a", "8.7")]
    assert len(set(names)) == len(names) > 2500


@pytest.mark.parametrize(
    "spelling", ["ld.shared.v4.b32", *(f"ldmatrix.sync.aligned.m8n8.{x}.shared.b16" for x in ("x1", "x4", "x2.trans"))]
)
@pytest.mark.parametrize("step", [1, 2, 8])
def test_a_chain_of_loads_leads_every_lane_back(spelling, step):
    """Run in the emulator: a lane loads its own address, so that the whole chain has the same conflicts."""
    base, addresses = 1024, np.arange(32) * 16 * step
    words = memory.image(spelling, 4, addresses, base) if spelling.startswith("ld.") else None
    if words is not None:
        loaded = words.view(np.uint32)[addresses // 4]
    else:
        count = int(spelling.split(".x")[1][0])
        shared = np.concatenate([np.zeros(base, np.uint8), memory.image(spelling, count, addresses[: 8 * count], base)])
        loaded = tcemu.run(spelling, addresses + base, shared=shared)[:, 0]
        loaded, addresses = loaded[: 8 * count], addresses[: 8 * count]
    np.testing.assert_array_equal(loaded, addresses + base)


def test_conditions_give_the_wavefronts():
    (probe,) = (each for each in memory.accesses("sm_90a", "8.7") if each.name == "access_0_8_1")
    addresses = probe.lanes(0)
    assert probe.parts[0].how == {"wavefronts": wavefronts(addresses, "ld.shared.b32").count, "apart": 32, "warps": 1}


def assembled():
    """Each suite, and a target that has its instructions: every day another one."""
    for number, suite in enumerate(SUITES):
        targets = ["sm_90a"] if "wgmma" in suite else ["sm_90a", "sm_80", "sm_120a"]
        yield from ((suite, target) for target in spread(targets, len(targets), first=number + turn(len(targets))))


@pytest.mark.slow
@pytest.mark.skipif(PTXAS is None, reason="there is no ptxas")
@pytest.mark.parametrize(("suite", "target"), list(assembled()))
def test_the_assembler_takes_the_kernels(suite, target, tmp_path):
    """Some of each suite, in one module. wgmma is not put one after the other, which ptxas would say."""
    probes = list(SUITES[suite](target, "8.7"))
    some = spread(probes[:: max(1, len(probes) // 20)], 3, first=turn(3))
    texts = [probe.ptx("8.7", target).partition(".visible") for probe in some]
    (head,) = {head for head, _, _ in texts}
    path = tmp_path / "probes.ptx"
    path.write_text(head + "".join(entry + rest for _, entry, rest in texts), encoding="ascii")
    level = "-O3" if "wgmma" in suite else "-O1"  # what it says about wgmma, it says when it optimises
    command = [PTXAS, level, f"-arch={target}", "-o", str(path.with_suffix(".cubin")), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "serializ" not in done.stderr, done.stderr

"""tcemu warm: the tables determine what it compiles, and afterwards nothing is left to compile."""

import os
import subprocess
import sys
from functools import cache

import pytest
import quick
from click.testing import CliRunner

import tcemu
import tcemu.cli
from tcemu.commands import warm, works
from tcemu.instructions import FAMILIES

pytest.importorskip("numba")
#: Finding the works takes a second.
WORKS = cache(works.works)


@pytest.fixture
def known(monkeypatch):
    """The works, found once."""
    monkeypatch.setattr(works, "works", WORKS)
    return WORKS()


def test_every_family_that_executes_alone_is_warmed(known):
    warmed = {tcemu.parse(work.opcode, target=work.target).family for work in known}
    assert warmed == {family.name for family in FAMILIES if family.execute}


def test_every_model_of_the_arithmetic_table_is_warmed(known):
    from tcemu.arithmetic import ROWS

    found = (tcemu.parse(work.opcode, target=work.target) for work in known)
    models = {
        type(each.arithmetic(tcemu.instructions.target_named(work.target)).model)
        for each, work in zip(found, known, strict=True)
        if {*"abcd"} <= {*each.types}
    }
    assert models == {type(row.model) for row in ROWS}


@pytest.mark.slow
def test_the_second_time_there_is_nothing_to_do(tmp_path, monkeypatch, known):
    done = []
    monkeypatch.setattr("tcemu.kernels.host.compiling.cache_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "perform_all", lambda some: done.extend(some) or iter(some))
    first, second = (CliRunner().invoke(tcemu.cli.commands, ["warm"]) for _ in range(2))
    assert first.output.endswith(f"The kernels are compiled, in {tmp_path}.\n")
    assert sorted(map(str, done)) == sorted(map(str, known)), "each once"
    assert second.output == "The kernels are already compiled; there is nothing to do.\n"
    monkeypatch.setattr("tcemu.kernels.host.compiling.fingerprint", lambda: "another processor")
    assert "The kernels are compiled, in" in CliRunner().invoke(tcemu.cli.commands, ["warm"]).output


def test_the_course_opens_even_if_compiling_fails(tmp_path, monkeypatch, known):
    def fail(some):
        raise OSError("no space left")
        yield

    monkeypatch.setattr("tcemu.kernels.host.compiling.cache_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "perform_all", fail)
    assert warm.warm_up() == (
        "Not all kernels could be compiled in advance (no space left); each is compiled when it is first needed."
    )
    assert not list(tmp_path.iterdir()), "the next time it is tried again"


def test_without_numba_there_is_nothing_to_compile():
    done = subprocess.run(
        [sys.executable, "-m", "tcemu", "warm"],
        env={**os.environ, "TCEMU_KERNELS": "reference"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("There is nothing to compile")


@pytest.mark.slow
def test_works_are_performed_in_processes_of_their_own(known):
    """What they compile is kept where other processes find it: tests/kernels/test_compiling.py."""
    some = known[:2]
    assert sorted(map(str, warm.perform_all(some))) == sorted(map(str, some))


#: Prints which kernels the process needed, compiled by it or by others before: (name, types of the arguments).
NEEDED = """
from tcemu.kernels.host.compiling import functions
print(*sorted({f"{each.py_func.__qualname__}{types}" for each in functions() for types in each.overloads}), sep="\\n")
"""
#: What `tcemu warm` performs, in one process.
WARMED = """
from tcemu.commands import warm, works
warm._prepare()
for work in works.works():
    works.perform(work)
works.compile_small()
"""
#: What a learner may run: instructions that stand for others, a third of them every day, drawn anew, as many warps as
#: were not warmed; whole matrices, of several tiles; a kernel on the machine. Fails if something is compiled.
AFTERWARDS = """
import os
from itertools import islice
import numpy as np
import tcemu
from tcemu.backend import backend
backend()
from numba.core import event
class Listener(event.Listener):
    def on_start(self, event):  # an exception would only end this thread, and numba's lock would stay with it
        os.write(2, f"compiles {event.data['dispatcher'].py_func.__qualname__}".encode())
        os._exit(1)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
from tcemu.commands.works import multiply, works
from tcemu.gemm import mma_pipeline, wgmma_tma, wmma_global
from tcemu.instructions.table import family_of
from tcemu.vectors import cases, classes, emulator
np.seterr(all="ignore")
for work in works()[PART]:
    instruction = tcemu.parse(work.opcode, target=work.target)
    kinds = classes(instruction)
    for kind, warps in ((kinds[0], 1), (kinds[-1], 7 if instruction.family.startswith("wgmma") else 70)):
        for case in islice(cases(instruction, kind, warps, "another"), 1):
            case.answer(emulator(work.target))
    if family_of(instruction).matrices and not instruction.sparse:
        multiply(instruction, work.target, 300)
half = np.arange(128 * 128).reshape(128, 128).astype(np.float16) % 7
opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
tcemu.matmul(half, half, instruction=opcode)
for module in (mma_pipeline, wgmma_tma, wmma_global):
    module.multiply(half, half)
"""


@pytest.mark.slow
def test_after_tcemu_warm_nothing_is_compiled():
    """Nothing is needed that warming did not need. Both use the tests' cache, which may already hold some of it."""
    needed = []
    part = "[:]" if quick.THOROUGH else f"[{quick.turn(3)}::3]"
    for code in (WARMED, AFTERWARDS.replace("[PART]", part)):
        environment = {**os.environ, "TCEMU_QUIET": "1", "TCEMU_KERNELS": "numba"}
        command = [sys.executable, "-c", code + NEEDED]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        needed.append(set(done.stdout.splitlines()))
    warmed, afterwards = needed
    assert len(afterwards) > 20
    assert afterwards <= warmed

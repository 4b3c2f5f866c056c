"""Without numba all results are the same, but slower; a backend that does not exist raises an error that says so."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from places import TESTS
from quick import some

import tcemu
from tcemu.backend import on_all_cores
from tcemu.kernels.host.threads import cores

ROOT = Path(tcemu.__file__).parents[1]

#: Answers of every kind of arithmetic, as hashes; of few warps, because the reference takes its time.
PROBE = """
import json, sys
sys.path.insert(0, TESTS)
import tcemu
from tcemu.vectors import digest, matrices
from tcemu.backend import backend
answers = {}
for opcode, target in CASES:
    instruction = tcemu.parse(opcode, target=target)
    given = matrices(instruction, "specials" if instruction.types["a"].kind == "float" else "bits", 1)
    d = tcemu.run(opcode, *given, target=target)
    fragment = instruction.fragments["d"]
    matrix = fragment.unpack(d)
    assert (fragment.pack(matrix) == d).all() or instruction.types["d"].kind == "float"
    answers[opcode + target] = digest(d)
print(json.dumps({"backend": backend(), "numba": "numba" in sys.modules, "answers": answers}))
"""

CASES = [
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_90a"),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80"),
    ("mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e5m2.f16", "sm_90a"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32", "sm_89"),
    ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32", "sm_120a"),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16", "sm_90a"),
    ("mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16", "sm_70"),
    ("mma.sync.aligned.m8n8k4.row.col.rm.f64.f64.f64.f64", "sm_90a"),
    ("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32", "sm_90a"),
    ("mma.sync.aligned.m8n8k32.row.col.s32.u4.s4.s32", "sm_90a"),
    ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", "sm_90a"),
]

#: Makes every import of numba fail, as where it is not installed, and find_spec find nothing.
BLOCKER = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""
#: As the import system says it where nothing of that name is installed: nobody finds it.
ABSENT = """
import sys
class Absent:
    def __init__(self, finder): self.finder = finder
    def find_spec(self, name, path=None, target=None):
        return None if name.split(".")[0] in ("numba", "llvmlite") else self.finder.find_spec(name, path, target)
    def __getattr__(self, name): return getattr(self.finder, name)
sys.meta_path[:] = [Absent(finder) for finder in sys.meta_path]
"""


def ask(statements, **environment):
    setup = f"TESTS, CASES = {str(TESTS)!r}, {CASES!r}\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TCEMU_QUIET": "1", "TCEMU_KERNELS": "", **environment}
    return subprocess.run(
        [sys.executable, "-c", setup + statements], capture_output=True, text=True, env=environment, check=False,
        timeout=300,
    )  # fmt: skip


def answers(statements, **environment):
    done = ask(statements, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def by_numba():
    pytest.importorskip("numba")
    return answers(PROBE, TCEMU_KERNELS="numba")


@pytest.mark.slow
def test_numba_computes_where_it_is_installed(by_numba):
    assert (by_numba["backend"], by_numba["numba"]) == ("numba", True)
    assert len(by_numba["answers"]) == len(CASES)


def test_the_reference_gives_the_same_answers_and_loads_no_numba(by_numba):
    told = answers(PROBE, TCEMU_KERNELS="reference")
    assert (told["backend"], told["numba"]) == ("reference", False)
    assert told["answers"] == by_numba["answers"]


@pytest.mark.parametrize("how", some([BLOCKER, ABSENT], 1), ids=some(["imports fail", "nothing is found"], 1))
def test_without_numba_everything_answers(by_numba, how):
    told = answers(how + PROBE)
    assert (told["backend"], told["numba"]) == ("arrays", False)
    assert told["answers"] == by_numba["answers"]


#: The first answers of a process: who gave them, after each of 64 single warps and one batch.
FIRST = """
import json, sys
import numpy as np
import tcemu
mma = tcemu.parse(CASES[0][0])
a, b, c = (np.arange(32 * n, dtype=np.uint32).reshape(32, n) * 0x9E3779B9 >> 3 for n in (4, 2, 4))
told = []
for warps in [1] * 64 + [300]:
    held = (np.repeat(each[None], warps, axis=0) for each in (a, b, c))
    d = tcemu.run(mma, *held)
    told.append(("numba" in sys.modules, d[-1].tolist()))
print(json.dumps(told))
"""


@pytest.mark.slow
def test_the_first_small_answers_are_the_references_and_the_same():
    pytest.importorskip("numba")
    told = answers(FIRST)
    loaded = [numba for numba, _ in told]
    assert not loaded[0], "one warp is not worth loading numba"
    assert loaded == sorted(loaded), "numba stays"
    assert loaded[-1], "the kernels compute what is many"
    assert 1 < loaded.index(True) < 64, "so do many small answers"
    assert all(d == told[0][1] for _, d in told)


@pytest.mark.slow
def test_a_large_first_answer_is_the_kernels():
    pytest.importorskip("numba")
    large = FIRST.replace("[1] * 64 + [300]", "[20]")
    assert [numba for numba, _ in answers(large)] == [True]
    assert [numba for numba, _ in answers(large, TCEMU_KERNELS="reference")] == [False]
    assert answers(FIRST.replace("64", "1"), TCEMU_KERNELS="numba")[0][0], "who asks for numba gets it at once"


#: Who moves fragments, after each of 40 loads of as many warps as WARPS.
MOVED = """
import json, sys
import numpy as np
import tcemu
shared, told = np.arange(512, dtype=np.uint16).view(np.uint8), []
at = np.broadcast_to(np.arange(0, 512, 16, dtype=np.uint32), (WARPS, 32))
for _ in range(40):
    d = tcemu.run("ldmatrix.sync.aligned.m8n8.x4.shared.b16", at, shared=shared)
    told.append(("numba" in sys.modules, d[-1].tolist()))
print(json.dumps(told))
"""


@pytest.mark.slow
def test_many_moves_are_the_kernels_and_the_same():
    pytest.importorskip("numba")
    many, few = answers(MOVED.replace("WARPS", "2000")), answers(MOVED.replace("WARPS", "1"))
    assert (many[0][0], many[-1][0]) == (False, True)
    assert not few[-1][0], "a few single warps are not worth loading numba"
    assert all(d == many[0][1] for _, d in many + few)


@pytest.mark.parametrize("parts", [range(1), range(40)])
def test_every_part_is_worked_on_and_the_first_error_is_raised(parts):
    done, wrong = set(), {7, 23}

    def work(part):
        done.add(part)
        if part in wrong:
            raise ValueError(part)

    with pytest.raises(ValueError, match=r"^7$") if wrong & set(parts) else nullcontext():
        on_all_cores(work, parts)
    assert done == set(parts)


FORKED = """
import json, os, threading
from tcemu.backend import on_all_cores
done, both = [], threading.Barrier(2, timeout=20)
for _ in range(3):
    on_all_cores(lambda part: (both.wait(), done.append(threading.get_ident())), range(2))
alive, child = threading.active_count(), os.fork()
if child == 0:
    on_all_cores(lambda part: both.wait(), range(2))
    os._exit(0)
print(json.dumps([len(done), len(set(done)), alive, os.waitpid(child, 0)[1]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_helpers_are_kept_and_not_inherited():
    pytest.importorskip("numba")
    if cores() < 2:
        pytest.skip("needs two cores")
    calls, threads, alive, status = answers(FORKED, TCEMU_KERNELS="numba")
    assert (calls, threads, status) == (6, 2, 0)
    assert alive <= cores()


ENVIRONMENT = """
import json, os
from tcemu.backend import WORTH_LOADING, backend
reads, read = [], os.environ.get
os.environ.get = lambda *given: reads.append(given[0]) or read(*given)
told = [backend(1) for _ in range(9)]
os.environ["TCEMU_KERNELS"] = "reference"
told.append(backend(2 * WORTH_LOADING))
print(json.dumps([told, reads.count("TCEMU_KERNELS")]))
"""


@pytest.mark.slow
def test_the_environment_is_read_where_it_can_decide():
    assert answers(ENVIRONMENT) == [["reference"] * 10, 2]


SLIDER = """
import json, sys, threading
from tcemu.show.widgets import bits_of_a_number
explorer = bits_of_a_number("e4m3")
before = "numba" in sys.modules
explorer._repr_mimebundle_()
for thread in threading.enumerate():
    if thread.name == "tcemu-load":
        thread.join()
print(json.dumps([before, "numba" in sys.modules]))
"""


@pytest.mark.slow
def test_a_slider_loads_numba_in_the_background():
    pytest.importorskip("numba")
    assert answers(SLIDER) == [False, True]
    assert answers(SLIDER, TCEMU_KERNELS="reference") == [False, False]
    assert not ask("from tcemu.backend import load_soon; load_soon()", TCEMU_KERNELS="nonsense").stderr


AT_ONCE = """
import json, threading
from tcemu.backend import load_soon
load_soon()
import tcemu.kernels.batch.plan  # makes kernels while numba prepares itself: both take numba's locks
for thread in threading.enumerate():
    if thread.name == "tcemu-load":
        thread.join()
print(json.dumps("ended"))
"""


@pytest.mark.slow
def test_numba_loads_in_the_background_while_kernels_are_imported():
    pytest.importorskip("numba")
    assert answers(AT_ONCE) == "ended"


RUN = """
import numpy as np, tcemu
i = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
z = lambda n: np.zeros((32, n), np.uint32)
try:
    tcemu.run(i, z(4), z(2), z(4))
except tcemu.TcemuError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("wrong", "words"),
    some(
        [
            ("nonsense", ["KernelsUnavailable", "TCEMU_KERNELS='nonsense'", "numba, arrays or reference, or empty"]),
            ("referenzz", ["Did you mean 'reference'?"]),
            ("Numba", ["KernelsUnavailable", "Did you mean 'numba'?"]),
        ],
        1,
    ),
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_kernels_that_do_not_exist_are_an_error(wrong, words):
    done = ask(RUN, TCEMU_KERNELS=wrong)
    assert done.returncode == 0, done.stderr
    for word in words:
        assert word in done.stdout


@pytest.mark.parametrize("how", some([BLOCKER, ABSENT], 1), ids=some(["imports fail", "nothing is found"], 1))
def test_numba_that_is_asked_for_and_missing_is_an_error(how):
    done = ask(how + RUN, TCEMU_KERNELS="numba")
    assert done.returncode == 0, done.stderr
    for word in ("KernelsUnavailable", "TCEMU_KERNELS=numba", "numba is not installed", " install numba"):
        assert word in done.stdout


def test_an_error_comes_before_a_kernel_is_chosen():
    done = ask(
        'import tcemu\ntry: tcemu.parse("mma")\nexcept tcemu.IllegalInstruction: print("explained")',
        TCEMU_KERNELS="nonsense",
    )
    assert done.stdout == "explained\n", done.stderr


def test_numba_is_prepared_although_names_are_added_meanwhile(monkeypatch):
    """numba goes through Python's builtins; a name that another thread adds at that time is an error there."""
    from tcemu.kernels.host import compiling

    tried, refreshed = [], []

    class Target:
        """The first time, somebody adds a name."""

        typing_context = SimpleNamespace(refresh=lambda: refreshed.append("types"))

        @property
        def target_context(self):
            tried.append(True)
            if len(tried) == 1:
                raise RuntimeError("dictionary changed size during iteration")
            return SimpleNamespace(refresh=lambda: refreshed.append("functions"))

    monkeypatch.setattr(compiling, "cpu_target", Target())
    compiling.prepare()
    assert refreshed == ["types", "functions"]

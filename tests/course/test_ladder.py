"""The ladder: given kernels reach their rungs, wrong ones do not, and what is kept stays."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from quick import spread, turn

from tcemu import cuda, tracebacks
from tcemu.course import ladder
from tcemu.course.ladder import judge, kept, meetings, picture, programs, table, timing
from tcemu.course.lay_out import RECORD
from tcemu.errors import CourseError
from tcemu.gemm import twins
from tcemu.instructions import parse

RUNGS = {each.name: each for each in table.RUNGS}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A laid-out course of one's own, without the IPython that another test may have left."""
    monkeypatch.setattr(tracebacks, "shell", lambda: None)
    (tmp_path / RECORD).write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def one_order(monkeypatch):
    monkeypatch.setattr(judge, "ORDERS", judge.ORDERS[:1])


def needs_nvrtc():
    if not cuda.available():
        pytest.skip("needs NVRTC")


# ---------------------------------------------------------------------------------------------- given kernels


#: Every day, every second rung is climbed in the one language, the others in the other.
PYTHON, CUDA = (spread(RUNGS, 2, turn(2) + first) for first in (0, 1))


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.slow
def test_a_given_kernel_in_python_reaches_its_rung(name, one_order):
    found = judge.judged(RUNGS[name], RUNGS[name].source("py"), seed=3)
    assert found, found.says
    assert found.cycles == RUNGS[name].given["py"]


@pytest.mark.parametrize("name", CUDA)
@pytest.mark.slow
def test_a_given_kernel_in_cuda_reaches_its_rung(name, one_order):
    needs_nvrtc()
    found = judge.judged(RUNGS[name], RUNGS[name].source("cu"), seed=3)
    assert found, found.says
    assert found.cycles == pytest.approx(RUNGS[name].given["cu"], rel=0.05)  # another NVRTC orders loads differently


@pytest.mark.slow
def test_a_given_kernel_is_right_in_every_order():
    assert judge.judged(RUNGS["warp_specialised"], RUNGS["warp_specialised"].source("py"), seed=4)


@pytest.mark.parametrize("name", RUNGS)
def test_both_languages_have_the_same_functions_in_the_same_order(name):
    python = re.findall(r"^def (\w+)", RUNGS[name].source("py"), re.MULTILINE)
    cpp = re.findall(r"^__device__ \w+ (\w+)\(", RUNGS[name].source("cu"), re.MULTILINE)
    assert [each for each in python if each not in ("kernel", "value", "fragment")] == cpp


def test_every_rung_asks_for_less_than_the_one_before_would_give():
    """Otherwise the rung before would pass: by its instructions, or by its cycles."""
    for lower, upper in zip(table.RUNGS[1:], table.RUNGS[2:], strict=False):
        same_track = lower.track == upper.track
        tighter = all(upper.goal[each] < lower.given[each] for each in table.LANGUAGES)
        assert set(upper.needed) - set(lower.needed) or upper.persistent or (same_track and tighter), upper.name


def test_the_header_has_the_asm_of_the_instruction():
    made = twins.inline(parse(judge._WGMMA), "wgmma", [1, 1, 0, 0], described=True)
    header = (table.GIVEN / "wgmma.h").read_text(encoding="utf-8")
    function = header[header.index("__device__") :].replace('"\n        "', "")
    assert re.sub(r"\s", "", function) == re.sub(r"\s", "", made)


# ---------------------------------------------------------------------------------------------- wrong kernels

GEMM = """
from tcemu.gemm import mma_pipeline
LAUNCH = 128, 128, 32, 0
def kernel(warp, a, b, d):
    if warp.ctaid[:2] == (0, 0):
        mma_pipeline.multiply(np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16))
"""

#: Sizes that show these mistakes in less time than the check takes.
SMALLER = {
    **dict.fromkeys(("ldmatrix", "cp_async", "swizzle"), ((72, 136, 136),)),
    **dict.fromkeys(("wgmma_tma", "warp_specialised"), ((72, 40, 328),)),
    "cluster": ((200, 136, 328),),
    "persistent": ((520, 300, 72),),
}

WRONG = [
    ("naive", "i in range(k)", "i in range(k - 1)", "are wrong; D[0][0] is"),
    ("naive", "with warp.only((row < m) & (column < n)):", "with warp.only(row < m):", "sanitizer reports"),
    ("naive", "range(k)", "reversed(range(k))", "last bits"),
    ("naive", "        warp.st_global(d.at(row, column), c.view(np.uint32))\n", "", "stores nothing"),
    ("naive", "def kernel(warp, a, b, d)", "def other(warp)", "no function kernel"),
    ("naive", "LAUNCH = TILE_M", "SIZES = TILE_M", "LAUNCH must be"),
    ("naive", "LAUNCH = TILE_M, TILE_N, THREADS, 0", "LAUNCH = TILE_M, TILE_N, 0, 0", "LAUNCH must be"),
    ("naive", "c = np.zeros(32, np.float32)", "c = np.zeros(32, np.float32", "SyntaxError"),
    ("naive", "range(k)", "range(depth)", "NameError"),
    ("wmma", "c = warp.run(MMA, held_a, held_b, c)", "c = warp.run(MMA, held_a, held_b, warp.registers(8, fill=0))",
     "only the last 16 columns"),
    ("wmma", "range(0, k, 16)", "range(0, k - 16, 16)", "the last 16 columns of A and B are missing"),
    ("wmma", "TILE_N * x", "0 * x", "With m, n, k = 256, 128, 256, the kernel leaves 24,576 elements of D unwritten"),
    ("ldmatrix", "        warp.bar_sync()  # all have copied\n", "", "ldmatrix-unsynced"),
    ("ldmatrix", "        warp.bar_sync()  # all have read\n", "", "shared-race"),
    ("ldmatrix", "[j % 2, j % 2 + 2]", "[j % 2 * 2, j % 2 * 2 + 1]",
     "D[0][8] has A[0][0] times B[0][8], where it should have A[0][0] times B[8][0]."),
    ("ldmatrix", "b, TILE_N * x, TILE_K", "b, 0, TILE_K", "D[0][128] has A[0][0] times B[0][0], where it should have"),
    ("cp_async", "wait_group(STAGES - 2)", "wait_group(STAGES - 1)", "cp.async.wait_group 1 would cover it"),
    ("cp_async", "warp.bar_sync()  # all threads'", "#", "ldmatrix-unsynced"),
    ("cp_async", "        warp.cp_async_commit_group()  # an", "            warp.cp_async_commit_group()  # an",
     "may leave its group pending"),
    ("swizzle", "unit ^ row % 8", "unit", "the goal is at most 8,400.\nWhere its warps spend their time"),
    ("swizzle", "unit ^ row % 8", "unit ^ row", "shared-race"),
    ("swizzle", "16 * (unit ^ row % 8)", "16 * unit ^ row % 8", "misaligned"),
    ("swizzle", "warp.cp_async(to + place(i // 8, i % 8)", "warp.cp_async(to + 128 * (i // 8) + 16 * (i % 8)",
     "D[0][1] has A[0][0] times B[1][8], where it should have A[0][0] times B[1][0]."),
    ("wgmma_tma", "turn % 2", "0", "tma-unwaited"),
    ("wgmma_tma", "    warp.wgmma_fence()\n", "", "wgmma-fence-first"),
    ("wgmma_tma", "full(stage), STAGE_BYTES)", "full(stage), A_BYTES)", "16384 bytes, but its copies deliver 49152"),
    ("wgmma_tma", "    warp.wgmma_wait_group(0)\n", "", "wgmma-wait-weak"),
    ("wgmma_tma", "        warp.bar_sync()  # and so have all: it may be refilled\n", "", "overwritten-early"),
    ("wgmma_tma", "tile + warp.warpgroup * 64 * 128", "tile",
     "D[64][0] has A[0][0] times B[0][0], where it should have A[64][0]"),
    ("wgmma_tma", "a.step(at), b.step(at)", "a.step(at // 2), b.step(at // 2)", "D[8][0] has 2 products, where"),
    ("warp_specialised", "(turn + 1) % 2", "turn % 2", "warp 8 at my_gemm:39: waiting for the mbarrier"),
    ("warp_specialised", "warp.only(warp.laneid == 0):\n        w", "warp.only(True):\n        w", "mbarrier-arrivals"),
    ("warp_specialised", '        warp.setmaxnreg("inc", 232)\n', "", "setmaxnreg"),
    ("warp_specialised", '        warp.setmaxnreg("dec", 40)\n', "", "wait for 64 registers"),
    ("warp_specialised", '"inc", 232', '"inc", 248', "have released registers, but not enough"),
    ("warp_specialised", "        store(warp,", "        warp.bar_sync()\n        store(warp,", "exited-threads"),
    ("wgmma_tma", "        warp.fence_mbarrier_init()\n", "", "mbarrier-init-fence"),
    ("cluster", "        warp.fence_mbarrier_init()\n", "", "mbarrier-init-fence"),
    ("cluster", "cta_mask=EVERYONE", "cta_mask=1", "expects 49152 bytes, but its copies deliver 16384"),
    ("cluster", "STAGE_BYTES)  # the", "A_BYTES + 64 * 256)  # the", "32768 bytes, but its copies deliver 49152"),
    ("cluster", "    with warp.only(rank < CLUSTER):", "    with warp.only(rank < 1):", "deadlock"),
    ("cluster", "4 * CONSUMERS * CLUSTER", "4 * CONSUMERS", "overwritten-early"),
    ("cluster", "    warp.barrier_cluster_wait()  # until", "    #", "All blocks of the cluster must wait"),
    ("cluster", "_init()\n    warp.barrier_cluster_arrive()\n    warp.barrier_cluster_wait()\n",
     "_init()\n    warp.bar_sync()\n", "mbarrier-init"),
    ("cluster", "TILE_N * x + part)", "TILE_N * x)", "D[0][128] has A[0][0] times B[0][0], where it should have"),
    ("persistent", "            c = warp.reg", "            count = 0\n            c = warp.reg", "tma-unwaited"),
    ("persistent", "            y, x = place(", "            x, y = place(", "unwritten, the first D[256][0]"),
    ("persistent", "warp.nctaid[0]", "1", "both write the same values"),
    ("persistent", "    release(warp, (count - 1) % STAGES)\n    return count", "    return count", "deadlock"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "words"), spread(WRONG, 4, turn(4)))
def test_a_wrong_kernel_is_told_what_is_wrong(name, old, new, words, one_order):
    rung = replace(RUNGS[name], shapes=SMALLER.get(name, RUNGS[name].shapes))
    assert old in rung.source("py")
    found = judge.judged(rung, rung.source("py").replace(old, new), seed=5)
    assert not found
    assert words in found.says


@pytest.mark.parametrize(("given", "words"), [("", "it has 1, 1, 1"), ("__cluster_dims__(2, 1, 1)", "it has 2, 1, 1")])
def test_clusters_are_asked_for_in_cuda(given, words):
    needs_nvrtc()
    text = RUNGS["cluster"].source("cu").replace("__cluster_dims__(1, CLUSTER, 1)", given)
    found = judge.judged(RUNGS["cluster"], text)
    assert found.says == f"The clusters of this rung need __cluster_dims__(1, 2, 1) before the kernel's name; {words}."


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (
            "wgmma_tma",
            ", TILE_M, TILE_N};",
            "};",
            "takes tensor maps, so LAUNCH ends with the rows of A's and of B's box",
        ),
        (
            "cp_async",
            "SHARED};",
            "SHARED, 1, 1};",
            "takes pointers, so LAUNCH has no boxes; got 128, 128, 256, 98304, 1",
        ),
    ],
)
def test_launch_names_boxes_where_the_kernel_takes_maps(name, old, new, words):
    needs_nvrtc()
    source = RUNGS[name].source("cu")
    assert old in source
    assert words in judge.judged(RUNGS[name], source.replace(old, new)).says


def test_a_missing_fence_is_told_in_cuda(one_order):
    needs_nvrtc()
    rung = replace(RUNGS["wgmma_tma"], shapes=SMALLER["wgmma_tma"])
    text = rung.source("cu").replace("fence_mbarrier_init();", "", 1)
    assert "fix: After mbarrier.init, execute fence.mbarrier_init" in judge.judged(rung, text, seed=5).says


@pytest.mark.parametrize("name", ["naive", "wgmma_tma"])
def test_an_accumulator_that_is_never_set_is_told_in_cuda(name, one_order):
    needs_nvrtc()
    rung = replace(RUNGS[name], shapes=SMALLER.get(name, RUNGS[name].shapes))
    change = {"naive": ("float c = 0;", "float c;"), "wgmma_tma": ("at > 0 || !first", "true")}[name]
    text = rung.source("cu")
    assert change[0] in text
    says = judge.judged(rung, text.replace(*change), seed=5).says
    assert "was computed from a variable to which nothing had been assigned" in says


def test_a_line_of_the_header_has_no_folder(one_order):
    needs_nvrtc()
    text = RUNGS["warp_specialised"].source("cu").replace("(turn + 1) % 2", "turn % 2")
    assert "  at ladder.h:" in judge.judged(RUNGS["warp_specialised"], text).says


def test_an_error_that_ends_with_a_question_gets_no_full_stop():
    text = RUNGS["naive"].source("py").replace("warp.st_global(", "warp.st_globl(")
    assert judge.judged(RUNGS["naive"], text, seed=5).says.endswith("Did you mean 'st_global'?")


@pytest.mark.parametrize(
    ("multiply", "words"),
    [
        (lambda a, b: a @ b.T, "With k = 64 D is right"),
        (lambda a, b: a[:, :1] @ b[:, :1].T, "D[1][0] lacks A[1][1] times B[0][1]."),
        (lambda a, b: 2 * a @ b.T, "D[0][0] has 2 products, where it should have one, A[0][0] times B[0][0]."),
        (lambda a, b: np.roll(a, 1, 0) @ b.T, "D[0][0] has A[71][7] times B[0][7], where it should have A[0][0]"),
        pytest.param(lambda a, b: None, "", id="it does not finish"),
        (lambda a, b: a @ b.T + 1, "Where A and B are zeros, D is not"),
        (lambda a, b: _halves_swapped(a) @ b.T, "D[0][0] has A[8][16] times B[0][24], where it should have A[0][8]"),
        pytest.param(lambda a, b: 15360 * (a @ b.T), "", id="it takes bits for numbers"),
        pytest.param(lambda a, b: (a @ b.T).astype(np.float16).astype(np.float32), "", id="it rounds"),
    ],
)
def test_which_elements_meet(multiply, words):
    says = meetings.which(lambda a, b: multiply(a.astype(np.float32), b.astype(np.float32)), 72, 8)
    assert says.startswith(words)
    assert bool(says) == bool(words)


def _halves_swapped(a):
    """As if registers 1 and 2 of A were swapped: on the diagonal, nothing shows it."""
    tiles = np.pad(a, ((0, -len(a) % 16), (0, 0))).reshape(-1, 2, 8, a.shape[1] // 16, 2, 8)
    return tiles.swapaxes(1, 4).reshape(-1, a.shape[1])[: len(a)]


@pytest.mark.slow
def test_the_rung_before_does_not_pass(one_order):
    found = judge.judged(RUNGS["ldmatrix"], RUNGS["mma_sync"].source("py"), seed=5)
    assert "this rung is about ldmatrix" in found.says


@pytest.mark.slow
def test_a_kernel_of_tcemu_is_not_ones_own(one_order):
    text = f"import numpy as np\n{GEMM}\n{RUNGS['naive'].source('py').replace('def kernel', 'def mine')}"
    text = text.replace("mma_pipeline.multiply(", "mine(warp, a, b, d); mma_pipeline.multiply(")
    assert not judge.judged(RUNGS["naive"], text, seed=5)
    store = "    warp.run(STORE"
    own = RUNGS["wmma"].source("py").replace(store, f"    import tcemu; tcemu.parse(MMA)\n{store}")
    assert judge.judged(RUNGS["wmma"], own, seed=5)
    called = own.replace("tcemu.parse(MMA)", "tcemu.matmul(*[__import__('numpy').zeros((16, 16), 'f2')] * 2, "
                         "instruction='mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32')")  # fmt: skip
    assert "calls matmul of tcemu" in judge.judged(RUNGS["wmma"], called, seed=5).says


def test_cuda_that_does_not_compile_is_told_so():
    needs_nvrtc()
    found = ladder.check("naive", RUNGS["naive"].source("cu").replace("float c = 0;", "float c = ;"))
    assert "expected an expression" in found.says
    assert "no __device__ int LAUNCH[]" in ladder.check("naive", 'extern "C" __global__ void kernel() {}\n').says


# ---------------------------------------------------------------------------------------------- what is kept


def test_a_right_kernel_is_kept_and_begins_the_next_rung(place, one_order):
    own = f"# mine\n{RUNGS['wmma'].source('py')}"
    assert ladder.check("wmma", own, seed=1).aside == 'Kept as my_gemm/2_wmma.py. Next: ladder.rung("mma_sync").'
    assert (place / "my_gemm" / "2_wmma.py").read_text(encoding="utf-8") == own
    assert ladder.start("mma_sync") == f"%%rung mma_sync\n{own}"
    assert ladder.board().cycles == {"wmma.py": RUNGS["wmma"].given["py"]}
    assert ladder.start("mma_sync", "CUDA C++").endswith(RUNGS["wmma"].source("cu"))


def test_the_fewest_cycles_stay(place):
    rung = RUNGS["wmma"]
    for count in (9, 7, 8):
        kept.note(rung, "py", "text", count)
    assert json.loads((place / "my_gemm" / "cycles.json").read_text(encoding="utf-8")) == {"wmma.py": 7}
    (place / "my_gemm" / "cycles.json").write_text("{", encoding="utf-8")
    assert kept.cycles() == {}


def test_a_wrong_kernel_is_not_kept(place):
    assert not ladder.check("naive", "x = 1\n")
    assert not (place / "my_gemm").exists()


def test_outside_a_course_nothing_is_written(place, monkeypatch):
    (place / RECORD).unlink()
    monkeypatch.setattr(kept, "_texts", {})
    monkeypatch.setattr(kept, "_cycles", {})
    kept.note(RUNGS["wmma"], "py", "# mine", 5)
    assert kept.text(RUNGS["wmma"], "py") == "# mine"
    assert kept.cycles() == {"wmma.py": 5}
    assert not (place / "my_gemm").exists()


def test_the_magic_checks_its_cell(monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    monkeypatch.setattr("tcemu.tracebacks.shell", lambda: shell)
    ladder._register()
    shell.run_cell("%%rung naive\nLAUNCH = 16, 16, 256, 0\ndef kernel(warp, a, b, d):\n    oops")
    assert "NameError: name 'oops' is not defined" in shell.user_ns["_"].says
    assert "(line 4 of kernel)" in shell.user_ns["_"].says  # the magic's line is the first


@pytest.mark.parametrize("name", ["top", 0, 11, True])
def test_an_unknown_rung_is_refused(name):
    with pytest.raises(CourseError, match="the ladder has no rung"):
        ladder.rung(name)


def test_an_unknown_language_and_a_missing_file_are_refused():
    with pytest.raises(CourseError, match='must be "Python" or "CUDA C'):
        ladder.start("wmma", "Fortran")
    with pytest.raises(CourseError, match="there is no file"):
        ladder.check("wmma", "nothing.py")


# ---------------------------------------------------------------------------------------------- board, GPU


def test_the_board_says_in_words_what_it_draws():
    board = picture.Board({"swizzle.cu": 7357, "swizzle.py": 9000})
    line = next(each for each in str(board).splitlines() if each.startswith(" 6"))
    assert "7,357 CUDA C++" in line
    assert f"{judge.share_of_peak(RUNGS['swizzle'].track, 7357):.1%}" in line
    assert board.html.count('<th scope="row">') == len(RUNGS)
    for rung in table.RUNGS:
        assert f"{picture.recorded().tflops(rung.name):.1f}" in board.html


def test_what_was_recorded_has_versions_and_fits_its_times():
    with picture._RECORDED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for size in {row["n"] for row in rows}:
        assert [row["rung"] for row in rows if row["n"] == size] == ["cublas", *RUNGS]
    for row in rows:
        m, n, k = (int(row[each]) for each in "mnk")
        assert float(row["tflops"]) == pytest.approx(2e-9 * m * n * k / float(row["milliseconds"]), rel=0.06)
        assert float(row["error"]) < np.sqrt(k) / 4096
        assert all(row[each] for each in ("card", "driver", "clock", "compiler", "date", "how"))
        assert row["rung"] == "naive" or float(row["from_cublas"]) == 0  # every bit is cuBLAS's


def test_without_a_gpu_a_sentence_says_what_to_do(monkeypatch):
    monkeypatch.setattr(timing, "_compiled", lambda text, folder: folder / "kernel.cubin")
    done = type("Done", (), {"stdout": '{"refused": "no driver"}\n'})
    monkeypatch.setattr(timing.subprocess, "run", lambda *_, **__: done)
    told = ladder.on_gpu("persistent")
    assert str(told).startswith("the given persistent: no driver. On a machine with an H100, the same line times")
    assert told.tflops == 0


def test_a_wrong_result_on_a_gpu_is_not_timed(monkeypatch):
    monkeypatch.setattr(timing, "_compiled", lambda text, folder: folder / "kernel.cubin")
    found = json.dumps({"right": False, "card": "H100", "error": 3.5, "tflops": 900.0})
    monkeypatch.setattr(timing.subprocess, "run", lambda *_, **__: type("Done", (), {"stdout": found}))
    assert "D is wrong on H100" in str(ladder.on_gpu("persistent"))


@pytest.mark.parametrize(("says", "told"), [("Traceback\nMemoryError\n", "MemoryError"), ("", "exit status -11")])
def test_a_crash_beside_a_gpu_is_told_in_words(monkeypatch, says, told):
    monkeypatch.setattr(timing, "_compiled", lambda text, folder: folder / "kernel.cubin")
    done = type("Done", (), {"stdout": "", "stderr": says, "returncode": -11})
    monkeypatch.setattr(timing.subprocess, "run", lambda *_, **__: done)
    assert ladder.on_gpu("persistent").says == f"the process that used the GPU crashed: {told}"


def test_a_size_that_no_rung_takes_is_refused():
    with pytest.raises(CourseError, match="multiple of 32"):
        ladder.on_gpu("wmma", 100)


def test_a_text_is_told_apart_from_its_language():
    assert programs.language_of_text(RUNGS["wmma"].source("cu")) == "cu"
    assert programs.language_of_text(RUNGS["wmma"].source("py")) == "py"


def test_launch_is_named_if_its_boxes_do_not_fit_the_kernel():
    needs_nvrtc()
    rung = replace(RUNGS["wgmma_tma"], shapes=SMALLER["wgmma_tma"])
    text = rung.source("cu").replace(", TILE_M, TILE_N};", ", TILE_M, TILE_N / 2};")
    says = judge.judged(rung, text, seed=5).says
    assert "2 boxes of 64 × 128 f16, 16384 bytes each" in says
    assert says.endswith("\n  LAUNCH asks for boxes of 128 rows of A and 128 of B")

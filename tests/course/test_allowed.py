"""What an answer may call is judged by what ran: whatever names it uses, and in a grader's box as in a notebook."""

import _thread
import cProfile
import functools
import os
import queue
import sys
import threading
import time
import weakref
from dataclasses import replace
from functools import partial

import greenlet
import numpy as np
import pytest
from rows import rows

import tcemu
from tcemu import formats, microscaling, sparse
from tcemu.course import exercise, exercises
from tcemu.course.allowed import refused
from tcemu.course.checking import judged
from tcemu.entered import Entered, watch_threads
from tcemu.errors import TableError
from tcemu.gemm import wgmma_cluster, wgmma_tma
from tcemu.layouts import Descriptor, copy_tile
from tcemu.recipes import Recipe, multiply

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
PACK = MMA.fragments["a"].pack


def in_a_thread(function):
    def call(*arguments):
        found = []
        thread = threading.Thread(target=lambda: found.append(function(*arguments)))
        thread.start()
        thread.join()
        return found[0]

    return call


def fused(a, b, c, target="sm_90a"):
    left, right, start = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16), np.zeros((16, 8), np.float32)
    results = []
    for row, column, addend in zip(a, b, c, strict=True):
        left[0], right[:, 0], start[0, 0] = row, column, addend
        results.append(tcemu.matmul(left, right, start, instruction=MMA, target=target)[0, 0])
    return np.array(results, np.float32)


def capstone(kernel, plan):
    def gemm(warp, a, b, d):
        kernel(warp, plan, a, b, d)

    return gemm


def from_a_string(function):
    held = {"function": function}
    exec("def call(*arguments):\n    return function(*arguments)", held)  # noqa: S102 - as learners do
    return held["call"]


#: (exercise, what it may not call, right answers that do)
FORBIDDEN = [
    ("fragment_by_hand", "Fragment.pack", from_a_string(PACK)),
    ("fragment_by_hand", "Fragment.pack", lambda A: PACK(A).copy()),
    ("fragment_by_hand", "Fragment.pack", PACK),
    ("fragment_by_hand", "Fragment.pack", partial(PACK)),
    ("fragment_by_hand", "Fragment.pack", lambda A: getattr(MMA.fragments["a"], "pa" + "ck")(A).copy()),
    ("fragment_by_hand", "Fragment.pack", lambda A: next(map(PACK, [A]))),
    ("fragment_by_hand", "Fragment.pack", in_a_thread(PACK)),
    ("fragment_by_hand", "Fragment.pack", lambda A: eval("PACK(A)", {"PACK": PACK, "A": A})),  # noqa: S307 - ours
    ("whole_product", "matmul", lambda A, B: tcemu.matmul(A, B, instruction=MMA)),
    ("whole_product", "multiply", lambda A, B: multiply(Recipe(MMA.opcode), A, B)),
    ("one_fused_sum", "matmul", fused),
    ("chain_of_an_a100", "matmul", partial(fused, target="sm_80")),
    ("e4m3_patterns", "Format.encode", lambda x: formats.lookup("e4m3").encode(x, satfinite=True).astype(np.uint8)),
    ("prune_a_row", "prune", lambda row: sparse.prune(row, "2:4")),
    ("encode_descriptor", "Descriptor", lambda *fields: Descriptor(*fields).encode()),
    ("descriptor_of_a_box", "Descriptor.for_tile",
     lambda start, rows: Descriptor.for_tile("f16", rows, 64, swizzle=128, start=start)),
    ("quantise_to_nvfp4", "quantise",
     lambda blocks: [x.view(np.uint8).reshape(s) for x, s in zip(microscaling.quantise(blocks, "nvfp4"),
                                                                 ((4, 16), (4,)), strict=True)]),
    ("fill_for_descriptor", "copy_tile",
     lambda A, descriptor: (shared := np.zeros(65536, np.uint8), copy_tile(A, shared, descriptor))[0]),
    ("where_of_a", "Layout.holders", lambda row, column: next(
        (lane, slot // 2) for lane, slot in MMA.fragments["a"].layout.holders(row, column))),
    ("where_of_b", "exercise", lambda *case: exercise("where_of_b").judge.right(*map(np.array, case))),
    ("wgmma_gemm", "kernel", capstone(wgmma_tma.kernel, wgmma_tma.Plan(columns=64, stages=2))),
    ("wgmma_gemm", "kernel", lambda warp, *given: wgmma_tma.kernel(warp, wgmma_tma.Plan(columns=64, stages=2), *given)),
    ("cluster_gemm", "kernel", capstone(wgmma_cluster.kernel, wgmma_cluster.ClusterPlan(columns=64, stages=2))),
]  # fmt: skip


@rows("row", FORBIDDEN, lambda row: f"{FORBIDDEN.index(row)}: {row[0]} by {row[1]}")
def test_what_may_not_be_called_earns_nothing(row):
    name, called, answer = row
    verdict = judged(exercise(name), answer, "ada")
    assert verdict.state == "wrong"
    assert "of tcemu, which it may not" in verdict.says
    assert called in verdict.says
    assert verdict.points == 0


def test_nothing_is_watched_afterwards():
    assert judged(exercise("repair_swap"), lambda warp, x, out: warp.bar_sync()).state == "wrong"
    assert sys.getprofile() is None


def test_the_message_says_what_may_be_called():
    says = judged(exercise("whole_product"), lambda A, B: tcemu.matmul(A, B, instruction=MMA)).says
    assert says == (
        "Your function calls matmul of tcemu, which it may not: of tcemu it may call run, parse, Fragment.pack and "
        "Fragment.unpack."
    )


def test_every_name_of_a_row_is_one_of_tcemu():
    for each in exercises().values():
        assert refused(each, ["tcemu.no.such"]) or each.only is None
    with pytest.raises(TableError, match=r"tcemu\.mutmal is not a name of tcemu"):
        refused(replace(exercise("where_of_a"), only=("tcemu.mutmal",)), ["tcemu.run"])


def test_what_the_package_calls_itself_does_not_count():
    with Entered() as entered:
        tcemu.run(MMA, PACK(np.ones((16, 16), np.float16)), np.zeros((32, 2), np.uint32), np.zeros((32, 4), np.uint32))
    assert entered.names == {"tcemu.instructions.run.run", "tcemu.layouts.fragment.Fragment.pack"}


def test_what_python_calls_because_an_object_is_gone_does_not_count():
    """It is called at whatever line of the learner's that happens to be."""
    found = []
    name = f"{tcemu.__path__[0]}/anywhere.py"
    made = {"__name__": "tcemu.anywhere", "found": found, "weakref": weakref, "functools": functools}
    source = (
        "def forget(key, _=0):\n    found.append(key)\n"
        "def keep(one):\n    return weakref.ref(one, functools.partial(forget, 1))"
    )
    exec(compile(source, name, "exec"), made)  # noqa: S102 - stands for a module of the package
    one, two = frozenset("a"), frozenset("b")
    held = made["keep"](one), weakref.finalize(two, made["forget"], 1)
    with Entered() as entered:
        del one, two
    assert (len(found), entered.names, len(held)) == (2, set(), 2)
    with Entered() as entered:
        made["forget"](1)
    assert entered.names == {"tcemu.anywhere.forget"}


def test_a_kernel_may_use_the_machine_and_nothing_that_multiplies_beside_it():
    def repair_swap(warp, x, out, beside=None):
        warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
        warp.bar_warp_sync()
        warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))
        if beside is not None:
            beside()

    def product():
        tcemu.matmul(np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16), instruction=MMA)

    assert judged(exercise("repair_swap"), repair_swap)
    assert "calls matmul of tcemu" in judged(exercise("repair_swap"), partial(repair_swap, beside=product)).says


def test_a_wrong_answer_is_told_what_is_wrong_first():
    verdict = judged(exercise("prune_a_row"), lambda row: sparse.prune(row, "1:2"))
    assert verdict.mistake == "You kept one of every two elements, which is what tf32 does."
    assert verdict.points == 0


def unseen(A):
    before = sys.getprofile()
    sys.setprofile(None)
    held = PACK(A)
    sys.setprofile(before)
    return held


def unseen_to_the_end(A):
    sys.setprofile(None)
    return PACK(A)


def profiled(A):
    with cProfile.Profile():
        return PACK(A)


def unseen_without_a_call(A):
    next(map(sys.setprofile, [None]))
    return PACK(A)


def by_a_shell(A):
    os.system("true")  # noqa: S605 - ours
    return PACK(A)


def in_a_bare_thread(A):
    found = []
    _thread.start_new_thread(lambda: found.append(PACK(A)), ())
    while not found:
        time.sleep(0.001)
    return found[0]


def elsewhere(A):
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, PACK(A).tobytes())
        os._exit(0)
    os.wait()
    return np.frombuffer(os.read(reading, 512), np.uint32).reshape(32, 4)


@pytest.mark.parametrize(("answer", "why"), [
    (unseen, "replaces Python's profiler"), (unseen_to_the_end, "replaces Python's profiler"),
    (profiled, "replaces Python's profiler"),
    (unseen_without_a_call, "replaces Python's profiler"),
    (elsewhere, "starts a process, or a thread without"), (by_a_shell, "starts a process"),
    (in_a_bare_thread, "starts a process, or a thread"),
])  # fmt: skip
def test_what_nobody_can_see_is_not_accepted(answer, why):
    verdict = judged(exercise("fragment_by_hand"), answer, "ada")
    assert (verdict.state, verdict.points) == ("wrong", 0)
    assert why in verdict.says


def test_a_thread_that_waits_since_before_is_seen():
    tasks, results = queue.Queue(), queue.Queue()
    before = threading.getprofile()
    watch_threads()
    try:
        threading.Thread(target=lambda: results.put(PACK(tasks.get())), daemon=True).start()
    finally:
        threading.setprofile(before)
    with Entered() as entered:
        tasks.put(np.zeros((16, 16), np.float16))
        results.get()
    assert entered.names == {"tcemu.layouts.fragment.Fragment.pack"}


def test_warps_that_take_turns_are_seen_to_their_ends():
    """Greenlets share the profiler of their thread: the first that ends leaves it to the others."""
    entered = Entered()
    steps = [int, lambda: sparse.prune(np.arange(4.0), "2:4"), lambda: PACK(np.zeros((16, 16), np.float16))]

    def kernel(number):
        turn.switch()
        steps[number]()

    turn = greenlet.getcurrent()
    before = sys.getprofile(), threading.getprofile()
    warps = [greenlet.greenlet(entered.around(kernel)) for _ in steps]
    for each in warps:
        each.switch(warps.index(each))
    assert not entered.names
    for each in warps:
        each.switch()
    assert entered.names == {"tcemu.sparse.prune", "tcemu.layouts.fragment.Fragment.pack"}
    assert (sys.getprofile(), threading.getprofile()) == before


def test_what_greenlets_written_in_python_start_is_the_packages():
    """In a browser, their own frames, and the cell that launched the kernel, lie around the first function of each."""
    started = {}
    exec(compile("def start(body): return body()", greenlet.__file__, "exec"), started)  # noqa: S102 - a frame of that file
    with Entered() as entered:
        started["start"](lambda: formats.lookup("f16"))
    assert entered.names == {"tcemu.formats.table.lookup"}
    with Entered() as entered:
        started["start"](partial(formats.lookup, "f16"))
    assert not entered.names


def test_notes_within_notes_do_not_end_them():
    with Entered() as outer:
        with Entered():
            formats.lookup("f16")
        PACK(np.zeros((16, 16), np.float16))
    assert outer.names == {"tcemu.layouts.fragment.Fragment.pack"}


def test_a_function_without_tcemu_looks_into_none_of_its_objects():
    """Attributes call nothing, but where the grader runs the function there is no tcemu to have them."""
    a = MMA.fragments["a"]

    def rows():
        return 16 if a.role == "a" else 8

    def where_of_a(row, column):
        return 4 * (row % 8) + column % 8 // 2, column // 8 * 2 + row // (rows() // 2)

    verdict = judged(exercise("where_of_a"), where_of_a)
    assert (verdict.state, verdict.points) == ("wrong", 0)
    assert verdict.says == "Your function uses a, which is an object of tcemu: here it does the work without tcemu."
    sizes = a.shape

    def where_of_a(row, column):
        return 4 * (row % 8) + column % 8 // 2, column // 8 * 2 + row // (sizes[0] // 2)

    assert judged(exercise("where_of_a"), where_of_a)

"""Right kernels that are written in other ways than the solutions: all of them are accepted.

What they compute, and whether the sanitizer has something to say, stays the same. `unusual/` has kernels and changes of
the solutions, a file for each notebook:

    # summed_by_warps: a named barrier      the exercise, and what is different
    - warp.bar_sync()                       words of the solution
    + warp.bar_sync(3, 128)                 and what stands there instead

    # repair_edge: lanes exit
        with warp.only(warp.threads >= 48): the body of a kernel
            ...
"""

import functools
import re
from itertools import groupby
from pathlib import Path

import pytest
from places import ROOT
from quick import spread, turn
from rows import rows

from tcemu.course import exercise, judges
from tcemu.course.checking import judged, verdicts_of
from tcemu.course.solutions import execute, solutions

EVERY = {
    each.name: each
    for path in sorted((ROOT / "solutions").glob("[0-9]*.ipynb"))
    for each in solutions(path)
    if isinstance(judge := exercise(each.name).judge, judges.Kernel) and "Python" in judge.languages
}


def kernel_of(each, code=None):
    """The kernel of a solution, or of other code in its place."""
    namespace = {"__name__": "__main__"}
    with verdicts_of("ada"):
        for number, source in enumerate((*each.setup, each.code if code is None else code)):
            execute(source, f"{each.path}#{each.name}-{number}-unusual", namespace)
    return namespace[each.name]


class Held:
    """Kernels as methods and objects."""

    def __init__(self, kernel):
        self.kernel = kernel

    def method(self, warp, *arguments):
        self.kernel(warp, *arguments)

    __call__ = method


def decorated(kernel):
    @functools.wraps(kernel)
    def call(*arguments, **options):
        return kernel(*arguments, **options)

    return call


#: Objects that are as good as a function.
FORMS = {
    "partial": functools.partial,
    "lambda": lambda kernel: lambda warp, *arguments: kernel(warp, *arguments) or 0,
    "method": lambda kernel: Held(kernel).method,
    "object": Held,
    "decorated": decorated,
    "in a with": lambda kernel: lambda warp, *arguments: [kernel(warp, *arguments) for _ in range(1)] and None,
}


@rows("name", EVERY, str)
@pytest.mark.slow
def test_a_kernel_may_be_any_object_that_can_be_called(name):
    number = list(EVERY).index(name) % len(FORMS)
    form = FORMS[list(FORMS)[number]]
    verdict = judged(exercise(name), form(kernel_of(EVERY[name])), "ada")
    assert verdict, str(verdict)


def written():
    """Each entry of unusual/: the exercise, what is different, and its lines."""
    for path in sorted((Path(__file__).parent / "unusual").glob("*.txt")):
        for entry in path.read_text().removeprefix("# ").split("\n# "):
            title, _, lines = entry.partition("\n")
            yield *title.split(": ", 1), lines.rstrip().splitlines()


def before_the_end(code):
    """A solution without the mark behind it, and without the kernel that it mends."""
    return code.partition("### END SOLUTION")[0]


def changed(code, lines):
    """The code of a solution with changes, or with another body."""
    if lines[0][:2] == "  ":
        return "\n".join([code.partition("\n")[0], *lines, ""])
    code = before_the_end(code)
    parts = ["\n".join(line[2:] for line in part) for _, part in groupby(lines, key=lambda line: line[0])]
    for before, after in zip(parts[::2], parts[1::2], strict=True):
        assert before in code, before
        code = code.replace(before, after)
    return code


def is_right(name, code):
    verdict = judged(exercise(name), kernel_of(EVERY[name], code), "ada")
    assert verdict, f"{verdict}\n{code}"


WRITTEN = list(written())


@pytest.mark.slow
@rows("name what lines", spread(WRITTEN, 3, turn(3)), lambda name, what, _: f"{name}: {what}")
def test_a_solution_in_another_way_is_right(name, what, lines):
    is_right(name, changed(EVERY[name].code, lines))


def indented(code: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in code.splitlines(keepends=True))


#: What arms the mbarrier for two copies, one thread that begins, and a load.
ARM = r"warp.mbarrier_arrive_expect_tx\(BAR, rows.bytes \+ columns.bytes\)"
ONE = r"( *)with warp.only\(warp.threads == 0\):\n( *)"
LOAD = r"warp.ld_global\(([^()]*(?:\([^()]*\))?[^()\"]*)\)"
PLACES = "16 * (warp.warpid % 4) + warp.laneid // 4 + 8 * (i // 2), 2 * (warp.laneid % 4) + i % 2"
#: (what changes, pattern and replacement, ...)
EVERYWHERE = [
    # ---- the product
    ("in two calls", (r"multiply\(warp, c\)", "multiply(warp, c, 0, 32); multiply(warp, c, 32, 64, add=True)")),
    ("the last columns first", (
        r"multiply\(warp, c\)", "multiply(warp, c, 48, 64); multiply(warp, c, 0, 48, add=True)")),
    ("in two groups", (r"multiply\(warp, c\)", (
        "multiply(warp, c, 0, 16); warp.wgmma_commit_group(); multiply(warp, c, 16, 64, add=True)"))),
    ("added to zeros", (r"c = warp.registers\(4\)", "c = warp.registers(4, fill=0)"),
     (r"multiply\(warp, c\)", "multiply(warp, c, add=True)")),
    ("added to zeros, step by step", (r"c = warp.registers\(4\)", "c = warp.registers(4, fill=0)"),
     (r"k > 0, 1, 1, 0, 0", "1, 1, 1, 0, 0")),
    ("registers that held something", (r"c = warp.registers\(4\)", "c = warp.registers(4, fill=0x7FC00000)")),
    ("subtracted twice", (r"c = warp.registers\(4\)", "c = warp.registers(4, fill=0)"), (
        r"multiply\(warp, c\)\n((?:.*\n)*?.*wait_group\(0\))", (
            "[warp.run(WGMMA, c, *tiles(k), 1, -1, 1, 0, 0) for k in (16, 0, 48, 32)]\n"
            r"\1; c[...] = (0 - c.view(np.float32)).view(np.uint32)"))),
    ("the steps from the last", (r"for k in range\(0, 64, 16\):", "for k in (48, 32, 16, 0):"), (r"k > 0", "k < 48")),
    ("descriptors by hand", (r"\*tiles\(k\)", (
        '*(Descriptor.for_tile("f16", m, 64, swizzle=128, start=at).step(k).step(k) '
        "for m, at in ((64, 0), (8, 8192)))"))),
    ("waited for twice", (r"warp.wgmma_wait_group\(0\)", "warp.wgmma_wait_group(1); warp.wgmma_wait_group(0)")),
    ("by their names in PTX", (r"warp.wgmma_(fence|commit_group)\(\)", r'warp.run("wgmma.\1.sync.aligned")'),
     (r"warp.wgmma_wait_group\((\d)\)", r'warp.run("wgmma.wait_group.sync.aligned", \1)')),
    ("a group of nothing", (r"warp.wgmma_commit_group\(\)", "warp.wgmma_commit_group(); warp.wgmma_commit_group()")),
    # ---- the output
    ("element by element", (r"save\(warp, d, c\)", (
        f"[warp.st_global(d.at({PLACES}), c[:, [i]]) for i in (3, 1, 2, 0)]"))),
    ("through shared memory", (r"(?m)^    save\(warp, d, c\)", (
        "    rows, columns = 16 * warp.warpid + warp.laneid // 4, warp.laneid % 4\n"
        '    warp.st_shared(20480 + 40 * rows + 8 * columns, c[:, :2], "v2.b32")\n'
        '    warp.st_shared(20480 + 40 * rows + 320 + 8 * columns, c[:, 2:], "v2.b32")\n'
        "    warp.bar_warp_sync()\n"
        "    for half in (0, 8):\n"
        "        row = 16 * warp.warpid + half + warp.laneid // 4\n"
        '        staged = warp.ld_shared(20480 + 40 * row + 8 * columns, "v2.b32")\n'
        '        warp.st_global(d.at(row, 2 * columns), staged, "v2.b32")'))),
    ("through neighbours", (r"(?m)^    save\(warp, d, c\)", (
        "    odd = warp.laneid % 2\n"
        "    sent = np.where(odd[:, None] == 0, c[:, 2:], c[:, :2])\n"
        '    sent = np.hstack([warp.shfl_sync("bfly", sent[:, i], 1).reshape(32, 1) for i in range(2)])\n'
        "    four = np.where(odd[:, None] == 0, np.hstack([c[:, :2], sent]), np.hstack([sent, c[:, 2:]]))\n"
        "    row = 16 * (warp.warpid % 4) + warp.laneid // 4 + 8 * odd\n"
        '    warp.st_global(d.at(row, 4 * (warp.laneid % 4 // 2)), four, "v4.b32")'))),
    # ---- who does it, and who waits
    ("another thread", (r"warp.threads == 0\b", "warp.threads == 77")),
    ("a lane that is elected", (r"warp.only\(warp.threads == 0\)", (
        "warp.only(warp.elect_sync() & (warp.warpid == 2))"))),
    ("a named barrier", (r"warp.bar_sync\(\)", "warp.bar_sync(7)")),
    ("barrier.cta", (r"warp.bar_sync\(\)", 'warp.run("barrier.cta.sync", 0)')),
    ("a reduction as the barrier", (r"warp.bar_sync\(\)", 'warp.bar_red("or", warp.laneid < 3)')),
    ("two barriers", (r"warp.bar_sync\(\)", "warp.bar_sync(1); warp.bar_sync(2)")),
    ("a barrier of the cluster", (r"warp.bar_sync\(\)", "warp.barrier_cluster_arrive(); warp.barrier_cluster_wait()")),
    ("a barrier of the block", (r"warp.bar_warp_sync\(\)", "warp.bar_sync()")),
    ("polled", (r"( *)warp.mbarrier_wait\((.*), (.*?)\)\n", (
        r"\1while not warp.mbarrier_test_wait(\2, \3):\n\1    pass\n"))),
    ("tried", (r"warp.mbarrier_wait\((.*), (.*?)\)\n", r"assert warp.mbarrier_try_wait(\1, \2)[warp.active].all()\n")),
    ("one lane waits for its warp", (r"    warp.mbarrier_wait\(BAR, 0\)\n    c =", (
        "    with warp.only(warp.laneid == 5):\n        warp.mbarrier_wait(BAR, 0)\n"
        "    warp.bar_warp_sync()\n    c ="))),
    ("exit instead of return", (r"        return\n", "        warp.exit()\n        return\n")),
    # ---- the copies
    ("bytes counted one by one", (ARM, (
        "warp.mbarrier_expect_tx(BAR, rows.bytes); warp.mbarrier_arrive_expect_tx(BAR, columns.bytes)"))),
    ("expected, copied, arrived", (
        r"        warp.mbarrier_arrive_expect_tx\(BAR, rows.bytes \+ columns.bytes\)\n((?:.*cp_async_bulk.*\n)+)",
        "        warp.mbarrier_expect_tx(BAR, 9216)\n\\1        warp.mbarrier_arrive(BAR)\n")),
    ("two arrivals", (r"mbarrier_init\(BAR, 1\)", "mbarrier_init(BAR, 2)"), (
        ARM, (
            "warp.mbarrier_arrive_expect_tx(BAR, columns.bytes); warp.mbarrier_arrive_expect_tx(BAR, rows.bytes)"))),
    ("every thread arrives", (r"mbarrier_init\(BAR, 1\)", "mbarrier_init(BAR, 128)"), (
        ONE + ARM, (
            r"\1warp.mbarrier_expect_tx(BAR, 72)\n\1warp.mbarrier_arrive(BAR)\n\1with warp.only(warp.threads == 0):"))),
    ("B first", (r"(?m)^(.*cp_async_bulk_tensor_shared_global\(0,.*\n)(.*cp_async_bulk_tensor.*\n)", r"\2\1")),
    ("boxes of 32 rows", (r"TensorMap.of\(a, \(64, 64\)", "TensorMap.of(a, (64, 32)"), (
        r"( *)warp.cp_async_bulk_tensor_shared_global\(0, rows, \(0, 0\), BAR\)", (
            r"\1for row in (32, 0):\n\1    warp.cp_async_bulk_tensor_shared_global(128 * row, rows, (0, row), BAR)")), (
        r"rows.bytes \+ columns.bytes", "9216")),
    ("the state of an arrival", (r"mbarrier_init\(BAR, 1\)", "mbarrier_init(BAR, 128)"), (
        ONE + ARM, (
            r"\1with warp.only(warp.threads == 0):\n\2warp.mbarrier_expect_tx(BAR, 9216)")), (
        r"warp.mbarrier_wait\(BAR, 0\)", "warp.mbarrier_wait(BAR, state=warp.mbarrier_arrive(BAR))")),
    # ---- memory
    ("word by word", (r'( *)warp.st_(shared|global)\((.*), (\w+), "v4.b32"\)\n', (
        r"\1for word in (2, 0, 3, 1):\n\1    warp.st_\2(\3 + 4 * word, \4[:, [word]])\n"))),
    ("pairs of words", (r'( *)warp.st_(shared|global)\((.*), (\w+), "v4.b32"\)\n', (
        "\\1for word in (0, 2):\n\\1    warp.st_\\2(\\3 + 4 * word, \\4[:, word : word + 2], 'v2.b32')\n"))),
    ("words of 64 bits", (r'warp.st_global\((.*), (c|d)\[:, (.*)\], "v2.b32"\)', (
        r'warp.st_global(\1, \2[:, \3].copy().view(np.uint64), "b64")'))),
    ("volatile loads", (LOAD, r'warp.ld_global(\1, order="volatile")')),
    # ---- the whole body
    ("all lanes by a mask", (r"(?s)^(def .*?:\n)(.*)", (
        lambda found: f"{found[1]}    with warp.only(warp.laneid >= 0):\n{indented(found[2])}"))),
    ("once in a loop", (r"(?s)^(def .*?:\n)(.*)", (
        lambda found: f"{found[1]}    for _ in range(1):\n{indented(found[2])}"))),
    ("a function inside", (r"(?s)^(def .*?:\n)(.*)", (
        lambda found: f"{found[1]}    def inner():\n{indented(found[2])}\n        return 0\n\n    inner()\n"))),
    ("fence.proxy.async for new mbarriers", (r"warp.fence_mbarrier_init\(\)", "warp.fence_proxy_async()")),
    ("words of global memory by their type", (LOAD, r'warp.ld_global(\1, "u32")')),
]  # fmt: skip


def rewritten(code, changes):
    """The code after all changes, or None if one does not concern it."""
    for pattern, replacement in changes:
        code, count = re.subn(pattern, replacement, code)
        if not count:
            return None
    return code


#: Changes that cost what the exercise limits, or leave out what its task names.
OTHER_COST = {
    ("mended_tile", "word by word"), ("mended_tile", "pairs of words"), ("stmatrix_epilogue", "word by word"),
    ("stmatrix_epilogue", "pairs of words"), ("repair_mbarrier_fence", "fence.proxy.async for new mbarriers"),
}  # fmt: skip
REWRITTEN = [
    (name, what, code)
    for what, *changes in EVERYWHERE
    for name, each in EVERY.items()
    if (code := rewritten(before_the_end(each.code), changes)) and (name, what) not in OTHER_COST
]


@pytest.mark.slow
@rows("name what code", spread(REWRITTEN, 10, turn(10)), lambda name, what, _: f"{name}: {what}")
def test_a_change_of_many_solutions_leaves_them_right(name, what, code):
    is_right(name, code)


def test_every_kernel_has_ten_other_ways():
    ways = [name for name, *_ in (*WRITTEN, *REWRITTEN)]
    assert {name: ways.count(name) for name in EVERY if ways.count(name) < 10} == {}

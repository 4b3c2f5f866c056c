"""Right kernels that are written in other ways than the solutions: all of them are accepted.

Each row changes a solution; what it computes, and whether the sanitizer has something to say, stays the same.
"""

import functools

from places import ROOT
from rows import rows

from tcemu.course import exercise, judges
from tcemu.course.checking import judged, verdicts_of
from tcemu.course.solutions import execute, solutions

EVERY = {
    each.name: each
    for path in sorted((ROOT / "solutions").glob("[0-9]*.ipynb"))
    for each in solutions(path)
    if isinstance(exercise(each.name).judge, judges.Kernel)
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
def test_a_kernel_may_be_any_object_that_can_be_called(name):
    number = list(EVERY).index(name) % len(FORMS)
    form = FORMS[list(FORMS)[number]]
    verdict = judged(exercise(name), form(kernel_of(EVERY[name])), "ada")
    assert verdict, str(verdict)


MBARRIER = (
    "    with warp.only(warp.threads == 0):\n        warp.mbarrier_init(0, 128)\n        warp.fence_mbarrier_init()\n"
    "    warp.bar_sync()\n"
)
#: (exercise, what changes, words of the solution and what stands there instead)
CHANGED = [
    ("summed_by_warps", "a named barrier", ("warp.bar_sync()", "warp.bar_sync(3, 128)")),
    ("summed_by_warps", "those who only store do not wait", ("    warp.bar_sync()\n    if warp.warpid == 0:\n", (
        "    if warp.warpid:\n        warp.bar_arrive(1, 128)\n    else:\n        warp.bar_sync(1, 128)\n"))),
    ("summed_by_warps", "pairs of words", ('warp.st_shared(mine, part, "v4.b32")', (
        'warp.st_shared(mine, part[:, :2], "v2.b32")\n    warp.st_shared(mine + 8, part[:, 2:], "v2.b32")'))),
    ("summed_by_warps", "a barrier in both branches", ("    warp.bar_sync()\n    if warp.warpid == 0:\n", (
        "    if warp.warpid:\n        warp.bar_sync()\n    else:\n        warp.bar_sync()\n"))),
    ("row_major_b", "added instead of joined", ("low | high << 16", "low + (high << 16)")),
    ("row_major_b", "multiplied instead of shifted", ("low | high << 16", "low ^ 65536 * high")),
    ("row_major_b", "every lane stores by itself",
     ('''warp.st_global(out.at(g + 8 * h, 2 * t), d[:, 2 * h : 2 * h + 2], "v2.b32")''', (
        "[warp.st_global(out.at(g + 8 * h, 2 * t + e), d[:, [2 * h + e]]) for e in (1, 0)]"))),
    ("wmma_gemm", "a zero from global memory", ("acc = warp.registers(8, fill=0)", (
        'acc = warp.run("wmma.load.c.sync.aligned.row.m16n16k16.global.f32", c.at(row, column), 64)'))),
    ("wmma_gemm", "other warps, other tiles", ("warp.warpid // 2), 16 * (2 * x + warp.warpid % 2)", (
        "warp.warpid % 2), 16 * (2 * x + warp.warpid // 2)"))),
    ("wmma_gemm", "other blocks, other tiles", ("x, y, _ = warp.ctaid", "y, x, _ = warp.ctaid")),
    ("product_of_64", "clamped", ("s32.s8.s8.s32", "s32.s8.s8.s32"), ("row.col.s32", "row.col.satfinite.s32")),
    ("product_of_64", "the second step first", ("range(0, 64, 32)", "(32, 0)")),
    ("product_of_64", "one store for each element", ('''    for half in range(2):
        warp.st_global(d.at(g + 8 * half, 2 * t), c[:, 2 * half : 2 * half + 2], "v2.b32")''', (
        "    for i in range(4):\n        warp.st_global(d.at(g + 8 * (i // 2), 2 * t + i % 2), c[:, [i]])"))),
    ("eight_rows", "joined at once", ('''    for register in range(2):
        held_b[:, register] = warp.ld_global(a.at(g, 2 * t + 8 * register))[:, 0]''', (
        "    held_b = np.hstack([warp.ld_global(a.at(g, 2 * t + 8 * r)) for r in range(2)])"))),
    ("eight_rows", "no accumulator of its own", ("warp.registers(4, fill=0)", "np.zeros((32, 4), np.uint32)")),
    ("eight_rows", "stored from the last", ("for register in range(4):\n        warp.st", (
        "for register in reversed(range(4)):\n        warp.st"))),
    ("transpose_16", "all loads first", ('''    for down in (0, 8):
        for right in (0, 8):
            matrix = warp.ld_global(x.at(down + g, right + 2 * t))
            turned = warp.run("movmatrix.sync.aligned.m8n8.trans.b16", matrix)
            warp.st_global(y.at(right + g, down + 2 * t), turned)''', '''    places = [(0, 0), (8, 0), (0, 8), (8, 8)]
    held = [warp.ld_global(x.at(down + g, right + 2 * t)) for down, right in places]
    held = [warp.run("movmatrix.sync.aligned.m8n8.trans.b16", each) for each in held]
    for (down, right), each in zip(places, held, strict=True):
        warp.st_global(y.at(right + g, down + 2 * t), each)''')),
    ("transpose_16", "a mask of all lanes", ("    for down in (0, 8):", (
        "    assert (warp.laneid >= 0).all()\n    for down in (8, 0):"))),
    ("mended_tile", "padding instead of a swizzle", ("128 * row + 16 * (column ^ row % 8)", "144 * row + 16 * column")),
    ("mended_tile", "a barrier of the block", ("warp.bar_warp_sync()", "warp.bar_sync()")),
    ("mended_tile", "copied asynchronously", ('''        copied = warp.ld_global(a.at(row, 8 * column), "v4.b32")
        warp.st_shared(128 * row + 16 * (column ^ row % 8), copied, "v4.b32")
''', "        warp.cp_async(128 * row + 16 * (column ^ row % 8), a.at(row, 8 * column), 16)\n"), (
        "    warp.bar_warp_sync()", "    warp.cp_async_wait_all()\n    warp.bar_warp_sync()")),
    ("stmatrix_epilogue", "padding instead of a swizzle", (
        "64 * row + 16 * (unit ^ row // 2 % 4)", "80 * row + 16 * unit")),
    ("stmatrix_epilogue", "a barrier of the block", ("warp.bar_warp_sync()", "warp.bar_sync()")),
    ("quantised_layer", "clamped", ("row.col.s32.s8", "row.col.satfinite.s32.s8")),
    ("quantised_layer", "the last step first", ("range(0, 96, 32)", "(64, 0, 32)")),
    ("quantised_layer", "scales loaded first", ("    for i in range(4):", (
        "    _ = warp.ld_global(scale_w.at(t)), warp.ld_global(scale_x.at(g))\n    for i in range(4):"))),
    ("binary_layer", "one added to twice", ("bits - 2 * d[:, [i]]", "bits - d[:, [i]] - d[:, [i]]")),
    ("binary_layer", "subtracted by hand", ("bits - 2 * d[:, [i]]", "bits + 2 * ~d[:, [i]] + 2")),
    ("sparse_tile", "without ::ordered_metadata", ("mma.sp::ordered_metadata", "mma.sp")),
    ("sparse_tile", "an accumulator of zeros", ("c = warp.registers(4, fill=0)", "c = np.zeros((32, 4), np.uint32)")),
    ("scaled_product", "an accumulator of zeros",
     ("c = warp.registers(4, fill=0)", "c = np.zeros((32, 4), np.uint32)")),
    ("gemm_of_one_tile", "two named barriers", ("        warp.bar_sync()\n", (
        "        warp.bar_sync(1 + step % 2, 128)\n"))),
    ("gemm_of_one_tile", "another thread copies",
     ("with warp.only(warp.threads == 0):", "with warp.only(warp.threads == 77):")),
    ("gemm_of_one_tile", "the empty mbarrier instead of a barrier", ("        with warp.only(warp.threads == 0):\n", (
        "        with warp.only(warp.threads == 0):\n            if step:\n"
        "                warp.mbarrier_wait(EMPTY, (step - 1) % 2)\n")), ("        warp.bar_sync()\n", (
        "        with warp.only(warp.laneid == 0):\n            warp.mbarrier_arrive(EMPTY)\n"))),
    ("two_stage_pipeline", "named barriers", ("            warp.mbarrier_wait(EMPTY + 8 * stage, (turn + 1) % 2)\n", (
        "            if turn:\n                warp.bar_sync(1 + stage, 160)\n")), (
        "        with warp.only(warp.laneid == 0):\n            warp.mbarrier_arrive(EMPTY + 8 * stage)\n", (
            "        if step + 2 < steps:\n            warp.bar_arrive(1 + stage, 160)\n"))),
    ("two_stage_pipeline", "barriers of the block, one step ahead",
     ("            warp.mbarrier_wait(EMPTY + 8 * stage, (turn + 1) % 2)\n", (
        "            if step >= 2:\n                warp.bar_sync()\n")), (
        "        with warp.only(warp.laneid == 0):\n            warp.mbarrier_arrive(EMPTY + 8 * stage)\n", (
            "        if step + 2 < steps:\n            warp.bar_sync()\n"))),
    ("two_stage_pipeline", "a lane that is elected", ("with warp.only(warp.laneid == 0):\n                copy", (
        "with warp.only(warp.elect_sync()):\n                copy"))),
    ("two_stage_pipeline", "every thread arrives", ("EMPTY + 8 * stage, 4)", "EMPTY + 8 * stage, 128)"), (
        "        with warp.only(warp.laneid == 0):\n            warp.mbarrier_arrive", "        warp.mbarrier_arrive")),
    ("two_stage_pipeline", "the last step first",
     ("copy(warp, a, b, step, stage)", "copy(warp, a, b, 7 - step, stage)")),
    ("mma_gemm", "other warps, other tiles", ("16 * (warp.warpid // 2), 16 * (warp.warpid % 2)", (
        "16 * (warp.warpid % 2), 16 * (warp.warpid // 2)"))),
    ("mma_gemm", "groups of copies", ("    warp.cp_async_wait_all()\n", (
        "    warp.cp_async_commit_group()\n    warp.cp_async_wait_group(0)\n"))),
    ("mma_gemm", "a named barrier", ("warp.bar_sync()", "warp.bar_sync(5, 128)")),
    ("mended_stages", "one lane arrives",
     ("warp.mbarrier_init(empty[stage], 32)", "warp.mbarrier_init(empty[stage], 1)"), (
        "        warp.mbarrier_arrive(empty[stage])", (
            "        warp.bar_warp_sync()\n        with warp.only(warp.laneid == 0):\n"
            "            warp.mbarrier_arrive(empty[stage])"))),
    ("mended_stages", "half of the row", ("warp.mbarrier_arrive_expect_tx(full[stage], 512)", (
        "warp.mbarrier_arrive_expect_tx(full[stage], 128)")), ("x.at(step, 0), 512, full", "x.at(step, 0), 128, full")),
    ("wgmma_gemm", "an accumulator that is not written", ("warp.registers(32, fill=0)", "warp.registers(32)")),
    ("wgmma_gemm", "a thread instead of an elected lane",
     ("warp.only(warp.elect_sync())", "warp.only(warp.laneid == 0)")),
    ("wgmma_gemm", "descriptors made once", ("start=16384 * stage + 8192 * i) for i in range(2)", (
        "start=8192 * i).step(0) for i in (2 * stage, 2 * stage + 1)"))),
    ("cluster_gemm", "a thread instead of an elected lane",
     ("warp.only(warp.elect_sync())", "warp.only(warp.laneid == 0)")),
    ("cluster_gemm", "an accumulator that is not written", ("warp.registers(32, fill=0)", "warp.registers(32)")),
    ("windowed_attention", "the age the other way round",
     ("(age >= 0) & (age < window)", "~((age < 0) | (age >= window))")),
    ("windowed_attention", "a named barrier",
     ("        warp.bar_sync()\n        s =", "        warp.bar_sync(2, 128)\n        s =")),
]  # fmt: skip


@rows("row", CHANGED, lambda row: f"{row[0]}: {row[1]}")
def test_a_solution_in_another_way_is_right(row):
    name, _, *changes = row
    code = EVERY[name].code
    for before, after in changes:
        assert before in code, before
        code = code.replace(before, after)
    verdict = judged(exercise(name), kernel_of(EVERY[name], code), "ada")
    assert verdict, str(verdict)

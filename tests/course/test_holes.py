"""Answers that were accepted although they miss the point, and what is told about each of them now."""

import numpy as np
import pytest
from places import ROOT
from rows import rows

from tcemu.course import exercise
from tcemu.course.checking import judged
from tcemu.course.solutions import solutions

EVERY = {each.name: each for path in sorted((ROOT / "solutions").glob("[0-9]*.ipynb")) for each in solutions(path)}
#: (exercise, words of the solution and what stands there instead, words of the verdict)
CHANGED = [
    ("gemm_of_one_tile", ("    begin(warp)\n", (
        "    with warp.only(warp.threads == 0):\n        warp.mbarrier_init(BAR, 1)\n    warp.bar_sync()\n")),
     "mbarrier-init-fence"),
    ("two_stage_pipeline", ("        warp.fence_mbarrier_init()\n", ""), "mbarrier-init-fence"),
    ("mended_stages", ("            warp.fence_mbarrier_init()\n", ""), "mbarrier-init-fence"),
    ("wgmma_gemm", ("            warp.fence_mbarrier_init()\n", ""), "mbarrier-init-fence"),
    ("cluster_gemm", ("            warp.fence_mbarrier_init()\n", ""), "mbarrier-init-fence"),
    ("two_stage_pipeline", ("            warp.mbarrier_wait(EMPTY + 8 * stage, (turn + 1) % 2)\n", (
        "            if step:\n                last = step - 1\n"
        "                warp.mbarrier_wait(EMPTY + 8 * (last % 2), last // 2 % 2)\n")),
     "it takes 8 late steps; at most 4 are allowed"),
    ("summed_by_warps", ("    warp.bar_sync()\n    if warp.warpid == 0:\n", (
        "    if warp.warpid == 0:\n        warp.bar_sync()\n")), "The sanitizer reports"),
]  # fmt: skip


@pytest.mark.slow
@rows("row", CHANGED, lambda row: f"{CHANGED.index(row)}: {row[0]}")
def test_a_solution_without_what_it_is_about_is_wrong(row):
    name, change, words = row
    code = EVERY[name].code
    assert change[0] in code
    verdict = EVERY[name].verdict(code.replace(*change), "ada")
    assert verdict.state == "wrong"
    assert words in f"{verdict.says} {verdict.mistake}"


def test_one_warp_does_not_do_the_work_of_four():
    code = """
def summed_by_warps(warp, a, b, out):
    if warp.warpid:
        return
    g, t = warp.laneid // 4, warp.laneid % 4
    parts = []
    for k in range(0, 64, 16):
        held_a = np.hstack([warp.ld_global(a.at(g + 8 * (r % 2), k + 8 * (r // 2) + 2 * t)) for r in range(4)])
        held_b = np.hstack([warp.ld_global(b.at(g, k + 8 * r + 2 * t)) for r in range(2)])
        parts.append(warp.run(mma, held_a, held_b, warp.registers(4, fill=0)).view(np.float32))
    for h in range(2):
        warp.st_global(out.at(g + 8 * h, 2 * t), sum(parts)[:, 2 * h : 2 * h + 2], "v2.b32")
"""
    says = EVERY["summed_by_warps"].verdict(code, "ada").says
    assert says == "The output is right, but mma.sync is issued by 1 warp, and all 4 should take part."


def test_random_matrices_do_not_tell_an_a100_from_an_h100():
    rng = np.random.default_rng(0)
    each = exercise("tell_a100_from_h100")
    for scale in (1, 100):
        for _ in range(20):
            a, b = (scale * rng.normal(size=(16, 16))).astype(np.float16), rng.normal(size=(16, 8)).astype(np.float16)
            assert not judged(each, (a, b))
    a[...], b[...] = 0, 0
    a[0, :3], b[:3, 0] = (1, 2.0**-15, -1), (1, 2.0**-10, 1)
    assert judged(each, (a, b))


def test_random_numbers_do_not_tell_native_from_emulated():
    rng = np.random.default_rng(0)
    each = exercise("native_or_emulated")
    for _ in range(50):
        a, b = (rng.normal(size=(2, 4)) * 2.0 ** rng.integers(-9, 9, (2, 4))).astype(np.float16)
        assert "More than two products" in judged(each, lambda a=a, b=b: (a, b)).says


@pytest.mark.parametrize("learner", ["", "ada", "grace", "eve"])
def test_random_orders_of_k_are_not_exact(learner):
    rng = np.random.default_rng(0)
    each = exercise("order_of_k")
    assert not any(judged(each, rng.permutation(32), learner) for _ in range(100))


def test_whose_bits_and_parts_of_k_are_functions():
    each = exercise("whose_bits")
    assert judged(each, each.judge.right(each.given())).points == 0
    for name in ("whose_bits", "parts_of_k"):
        assert exercise(name).unseen("other") is not None

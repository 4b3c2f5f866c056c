"""Kernels are judged by their output, the sanitizer's reports, the opcodes that they use, and what they cost."""

import numpy as np
import pytest

from tcemu.course import Given, exercise, judges
from tcemu.course.answers import AnswerError, Unanswered
from tcemu.course.checking import Verdict

X = np.arange(1, 65, dtype=np.uint32)
NOTHING = Given()


def reversing(**more):
    """Reverse 64 numbers through shared memory, with two warps."""
    return judges.Kernel(
        lambda given: {"x": X, "y": np.zeros(64, np.uint32)}, "y", lambda given: X[::-1],
        {"block": 64, "shared": 512}, **more,
    )  # fmt: skip


def finding(kernel, **more):
    judge = reversing(**more)
    return judge.mark(judge.collect(kernel, NOTHING), NOTHING)


def right(warp, x, y):
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(warp.threads)))
    warp.bar_sync()
    warp.st_global(y.at(warp.threads), warp.ld_shared(4 * (63 - warp.threads)))


def racing(warp, x, y):
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(warp.threads)))
    warp.st_global(y.at(warp.threads), warp.ld_shared(4 * (63 - warp.threads)))


def half(warp, x, y):
    if warp.warpid == 0:
        warp.st_global(y.at(warp.threads), warp.ld_global(x.at(63 - warp.threads)))


def forward(warp, x, y):
    warp.st_global(y.at(warp.threads), warp.ld_global(x.at(warp.threads)))


def wide(warp, x, y):
    warp.st_shared(8 * warp.threads, warp.ld_global(x.at(warp.threads)))
    warp.bar_sync()
    warp.st_global(y.at(warp.threads), warp.ld_shared(8 * (63 - warp.threads)))


def test_a_right_kernel_is_right_under_every_schedule():
    judge = reversing()
    evidence = judge.collect(right, NOTHING)
    assert evidence["out"].shape == (3, 64)
    assert judge.mark(evidence, NOTHING).right


def test_a_race_is_named_even_if_the_output_is_right():
    found = finding(racing)
    assert not found.right
    assert found.mistake == "Broken rule: shared-race: a race in shared memory between warps."
    assert "test_kernel_judge.py" in found.says
    verdict = str(Verdict(exercise("repair_swap"), "wrong", found))
    assert verdict.count("shared-race: a race in shared memory between warps") == 1, "the report has named it"


def test_what_is_not_stored_is_said():
    found = finding(half)
    assert found.mistake == "The wrong elements hold what they held before, as if the kernel had stored nothing there."
    assert found.share == pytest.approx(31 / 63), "one of the 64 numbers would be right if all were the same"
    assert finding(lambda warp, x, y: warp.bar_sync()).mistake.startswith("The kernel stores nothing in y")


def test_reversed_output_is_named():
    assert finding(forward).mistake == "The values are in reverse order."


def test_opcodes_are_needed_and_forbidden():
    assert "does not use ldmatrix" in finding(right, needed=("ldmatrix",)).says
    assert "uses bar.sync" in finding(right, forbidden=("bar.sync",)).says
    assert finding(right, needed=("bar.sync",)).right


def test_costs_are_counted_and_bounded():
    """64 numbers stored and loaded are 2 wavefronts each; at a stride of 8 bytes twice as many."""
    counted = finding(right, counts=("wavefronts", "instructions"), limits={"wavefronts": 4})
    assert counted.right
    assert counted.scores == {"wavefronts": 4, "instructions": 10}
    found = finding(wide, counts=("wavefronts",), limits={"wavefronts": 4})
    assert "it takes 8 wavefronts; at most 4 are allowed" in found.says
    assert "print(counters)" in found.says
    assert found.share == 0.5


def test_a_kernel_that_does_nothing_is_no_answer():
    with pytest.raises(Unanswered):
        finding(lambda warp, x, y: ...)


def raising(warp, x, y):
    raise ValueError("mine")


def beyond(warp, x, y):
    warp.st_shared(4 * warp.threads + 4096, 0)


def waiting(warp, x, y):
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(0, 2)
    warp.bar_sync()
    warp.mbarrier_wait(0, 0)


def test_a_kernel_that_fails_is_told_why():
    with pytest.raises(AnswerError, match=r"The kernel raises ValueError: mine \(line \d+ of raising\)"):
        finding(raising)
    assert "an access outside the memory" in finding(beyond).says
    assert "parity is not flipped" in finding(waiting).mistake


def test_the_given_arrays_are_not_changed():
    finding(right)
    assert np.array_equal(X, np.arange(1, 65))

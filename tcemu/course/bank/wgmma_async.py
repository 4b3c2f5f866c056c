"""Exercises of notebook 11: fences, groups, proxies and mbarriers. One for each rule of the sanitizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Kernel
from tcemu.course.judges.overlap import CopiesAhead
from tcemu.course.record import Exercise, Given
from tcemu.instructions import parse
from tcemu.machine.launch import Launch
from tcemu.sanitizer.rules import RULES

Array = npt.NDArray[Any]
_WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
#: Two stages of 16 KiB, and 4 KiB for mbarriers and whatever else a kernel needs.
_SHARED = 36864
_BLOCK = {"block": 128, "shared": _SHARED}
_PRODUCER = {"block": 160, "shared": _SHARED}

# ---------------------------------------------------------------------------------------------- what is computed


def _odd(rng: np.random.Generator, *shape: int) -> Array:
    """Odd whole numbers: every sum is exact, and no product is zero."""
    return (2 * rng.integers(-2, 2, shape) + 1).astype(np.float16)


def _matrices(depth: int) -> Callable[[np.random.Generator], Mapping[str, Any]]:
    """Draws A (64, depth) and B (8, depth) of f16."""
    return lambda rng: {"a": _odd(rng, 64, depth), "b": _odd(rng, 8, depth)}


def _with_d(rows: int = 64) -> Callable[[Given], Mapping[str, Any]]:
    """The arguments of a kernel: the given matrices, and D of zeros."""
    return lambda given: {**given, "d": np.zeros((rows, 8), np.float32)}


def _sum(given: Given, begin: int = 0, end: int | None = None) -> Array:
    """A B^T over the columns from `begin` to `end`."""
    a, b = (given[name][:, begin:end].astype(np.float32) for name in "ab")
    return np.asarray(a @ b.T)


def _wrong_sums(given: Given) -> Iterator[tuple[str, Array]]:
    depth = given.a.shape[1]
    yield "The kernel stores nothing: D is unchanged.", np.zeros((64, 8), np.float32)
    for end in (16, 32):
        yield f"Only the first {end} columns along K are in D.", _sum(given, 0, end)
    yield "Only the last product is in D: scale_d is 0 for every instruction.", _sum(given, depth - 16)
    yield "The last 16 columns along K are missing.", _sum(given, 0, depth - 16)
    yield "Only the first 64 columns along K are in D: the other tiles are missing.", _sum(given, 0, 64)
    yield "Only the last tile is in D: its first instruction has scale_d = 0.", _sum(given, depth - 64)


def _difference(given: Given) -> Array:
    return np.asarray(_sum(given, 0, 32) - _sum(given, 32))


def _added(given: Given) -> Iterator[tuple[str, Array]]:
    yield "D is the sum of the two products; the kernel subtracts the second.", _sum(given)
    yield "The second product is missing.", _sum(given, 0, 32)


def _half(given: Given) -> Array:
    return np.asarray(0.5 * _sum(given))


def _not_half(given: Given) -> Iterator[tuple[str, Array]]:
    yield "D is not halved.", _sum(given)


def _causal(given: Given) -> Array:
    kept = np.arange(128) <= 2 * np.arange(64)[:, None]
    return np.asarray(np.where(kept, given.a, 0).astype(np.float32) @ given.b.T.astype(np.float32))


def _first_tile(given: Given) -> Array:
    kept = np.arange(64) <= 2 * np.arange(64)[:, None]
    return np.asarray(np.where(kept, given.a[:, :64], 0).astype(np.float32) @ given.b[:, :64].T.astype(np.float32))


def _not_causal(given: Given) -> Iterator[tuple[str, Array]]:
    yield "Nothing of A is cleared: the stores are missing.", _sum(given)
    yield "Only the second tile is in D: its first instruction has scale_d = 0.", _causal(given) - _first_tile(given)


def _keys(rng: np.random.Generator) -> Mapping[str, Any]:
    """Q (64, 64), K (32, 64), and V transposed (8, 32)."""
    return {"q": _odd(rng, 64, 64), "k": _odd(rng, 32, 64), "v": _odd(rng, 8, 32)}


def _attended(given: Given, factor: float = 0.5) -> Array:
    """O after two blocks of 16 keys: whole numbers and halves, exact in any order."""
    q, k, v = (given[name].astype(np.float32) for name in "qkv")
    first, second = (q @ k[at : at + 16].T @ v[:, at : at + 16].T for at in (0, 16))
    return np.asarray(factor * first + second)


def _not_attended(given: Given) -> Iterator[tuple[str, Array]]:
    yield "O is not halved between the two blocks of keys.", _attended(given, 1)
    yield "Only the second block of keys is in D: scale_d is 0 in its product with V.", _attended(given, 0)
    yield "The sum of the last 16 keys is halved, too.", 0.5 * _attended(given, 1)


def _cut(given: Given) -> Array:
    return _sum(given)[:48]


def _not_stored(given: Given) -> Iterator[tuple[str, Array]]:
    yield "The kernel stores nothing: D is unchanged.", np.zeros((48, 8), np.float32)
    yield "The rows of the last warp that has rows are missing.", np.where(np.arange(48)[:, None] < 32, _cut(given), 0)


def _as_registers(given: Given) -> Array:
    """D lane by lane: what 128 threads store, 16 bytes each."""
    return np.asarray(parse(_WGMMA).fragments["d"].pack(_sum(given)).view(np.float32).reshape(64, 8))


def _as_matrix(given: Given) -> Iterator[tuple[str, Array]]:
    yield "D is stored row by row; this kernel stores the registers of one lane after the other.", _sum(given)


# ---------------------------------------------------------------------------------------------- repaired kernels


def _repair(
    name: str,
    rule: str,
    title: str,
    story: str,
    *hints: str,
    depth: int = 64,
    right: Callable[[Given], Array] = _sum,
    mistakes: Callable[[Given], Iterable[tuple[str, Array]]] = _wrong_sums,
    draw: Callable[[np.random.Generator], Mapping[str, Any]] | None = None,
    rows: int = 64,
    options: Mapping[str, Any] = _BLOCK,
    section: str = "",
    minutes: int = 8,
    **judged: Any,
) -> Exercise:
    """A kernel that breaks `rule`, to be repaired."""
    return Exercise(
        name,
        title,
        f"{story} Repair `{name}`: delete the line `return ...`, check, read what the sanitizer reports, and fix the "
        "kernel until nothing is reported and D is right.",
        Kernel(_with_d(rows), "d", right, options, mistakes, partial=False, **judged),
        minutes=minutes,
        know="notebook 11",
        section=section or RULES[rule].section,
        hints=hints,
        draw=draw or _matrices(depth),
        points=minutes // 4,
        only=("tcemu.gemm.store",),
    )


#: Hints that count as errors: also that of fences behind the barrier, about which the manual says nothing.
_FENCES = ("mbarrier-init-fence", "proxy-fence-barrier")
#: Bytes of 64 columns of A and B.
_STEP = 2 * 64 * (64 + 8)


def _alone(_: Launch, watching: Sequence[Any]) -> Mapping[str, int]:
    """Steps whose copies began when nothing was left to multiply."""
    (ahead,) = watching
    return {"late steps": -(-(ahead.copied - ahead.ahead) // _STEP)}


EXERCISES = [
    _repair(
        "repair_uncommitted",
        "wgmma-uncommitted",
        "A wait for nothing",
        "The kernel waits, and D is zero or right depending on the policy.",
        "What does wgmma.wait_group wait for?",
        "A group exists only after an instruction that closes it.",
    ),
    _repair(
        "repair_wait_weak",
        "wgmma-wait-weak",
        "Two groups, and a wait for one",
        "The kernel computes two products in two groups, one of columns 0 to 31 and one of 32 to 63, and stores their "
        "difference.",
        "How many groups may still be pending after wgmma.wait_group 1?",
        "Which of the two is the later one?",
        right=_difference,
        mistakes=_added,
    ),
    _repair(
        "repair_scale_d",
        "uninitialised-registers",
        "The sum begins with garbage",
        "The accumulator is allocated but not written.",
        "Which of the four instructions may not add to what is in the accumulator?",
        "scale_d is the operand after the descriptors.",
        section="9.7.15.5.2",
    ),
    _repair(
        "repair_exited_warp",
        "exited-threads",
        "A warp leaves early",
        "D has only 48 rows, so warp 3 has nothing to store, and exits.",
        "Who takes part in wgmma, and who in the store?",
        "Leave the rows out where D is stored.",
        rows=48,
        right=_cut,
        mistakes=_not_stored,
    ),
    _repair(
        "repair_aligned_commit",
        "aligned-divergent",
        "One lane commits",
        "One arrival for each warp is enough for an mbarrier, so here one lane commits the group, too.",
        "What does .aligned in wgmma.commit_group.sync.aligned mean?",
        "All lanes of all four warps execute it.",
    ),
    _repair(
        "repair_overwritten",
        "overwritten-early",
        "The next tile comes too early",
        "K is 256, in four steps, with one stage of shared memory. The loop leaves one group pending.",
        "Which tile does the pending group read?",
        "With one stage, nothing may be pending when the next copy begins.",
        depth=256,
        section="9.7.15.7.3",
        minutes=10,
    ),
    _repair(
        "repair_phase_bit",
        "tma-unwaited",
        "The phase bit",
        "K is 256, in four steps. The first step is right.",
        "Which phase is complete when the second step waits for parity 0?",
        "The parity alternates: 0, 1, 0, 1.",
        depth=256,
        section="9.7.13.15, 9.7.13.15.16",
        minutes=10,
    ),
    _repair(
        "repair_first_parity",
        "deadlock",
        "Nobody begins",
        "Warp 4 copies, the warpgroup multiplies and then arrives at EMPTY, once for each warp. The block hangs.",
        "What would have to happen before the producer's first wait can end?",
        "A wait for parity 1 on a new mbarrier returns at once: the phase before the first counts as complete.",
        depth=256,
        options=_PRODUCER,
        section="9.7.13.15, 9.7.13.15.16",
        minutes=10,
    ),
    _repair(
        "repair_flag",
        "flag-never-set",
        "A flag that no warp sees",
        "The producer, warp 4, starts its copy once thread 0 has set the flag at byte FLAG. It waits forever.",
        "Which address does the producer load, and which one does thread 0 store to?",
        "The store must be a release, and it must come before thread 0 waits for the copy.",
        options=_PRODUCER,
    ),
    _repair(
        "repair_absent_lanes",
        "absent-lanes",
        "Half of D",
        "D must be halved. Lane 0 has the factor, and the other lanes get it from there by shfl.sync.",
        "Which lanes execute shfl.sync, and which lane do they read?",
        "What a lane gets from one that does not take part is undefined.",
        right=_half,
        mistakes=_not_half,
    ),
    _repair(
        "repair_mbarrier_fence",
        "mbarrier-init-fence",
        "Initialised in one proxy, used in the other",
        "The sanitizer gives only a hint, and the output is right. Make the mbarrier visible to the copies with "
        "`fence.mbarrier_init`.",
        "The initialisation is a generic write, and copies update the mbarrier through the async proxy.",
        "The thread that initialised executes the fence, before the barrier.",
        needed=("fence.mbarrier_init",),
    ),
    _repair(
        "repair_mbarrier_place",
        "mbarrier-object",
        "A place for the output",
        "The kernel stages the registers of D in shared memory, 16 bytes for each thread, and stores them from there, "
        "one thread after the other. An mbarrier lives at byte BAR.",
        "Which bytes are staged: from where to where?",
        "2048 bytes are free before BAR.",
        right=_as_registers,
        mistakes=_as_matrix,
    ),
    _repair(
        "repair_causal_rows",
        "proxy-fence-thread",
        "Two mistakes: a causal mask",
        "The kernel copies A and B in two steps of 64 columns. Before each product, the threads clear the elements of "
        "A with column > 2 * row in shared memory, as causal attention does. Two lines are wrong.",
        "The first report is about the copies. How many bytes complete the phase?",
        "Whose stores does a thread's fence.proxy.async cover, and on which side of the barrier does it belong?",
        depth=128,
        right=_causal,
        mistakes=_not_causal,
        heeded=_FENCES,
        section="9.7.13.4, 9.7.13.15",
        minutes=20,
    ),
    _repair(
        "repair_rescaled_sum",
        "wgmma-fence-touched",
        "Two mistakes: two products in turn",
        "For each of two blocks of 16 keys: S = Q Kᵀ in f32, which goes to f16 in registers, and O = O / 2 + S V, as "
        "attention rescales its output. D is O. V is given transposed: one row for each column of O. Two lines are "
        "wrong.",
        "Which group may still be pending when S is converted?",
        "The accumulator O is touched. Where does the fence belong?",
        right=_attended,
        mistakes=_not_attended,
        draw=_keys,
        section="9.7.15.7.1, 9.7.15.7.3",
        minutes=20,
    ),
    _repair(
        "repair_released_stage",
        "overwritten-early",
        "Two mistakes: one group in flight",
        "Warp 4 copies K = 256 in four steps, with two stages; the warpgroup leaves one group in flight, so that the "
        "tensor core never waits for an arrival. Two lines are wrong.",
        "Which parity has the phase that step 2 waits for: that of the step, or that of the round through the stages?",
        "After wait_group 1, which group may still read its stage?",
        depth=256,
        options=_PRODUCER,
        section="9.7.15.7.3, 9.7.13.15",
        minutes=25,
    ),
    Exercise(
        "gemm_of_one_tile",
        "A product with a loop over K",
        "Write the kernel `gemm_of_one_tile(warp, a, b, d)` for one warpgroup: D = A Bᵀ for A of 64 × 256 and B of 8 "
        "× 256, in steps of 64 columns with one stage of shared memory, copied by TMA. The functions `begin`, `copy`, "
        "`multiply` and `save` of the first cell do the parts; the order, the waits and the phases are up to you.",
        Kernel(_with_d(), "d", _sum, _BLOCK, _wrong_sums, needed=("wgmma.mma_async", "cp.async.bulk.tensor")),
        minutes=30,
        only=("tcemu.gemm.store",),
        know="all of notebook 11",
        section="9.7.15.7.1, 9.7.15.7.2, 9.7.15.7.3, 9.7.9.25.2, 9.7.13.15",
        hints=(
            "begin(warp), then for each step: copy (one thread), wait, fence, multiply, commit, wait, and a barrier.",
            "The parity of the mbarrier alternates with the step, because each step completes one phase.",
            "Which steps add to the accumulator, and which one does not?",
        ),
        draw=_matrices(256),
        points=4,
    ),
    Exercise(
        "two_stage_pipeline",
        "A pipeline of two stages",
        "Write the kernel `two_stage_pipeline(warp, a, b, d)` for a block of five warps: warp 4 copies 64 columns of A "
        "(64 × 512) and B (8 × 512) in each step, and the warpgroup of warps 0 to 3 multiplies. There are two stages, "
        "with the mbarriers BAR + 8 * stage (full) and EMPTY + 8 * stage (empty). Initialise all four, and let the "
        "copy of a step run while the step before is multiplied. That is measured: of the eight steps, at most four "
        "may begin to be copied only when all products before have been waited for.",
        Kernel(
            _with_d(),
            "d",
            _sum,
            _PRODUCER,
            _wrong_sums,
            needed=("wgmma.mma_async", "cp.async.bulk.tensor"),
            observers=lambda: (CopiesAhead(_STEP, 4),),
            scores=_alone,
            limits={"late steps": 4},
        ),
        minutes=60,
        only=("tcemu.gemm.store",),
        know="all of notebook 11",
        section="9.7.15.7.1, 9.7.15.7.2, 9.7.15.7.3, 9.7.9.25.2, 9.7.13.15, 9.7.13.15.16",
        hints=(
            (
                "The producer waits on empty, arms full and copies. The consumer waits on full, multiplies, and "
                "arrives on empty."
            ),
            "phases_of_a_stage(step, 2) has the numbers.",
            "A stage may be released when the group that reads it has ended, and one lane of each warp arrives.",
        ),
        draw=_matrices(512),
        points=6,
    ),
]

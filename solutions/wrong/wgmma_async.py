"""Wrong answers of notebook 11 that people give, with words that the diagnosis contains.

Most kernels here are the right one with one thing changed, which the arguments of a few functions say."""

import numpy as np

from tcemu.gemm.store import store
from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
BAR, EMPTY = 32768, 32784


def load(warp, *matrices):
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(BAR, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(BAR, 128 * sum(x.shape[0] for x in matrices))
        to = 0
        for x in matrices:
            box = TensorMap.of(x, (x.shape[1], x.shape[0]), swizzle=128)
            warp.cp_async_bulk_tensor_shared_global(to, box, (0, 0), BAR)
            to += box.bytes
    warp.mbarrier_wait(BAR, 0)


def tile(rows, start, k):
    return Descriptor.for_tile("f16", rows, 64, swizzle=128, start=start).step(2 * k)


def step(warp, c, k, stage=0, scale_d=1):
    a, b = tile(64, 16384 * stage, k), tile(8, 16384 * stage + 8192, k)
    warp.run(WGMMA, c, a, b, scale_d, 1, 1, 0, 0)


def save(warp, d, c):
    store(warp, d, c, 16 * (warp.warpid % 4) + warp.laneid // 4, 0)


def end(warp):
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)


def added(k):
    return int(k > 0)


# ---------------------------------------------------------------------------------------------- one product


def product(*, commit="all", scale_d=added, end=64, saved=True):
    """The kernel of one product."""

    def kernel(warp, a, b, d):
        load(warp, a, b)
        c = warp.registers(4)
        warp.wgmma_fence()
        if commit == "before":
            warp.wgmma_commit_group()
        for k in range(0, end, 16):
            step(warp, c, k, scale_d=scale_d(k))
        if commit == "all" or (commit == "warp 0" and warp.warpid == 0):
            warp.wgmma_commit_group()
        if commit == "lane 0":
            with warp.only(warp.laneid == 0):
                warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        if saved:
            save(warp, d, c)

    return kernel


def two_groups(*, wait=1, both=True, minus=True, drained=False):
    def kernel(warp, a, b, d):
        load(warp, a, b)
        first, second = warp.registers(4), warp.registers(4)
        warp.wgmma_fence()
        for c, begin in ((first, 0), (second, 32)):
            for k in (0, 16):
                step(warp, c, begin + k, scale_d=added(k))
            warp.wgmma_commit_group()
        warp.wgmma_wait_group(wait)
        one, other = first.view(np.float32), second.view(np.float32) if both else np.float32(0)
        if drained:
            warp.wgmma_wait_group(0)
        save(warp, d, (one - other if minus else one + other).view(np.uint32))

    return kernel


# ---------------------------------------------------------------------------------------------- who takes part


def three_warps(*, leaves="before", rows=3, wait=True):
    """D has 48 rows."""

    def kernel(warp, a, b, d):
        load(warp, a, b)
        if leaves == "before" and warp.warpid == 3:
            return
        c = warp.registers(4)
        warp.wgmma_fence()
        for k in range(0, 64, 16):
            step(warp, c, k, scale_d=added(k))
        if leaves == "before the commit" and warp.warpid == 3:
            return
        warp.wgmma_commit_group()
        if wait:
            warp.wgmma_wait_group(0)
        if warp.warpid < rows:
            save(warp, d, c)

    return kernel


# ---------------------------------------------------------------------------------------------- copies and phases


def one_copy(*, fence=True, barrier=True, saved=True):
    """One tile of A and of B, copied by thread 0."""

    def kernel(warp, a, b, d):
        rows, columns = TensorMap.of(a, (64, 64), swizzle=128), TensorMap.of(b, (64, 8), swizzle=128)
        with warp.only(warp.threads == 0):
            warp.mbarrier_init(BAR, 1)
            if fence:
                warp.fence_mbarrier_init()
        if barrier:
            warp.bar_sync()
        with warp.only(warp.threads == 0):
            warp.mbarrier_arrive_expect_tx(BAR, rows.bytes + columns.bytes)
            warp.cp_async_bulk_tensor_shared_global(0, rows, (0, 0), BAR)
            warp.cp_async_bulk_tensor_shared_global(8192, columns, (0, 0), BAR)
        warp.mbarrier_wait(BAR, 0)
        c = warp.registers(4)
        warp.wgmma_fence()
        for k in range(0, 64, 16):
            step(warp, c, k, scale_d=added(k))
        end(warp)
        if saved:
            save(warp, d, c)

    return kernel


def staged(at, *, saved="registers", barrier=True):
    """D goes through shared memory at `at`."""

    def kernel(warp, a, b, d):
        load(warp, a, b)
        c = warp.registers(4)
        warp.wgmma_fence()
        for k in range(0, 64, 16):
            step(warp, c, k, scale_d=added(k))
        end(warp)
        if saved == "matrix":
            save(warp, d, c)
            return
        warp.st_shared(at + 16 * warp.threads, c, "v4.b32")
        if barrier:
            warp.bar_sync()
        other = warp.threads if barrier else 127 - warp.threads
        warp.st_global(d + 16 * other, warp.ld_shared(at + 16 * other, "v4.b32"), "v4.b32")

    return kernel


def begin(warp, stages=1, count=4):
    with warp.only(warp.threads == 0):
        for stage in range(stages):
            warp.mbarrier_init(BAR + 8 * stage, 1)
            warp.mbarrier_init(EMPTY + 8 * stage, count)
        warp.fence_mbarrier_init()
    warp.bar_sync()


def copy(warp, a, b, step_, stage=0):
    full = BAR + 8 * stage
    rows, columns = TensorMap.of(a, (64, 64), swizzle=128), TensorMap.of(b, (64, 8), swizzle=128)
    warp.mbarrier_arrive_expect_tx(full, rows.bytes + columns.bytes)
    warp.cp_async_bulk_tensor_shared_global(16384 * stage, rows, (64 * step_, 0), full)
    warp.cp_async_bulk_tensor_shared_global(16384 * stage + 8192, columns, (64 * step_, 0), full)


def loop(*, parity=lambda step: step % 2, wait=0, barrier=True, add=lambda step: int(step > 0), fence=True, steps=None):
    """K in steps of 64 with one stage."""

    def kernel(warp, a, b, d):
        begin(warp)
        c = warp.registers(4)
        for number in range(a.shape[1] // 64 if steps is None else steps):
            with warp.only(warp.threads == 0):
                copy(warp, a, b, number)
            warp.mbarrier_wait(BAR, parity(number))
            if fence:
                warp.wgmma_fence()
            for k in range(0, 64, 16):
                step(warp, c, k, scale_d=add(number) or added(k))
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(wait)
            if barrier:
                warp.bar_sync()
        warp.wgmma_wait_group(0)
        save(warp, d, c)

    return kernel


def pipeline(
    *, stages=1, full=lambda turn: turn % 2, empty=lambda turn: (turn + 1) % 2, release="late", lanes="one",
    waits=True, add=lambda step: int(step > 0),
):  # fmt: skip
    """Warp 4 copies, the warpgroup multiplies."""

    def kernel(warp, a, b, d):
        begin(warp, stages)
        steps = a.shape[1] // 64
        if warp.warpid == 4:
            for number in range(steps):
                stage, turn = number % stages, number // stages
                if waits:
                    warp.mbarrier_wait(EMPTY + 8 * stage, empty(turn))
                with warp.only(warp.laneid == 0):
                    copy(warp, a, b, number, stage)
            return
        c = warp.registers(4)
        for number in range(steps):
            stage, turn = number % stages, number // stages
            warp.mbarrier_wait(BAR + 8 * stage, full(turn))
            warp.wgmma_fence()
            for k in range(0, 64, 16):
                step(warp, c, k, stage, add(number) or added(k))
            warp.wgmma_commit_group()
            if release == "late":
                warp.wgmma_wait_group(0)
            if release != "never":
                with warp.only(warp.laneid == 0 if lanes == "one" else warp.laneid >= 0):
                    warp.mbarrier_arrive(EMPTY + 8 * stage)
            if release != "late":
                warp.wgmma_wait_group(0)
        save(warp, d, c)

    return kernel


# ---------------------------------------------------------------------------------------- kernels with two mistakes


def causal(*, expect="both", order=("fence", "barrier"), stores=True, add=True):
    """Elements beyond the diagonal are cleared, and then come fences and barriers in an `order`."""

    def kernel(warp, a, b, d):
        rows, columns = TensorMap.of(a, (64, 64), swizzle=128), TensorMap.of(b, (64, 8), swizzle=128)
        begin(warp)
        c = warp.registers(4)
        for number in range(2):
            with warp.only(warp.threads == 0):
                sizes = {"both": rows.bytes + columns.bytes, "one": rows.bytes}
                warp.mbarrier_arrive_expect_tx(BAR, sizes[expect])
                warp.cp_async_bulk_tensor_shared_global(0, rows, (64 * number, 0), BAR)
                warp.cp_async_bulk_tensor_shared_global(8192, columns, (64 * number, 0), BAR)
            warp.mbarrier_wait(BAR, number % 2)
            row, half = warp.threads // 2, warp.threads % 2
            for part in range(4 if stores else 0):
                unit = 4 * half + part
                at = 128 * row + 16 * (unit ^ row % 8)
                held = warp.ld_shared(at, "v4.b32").view(np.float16)
                column = 64 * number + 8 * unit[:, None] + np.arange(8)
                kept = np.where(column <= 2 * row[:, None], held, np.float16(0))
                warp.st_shared(at, kept.view(np.uint32), "v4.b32")
            for what in order:
                if what == "barrier":
                    warp.bar_sync()
                elif what == "fence":
                    warp.fence_proxy_async()
                else:
                    with warp.only(warp.threads == 0):
                        warp.fence_proxy_async()
            warp.wgmma_fence()
            for k in range(0, 64, 16):
                step(warp, c, k, scale_d=int(add and number > 0) or added(k))
            end(warp)
            warp.bar_sync()
        save(warp, d, c)

    return kernel


def rescaled(*, wait=0, fence="after", halved="between", add=1):
    """O = O / 2 + S V, for two blocks of keys."""

    def kernel(warp, q, k, v, d):
        begin(warp)
        boxes = [
            (0, TensorMap.of(q, (64, 64), swizzle=128), (0, 0)),
            (8192, TensorMap.of(k, (64, 32), swizzle=128), (0, 0)),
            (12288, TensorMap.of(v, (16, 8), swizzle=32), (0, 0)),
            (12544, TensorMap.of(v, (16, 8), swizzle=32), (16, 0)),
        ]
        with warp.only(warp.threads == 0):
            warp.mbarrier_arrive_expect_tx(BAR, sum(box.bytes for _, box, _ in boxes))
            for to, box, at in boxes:
                warp.cp_async_bulk_tensor_shared_global(to, box, at, BAR)
        warp.mbarrier_wait(BAR, 0)
        o = warp.registers(4, fill=0)
        for block in range(2):
            s = warp.registers(8)
            warp.wgmma_fence()
            for part in range(4):
                tiles = tile(64, 0, 16 * part), tile(16, 8192 + 2048 * block, 16 * part)
                warp.run(WGMMA.replace("n8", "n16"), s, *tiles, part > 0, 1, 1, 0, 0)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(wait)
            p = s.view(np.float32).astype(np.float16).view(np.uint32)
            if fence == "before":
                warp.wgmma_fence()
            if halved == "between":
                o[...] = (0.5 * o.view(np.float32)).view(np.uint32)
            if fence == "after":
                warp.wgmma_fence()
            values = Descriptor.for_tile("f16", 8, 16, swizzle=32, start=12288 + 256 * block)
            warp.run(WGMMA, o, p, values, add, 1, 1, 0)
            end(warp)
        if halved == "at the end":
            o[...] = (0.5 * o.view(np.float32)).view(np.uint32)
        save(warp, d, o)

    return kernel


def released(*, full=lambda step: step // 2 % 2, ended=1, wait=1, drained=True):
    """Two stages; with `wait` groups in flight, the stage of `ended` steps ago is released."""

    def kernel(warp, a, b, d):
        begin(warp, 2)
        if warp.warpid == 4:
            with warp.only(warp.laneid == 0):
                for number in range(4):
                    warp.mbarrier_wait(EMPTY + 8 * (number % 2), (number // 2 + 1) % 2)
                    copy(warp, a, b, number, number % 2)
            return
        c = warp.registers(4)
        for number in range(4):
            warp.mbarrier_wait(BAR + 8 * (number % 2), full(number))
            warp.wgmma_fence()
            for k in range(0, 64, 16):
                step(warp, c, k, number % 2, int(number > 0) or added(k))
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(wait)
            if number >= ended:
                with warp.only(warp.laneid == 0):
                    warp.mbarrier_arrive(EMPTY + 8 * ((number - ended) % 2))
        if drained:
            warp.wgmma_wait_group(0)
        save(warp, d, c)

    return kernel


# ---------------------------------------------------------------------------------------- what several diagnoses say

FENCE = "the control flow around a wgmma instruction"
NOTHING = "stores nothing"

# ---------------------------------------------------------------------------------------------- flags and lanes

FLAG = 33024


def begin_flags(warp):
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(BAR, 1)
        warp.st_shared(FLAG, 0)
        warp.st_shared(FLAG + 4, 0)
        warp.fence_mbarrier_init()
    warp.bar_sync()


def flagged(place, *, late=False, order="release"):
    """The producer waits for a flag at FLAG; thread 0 sets the one at `place`, or sets it only after the copy."""

    def kernel(warp, a, b, d):
        begin_flags(warp)
        if warp.warpid == 4:
            with warp.only(warp.laneid == 0):
                while warp.ld_shared(FLAG, order="acquire")[0, 0] == 0:
                    pass
                rows, columns = TensorMap.of(a, (64, 64), swizzle=128), TensorMap.of(b, (64, 8), swizzle=128)
                warp.mbarrier_arrive_expect_tx(BAR, rows.bytes + columns.bytes)
                warp.cp_async_bulk_tensor_shared_global(0, rows, (0, 0), BAR)
                warp.cp_async_bulk_tensor_shared_global(8192, columns, (0, 0), BAR)
            return
        for wait in (late, not late):
            if wait:
                warp.mbarrier_wait(BAR, 0)
            else:
                with warp.only(warp.threads == 0):
                    warp.st_shared(place, 1, order=order)
        c = warp.registers(4)
        warp.wgmma_fence()
        for k in range(0, 64, 16):
            step(warp, c, k, scale_d=added(k))
        end(warp)
        save(warp, d, c)

    return kernel


def shuffled(*, source, inside=False):
    """D is multiplied with what lane `source` has; `inside`: only the lanes that need it execute shfl."""

    def kernel(warp, a, b, d):
        load(warp, a, b)
        c = warp.registers(4)
        warp.wgmma_fence()
        for k in range(0, 64, 16):
            step(warp, c, k, scale_d=added(k))
        end(warp)
        half = np.where(warp.laneid == 0, np.float32(0.5), np.float32(0))
        if inside:
            with warp.only(warp.laneid > 0):
                half = np.where(warp.laneid > 0, warp.shfl_sync("idx", half, source), half)
        elif source is not None:
            half = warp.shfl_sync("idx", half, source)
        else:
            half = np.ones(32, np.float32)
        c[...] = (c.view(np.float32) * half[:, None]).view(np.uint32)
        save(warp, d, c)

    return kernel


WRONG = {
    "repair_uncommitted": [
        (product(commit="none"), "after the last mma_async of the group"),
        (product(commit="before"), "after the last mma_async of the group"),
        (product(commit="warp 0"), FENCE),
        (product(saved=False), NOTHING),
    ],
    "repair_wait_weak": [
        (two_groups(), "smaller N"),
        (two_groups(wait=2), "smaller N"),
        (two_groups(drained=True), "smaller N"),
        (two_groups(wait=0, minus=False), "kernel subtracts"),
        (two_groups(wait=0, both=False), "second product is missing"),
    ],
    "repair_scale_d": [
        (product(scale_d=lambda k: 1), "pass scale_d = 0"),
        (product(scale_d=lambda k: 0), "Only the last product"),
        (product(scale_d=lambda k: int(k < 48)), "pass scale_d = 0"),
        (product(end=16), "Only the first 16 columns"),
    ],
    "repair_exited_warp": [
        (three_warps(), "Keep all threads running"),
        (three_warps(leaves="before the commit"), "after the last mma_async of the group"),
        (three_warps(leaves="", rows=2), "last warp that has rows"),
        (three_warps(leaves="", rows=0), NOTHING),
    ],
    "repair_aligned_commit": [
        (product(commit="lane 0"), "out of the branch"),
        (product(commit="warp 0"), FENCE),
        (product(commit="none"), "after the last mma_async"),
    ],
    "repair_overwritten": [
        (loop(wait=1), "Wait until the reader has ended"),
        (loop(steps=1), "Only the first 64 columns"),
        (loop(add=lambda step: 0), "Only the last tile"),
    ],
    "repair_phase_bit": [
        (loop(parity=lambda step: 0), "parity of the copy's phase"),
        (loop(parity=lambda step: (step + 1) % 2), "parity of the copy's phase"),
        (loop(parity=lambda step: step // 2 % 2), "parity of the copy's phase"),
        (loop(steps=1), "Only the first 64 columns"),
    ],
    "repair_first_parity": [
        (pipeline(empty=lambda turn: turn % 2), "the parity of each wait"),
        (pipeline(empty=lambda turn: 1), "Wait until the reader has ended"),
        (pipeline(waits=False), "Wait until the reader has ended"),
        (pipeline(release="never"), "the parity of each wait"),
    ],
    "repair_flag": [
        (flagged(FLAG + 4), "Store the value that the loop waits for"),
        (flagged(FLAG, late=True), "Store the value that the loop waits for"),
        (flagged(FLAG, order=""), "Put bar.sync between"),
    ],
    "repair_absent_lanes": [
        (shuffled(source=0, inside=True), "Execute shfl.sync in all lanes"),
        (shuffled(source=5), "Every wrong value is 0"),
        (shuffled(source=None), "D is not halved"),
    ],
    "repair_mbarrier_fence": [
        (one_copy(fence=False), "no fence between mbarrier.init and a bulk copy"),
        (one_copy(fence=False, barrier=False), "then bar.sync in all threads"),
        (one_copy(saved=False), NOTHING),
    ],
    "repair_mbarrier_place": [
        (staged(BAR - 1024), "its own bytes"),
        (staged(BAR), "its own bytes"),
        (staged(BAR - 2048, saved="matrix"), "registers of one lane after the other"),
        (staged(BAR - 2048, barrier=False), "Put bar.sync between"),
    ],
    "repair_causal_rows": [
        (causal(expect="one", order=("barrier", "one", "barrier")), "bytes of all copies"),
        (causal(expect="one"), "bytes of all copies"),
        (causal(order=("barrier", "one", "barrier")), "in every thread that stores"),
        (causal(order=("barrier",)), "in the writing threads after their stores"),
        (causal(order=("barrier", "fence")), "move fence.proxy.async before the barrier"),
        (causal(stores=False), "stores are missing"),
        (causal(add=False), "Only the second tile"),
    ],
    "repair_rescaled_sum": [
        (rescaled(wait=1, fence="before"), "smaller N"),
        (rescaled(wait=1), "smaller N"),
        (rescaled(fence="before"), "Move the access before the wgmma.fence"),
        (rescaled(fence="never"), "Move the access before the wgmma.fence"),
        (rescaled(halved="never"), "not halved between"),
        (rescaled(add=0), "Only the second block of keys"),
        (rescaled(halved="at the end"), "last 16 keys"),
    ],
    "repair_released_stage": [
        (released(full=lambda step: step % 2, ended=0), "parity of the copy's phase"),
        (released(full=lambda step: step % 2), "parity of the copy's phase"),
        (released(ended=0), "Wait until the reader has ended"),
        (released(wait=2), "Wait until the reader has ended"),
        (released(drained=False), "smaller N"),
    ],
    "gemm_of_one_tile": [
        (loop(parity=lambda step: 0), "parity of the copy's phase"),
        (loop(fence=False), "before the first mma_async"),
        (loop(wait=1), "Wait until the reader has ended"),
        (loop(add=lambda step: 1), "pass scale_d = 0"),
        (loop(add=lambda step: 0), "Only the last tile"),
        (loop(steps=1), "Only the first 64 columns"),
    ],
    "two_stage_pipeline": [
        (pipeline(stages=2, full=lambda turn: 0), "parity of the copy's phase"),
        (pipeline(stages=2, empty=lambda turn: turn % 2), "the parity of each wait"),
        (pipeline(stages=2, release="early"), "after its wait, the reader must arrive"),
        (pipeline(stages=2, lanes="all"), "Compare the count of mbarrier.init"),
        (pipeline(stages=2, waits=False), "Wait until the reader has ended"),
        (pipeline(stages=2, add=lambda step: 0), "Only the last tile"),
    ],
}

"""Pairs about tensor maps that change while copies still use them: grouped GEMMs that keep one map for all problems."""

from kernels_pairs import leader, pair

from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of

REPLACE = "tensormap.replace.tile.{}.{}.b1024.{}"
RELEASE, ACQUIRE = (f"fence.proxy.tensormap::generic.{each}.gpu" for each in ("release", "acquire"))
PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
ONE = {"block": 32, "shared": 1024}
#: Where the mbarriers are, and a map in shared memory.
FULL, MAP = 512, 768


def begin(warp, x, described):
    """A map of the first 16 words in global memory, and two mbarriers."""
    warp.st_global(described + 4 * warp.laneid, words_of(TensorMap.of(x, (16,))))
    warp.bar_warp_sync()
    with leader(warp):
        for bar in (FULL, FULL + 8):
            warp.mbarrier_init(bar, 1)
        warp.fence_mbarrier_init()
        warp.run(REPLACE.format("global_dim", "global", "b32"), described, 0, 16)
        publish(warp, described)


def publish(warp, described):
    """The thread that has changed the map lets its copies see it."""
    warp.run(RELEASE)
    warp.run(ACQUIRE, described, 128)


def load(warp, described, bar):
    warp.mbarrier_arrive_expect_tx(bar, 64)
    warp.cp_async_bulk_tensor_shared_global(128 * (bar - FULL) // 8, described, (0,), bar)


@pair("global-race", 64, 32, **ONE)
def the_map_of_the_next_group_is_made_while_a_load_uses_it(warp, right, x, described):
    """The producer runs ahead: it waits for a free stage, but not for the loads that it has issued."""
    begin(warp, x, described)
    with leader(warp):
        load(warp, described, FULL)
        if right:
            warp.mbarrier_wait(FULL, 0)
        warp.run(REPLACE.format("global_address", "global", "b64"), described, x + 128)  # <- reported
        publish(warp, described)
        load(warp, described, FULL + 8)
        if not right:
            warp.mbarrier_wait(FULL, 0)
        warp.mbarrier_wait(FULL + 8, 0)


@pair("global-race", 64, 32, **ONE)
def the_map_of_the_output_changes_before_the_store_has_read_it(warp, right, x, described):
    """wait_group.read is enough: it waits for reading the tensor map, too."""
    begin(warp, x, described)
    warp.st_shared(4 * warp.laneid, 7)
    warp.fence_proxy_async("shared::cta")
    warp.bar_warp_sync()
    with leader(warp):
        warp.cp_async_bulk_tensor_global_shared(described, (0,), 0)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0 if right else 1, read=True)
        warp.run(REPLACE.format("global_address", "global", "b64"), described, x + 128)  # <- reported
        publish(warp, described)
        warp.cp_async_bulk_tensor_global_shared(described, (0,), 0)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@pair("global-race", 64, 32, **ONE)
def a_map_copied_over_the_one_in_use(warp, right, x, described):
    """The next map is made in shared memory; to copy it with cp_fenceproxy is a write, too."""
    begin(warp, x, described)
    warp.st_shared(MAP + 4 * warp.laneid, words_of(TensorMap.of(x, (16,))))
    warp.bar_warp_sync()
    with leader(warp):
        load(warp, described, FULL)
        warp.run(REPLACE.format("global_address", "shared::cta", "b64"), MAP, x + 128)
    if right:
        warp.mbarrier_wait(FULL, 0)
    warp.bar_warp_sync()
    warp.run(PUBLISH, described, MAP, 128)  # <- reported
    warp.bar_warp_sync()
    with leader(warp):
        warp.run(ACQUIRE, described, 128)
        load(warp, described, FULL + 8)
        if not right:
            warp.mbarrier_wait(FULL, 0)
        warp.mbarrier_wait(FULL + 8, 0)

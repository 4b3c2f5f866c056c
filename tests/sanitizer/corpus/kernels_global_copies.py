"""Pairs about bulk and tensor copies that write or read global memory which other blocks or warps use."""

from kernels_blocks import spin
from kernels_pairs import leader, pair

from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of

TWO = {"grid": 2, "block": 64, "shared": 520}
#: Where the mbarrier is; behind a tile of 256 bytes and room for another.
FULL = 512


def fill(warp, value=3):
    """All threads store a tile of 256 bytes, and the async proxy sees it."""
    warp.st_shared(4 * warp.threads, value)
    warp.fence_proxy_async("shared::cta")
    warp.bar_sync()


def stored(warp, read=False):
    """The thread that has issued a copy commits it and waits for it."""
    warp.cp_async_bulk_commit_group()
    warp.cp_async_bulk_wait_group(0, read=read)


def begin(warp):
    """Thread 0 makes the mbarrier."""
    with leader(warp):
        warp.mbarrier_init(FULL, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()


def load(warp, source, to=256):
    """Thread 0 copies 256 bytes into shared memory; all wait."""
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
        warp.cp_async_bulk_shared_global(to, source, 256, FULL)  # <- reported
    warp.mbarrier_wait(FULL, 0)


@pair("global-race", 64, 1, 64, **TWO)
def an_epilogue_that_waits_for_its_source_only(warp, right, tile, flag, out):
    """wait_group.read lets the buffer be used again; the tile may still be on its way when the flag is set."""
    if warp.ctaid[0] == 0:
        fill(warp)
        with leader(warp):
            warp.cp_async_bulk_global_shared(tile, 0, 256)  # <- reported
            stored(warp, read=not right)
            warp.st_global(flag, 1, order="release.gpu")
        return
    spin(warp, flag, "acquire.gpu")
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_global(tile.at(warp.threads)))  # <- reported


@pair("global-race", (16, 16), 1, 256, grid=2, block=64, shared=1024)
def a_flag_set_before_the_tensor_store_is_waited_for(warp, right, tile, flag, out):
    """The same thread stores the tile and the flag, but nothing orders a copy before a later store."""
    if warp.ctaid[0] == 0:
        for part in range(4):
            warp.st_shared(256 * part + 4 * warp.threads, part)
        warp.fence_proxy_async("shared::cta")
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_tensor_global_shared(TensorMap.of(tile, (16, 16)), (0, 0), 0)  # <- reported
            if right:
                stored(warp)
            warp.st_global(flag, 1, order="release.gpu")
            if not right:
                stored(warp)
        return
    spin(warp, flag, "acquire.gpu")
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_global(tile.at(warp.threads // 16, warp.threads % 16)))  # <- reported


@pair("global-race", 64, 1, **TWO)
def a_relaxed_flag_after_a_waited_copy(warp, right, tile, flag):
    """The wait makes the tile visible to the thread that waits, and to no other."""
    if warp.ctaid[0] == 0:
        fill(warp)
        with leader(warp):
            warp.cp_async_bulk_global_shared(tile, 0, 256)  # <- reported
            stored(warp)
            warp.st_global(flag, 1, order="release.gpu" if right else "relaxed.gpu")
        return
    spin(warp, flag, "acquire.gpu")
    warp.bar_sync()
    warp.ld_global(tile.at(warp.threads))  # <- reported


@pair("global-race", 64, 1, **TWO)
def a_tile_that_comes_by_one_copy_and_leaves_by_another(warp, right, tile, flag):
    """Stream-K by TMA: the block that finishes a tile loads the partial sums before they have arrived."""
    if warp.ctaid[0] == 0:
        fill(warp)
        with leader(warp):
            warp.cp_async_bulk_global_shared(tile, 0, 256)  # <- reported
            stored(warp, read=not right)
            warp.st_global(flag, 1, order="release.gpu")
        return
    begin(warp)
    spin(warp, flag, "acquire.gpu")
    load(warp, tile)  # <- reported


@pair("global-race", 64, **TWO)
def a_copy_that_only_its_own_thread_has_waited_for(warp, right, tile):
    """The other warps read the tile without meeting the thread that waited."""
    if warp.ctaid[0]:
        return
    fill(warp)
    with leader(warp):
        warp.cp_async_bulk_global_shared(tile, 0, 256)  # <- reported
        stored(warp)
    if right:
        warp.bar_sync()
    warp.ld_global(tile.at(warp.threads))  # <- reported


@pair("global-race", 64, **TWO)
def a_thread_loads_back_what_it_has_just_stored(warp, right, tile):
    if warp.ctaid[0]:
        return
    begin(warp)
    fill(warp)
    with leader(warp):
        warp.cp_async_bulk_global_shared(tile, 0, 256)  # <- reported
        if right:
            stored(warp)
    load(warp, tile)  # <- reported
    with leader(warp):
        stored(warp)


@pair("global-race", 128, **TWO)
def tensor_stores_that_overlap(warp, right, out):
    """The tiles of two blocks share a row."""
    fill(warp)
    with leader(warp):
        box = TensorMap.of(out, (64,))
        warp.cp_async_bulk_tensor_global_shared(box, ((64 if right else 48) * warp.ctaid[0],), 0)  # <- reported
        stored(warp, read=True)


@pair("global-race", 64, **TWO)
def a_block_clears_what_the_others_reduce_into(warp, right, sums):
    """Only the reductions are atomic: the host clears the sums before the launch."""
    if warp.ctaid[0] == 0 and not right:
        warp.st_global(sums.at(warp.threads), 0)  # <- reported
        return
    fill(warp)
    with leader(warp):
        warp.run("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", sums, 0, 256)  # <- reported
        stored(warp)


@pair("global-race", 64, 1, 64, **TWO)
def the_last_block_reads_sums_that_still_come(warp, right, sums, count, out):
    """Split-K: each block adds its tile by a copy, and the last one reads the sum."""
    fill(warp, 1)
    with leader(warp):
        warp.run("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", sums, 0, 256)  # <- reported
        stored(warp, read=not right)
        last = warp.atom_global("add.u32", count, 1, order="acq_rel.gpu")[0, 0] == 1
        warp.st_shared(FULL, int(last))
    warp.bar_sync()
    if warp.ld_shared(FULL)[0, 0]:
        warp.st_global(out.at(warp.threads), warp.ld_global(sums.at(warp.threads)))  # <- reported
    with leader(warp):
        stored(warp)


@pair("global-race", 64, 1, **TWO)
def a_tile_overwritten_while_another_block_copies_it(warp, right, tile, flag):
    """The reader says that it is done as soon as it has issued the copy."""
    if warp.ctaid[0]:
        spin(warp, flag, "acquire.gpu")
        warp.bar_sync()
        warp.st_global(tile.at(warp.threads), 5)  # <- reported
        return
    begin(warp)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
        warp.cp_async_bulk_shared_global(0, tile, 256, FULL)  # <- reported
        if right:
            warp.mbarrier_wait(FULL, 0)
        warp.st_global(flag, 1, order="release.gpu")
    warp.mbarrier_wait(FULL, 0)


@pair("global-race", 64, **TWO)
def a_tile_stored_over_the_one_that_comes(warp, right, tile):
    """In place: the store does not wait for the load of the same tile."""
    if warp.ctaid[0]:
        return
    begin(warp)
    fill(warp)
    if right:
        load(warp, tile)
    with leader(warp):
        if not right:
            warp.mbarrier_arrive_expect_tx(FULL, 256)
            warp.cp_async_bulk_shared_global(256, tile, 256, FULL)  # <- reported
        warp.cp_async_bulk_global_shared(tile, 0, 256)  # <- reported
        stored(warp, read=True)
    warp.mbarrier_wait(FULL, 0)


#: Where block 0 makes a tensor map in shared memory.
MAP = 384
PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release"


@pair("proxy-fence-missing", 64, 32, 1, **TWO)
def a_tensor_map_of_another_block_used_without_an_acquire(warp, right, x, described, flag):
    """A grouped GEMM: block 0 makes the map of the next group, and block 1 uses it; the flag alone is not enough."""
    publish(warp, x, described, flag, "gpu")
    if warp.ctaid[0]:
        begin(warp)
        spin(warp, flag, "acquire.gpu")
        with leader(warp):
            if right:
                warp.run("fence.proxy.tensormap::generic.acquire.gpu", described, 128)
            warp.mbarrier_arrive_expect_tx(FULL, 64)
            warp.cp_async_bulk_tensor_shared_global(256, described, (0,), FULL)  # <- reported
        warp.mbarrier_wait(FULL, 0)


@pair("proxy-fence-missing", 64, 32, 1, **TWO)
def a_tensor_map_published_to_its_own_block_alone(warp, right, x, described, flag):
    """cp_fenceproxy with the scope .cta."""
    publish(warp, x, described, flag, "gpu" if right else "cta")
    if warp.ctaid[0]:
        begin(warp)
        spin(warp, flag, "acquire.gpu")
        with leader(warp):
            warp.run("fence.proxy.tensormap::generic.acquire.gpu", described, 128)
            warp.mbarrier_arrive_expect_tx(FULL, 64)
            warp.cp_async_bulk_tensor_shared_global(256, described, (0,), FULL)  # <- reported
        warp.mbarrier_wait(FULL, 0)


def publish(warp, x, described, flag, scope):
    """Warp 0 of block 0 makes a map of x and sets the flag."""
    if warp.ctaid[0] == 0 and warp.warpid == 0:
        warp.st_shared(MAP + 4 * warp.laneid, words_of(TensorMap.of(x, (32,))))
        warp.bar_warp_sync()
        with leader(warp):
            warp.run("tensormap.replace.tile.box_dim.shared::cta.b1024.b32", MAP, 0, 16)
        warp.bar_warp_sync()
        warp.run(f"{PUBLISH}.{scope}.sync.aligned", described, MAP, 128)
        warp.bar_warp_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")


@pair("proxy-fence-missing", 64, 1, **TWO)
def a_tile_stored_by_one_block_and_copied_by_another(warp, right, tile, flag):
    """The flag orders the copy after the stores, but the copy reads through another proxy."""
    if warp.ctaid[0] == 0:
        warp.st_global(tile.at(warp.threads), 3)
        if right:
            warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
        return
    begin(warp)
    spin(warp, flag, "acquire.gpu")
    load(warp, tile)  # <- reported


@pair("proxy-fence-missing", 64, 1, **TWO)
def a_tile_copied_without_a_fence_behind_the_flag(warp, right, tile, flag):
    """The thread that copies may execute the fence, too: DeepEP does, after it has found the flag."""
    if warp.ctaid[0] == 0:
        warp.st_global(tile.at(warp.threads), 3)
        warp.bar_sync()
        with leader(warp):
            warp.st_global(flag, 1, order="release.gpu")
        return
    begin(warp)
    if not right:
        warp.fence_proxy_async()
    spin(warp, flag, "acquire.gpu")
    if right:
        warp.fence_proxy_async()
    load(warp, tile)  # <- reported

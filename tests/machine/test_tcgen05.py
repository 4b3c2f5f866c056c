"""Tensor Memory in kernels: allocation, moves, products, commits, under every policy."""

import re

import numpy as np
import pytest
from rows import rows
from tensor_kernels import ORDERS, SLOT, expected, gemm, one_warp

import tcemu
from tcemu.errors import Deadlock, LaunchError
from tcemu.layouts.tcgen05_ld_st import cells
from tcemu.machine import events
from tcemu.machine.launch import launch

POISON = 0x7FFFDEAD


# ------------------------------------------------------------------------------------------------ products


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "swizzle"), [(128, 64, 128), (64, 32, 32), (128, 8, 0)])
def test_a_gemm_is_what_matmul_says(m, n, swizzle):
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal((rows, 64)).astype(np.float16) for rows in (m, n))
    wanted = expected(a, b)
    for policy, seed in ORDERS:
        found = gemm(a.view(np.uint16), b.view(np.uint16), swizzle=swizzle, policy=policy, seed=seed)
        assert np.array_equal(found, wanted), (policy, seed)


def test_what_a_gemm_reports():
    """Operations in order, with their areas and what they rely on; the commit covers all of them."""
    heard = []
    a = np.ones((128, 64), np.float16).view(np.uint16)
    gemm(a, a[:32], observers=(heard.append,))
    mmas = [each.operation for each in heard if type(each) is events.Tcgen05Issued and each.operation.kind == "mma"]
    assert [each.adds for each in mmas] == [False, True, True, True]
    assert [each.after for each in mmas] == [(), (mmas[0],), (mmas[1],), (mmas[2],)]
    (d,) = mmas[0].writes
    assert (str(d), d.role, mmas[0].reads) == ("lanes 0 to 127 and columns 0 to 31", "d", ())
    assert {(role, len(at), size) for role, _, at, size in mmas[0].shared} == {("a", 2048, 2), ("b", 512, 2)}
    (commit,) = (each.commit for each in heard if type(each) is events.Tcgen05Committed)
    assert commit.operations == tuple(mmas)
    names = [each.name for each in heard]
    assert names.index("Tcgen05Committed") < names.index("Tcgen05Arrived") < names.index("MbarrierCompleted")
    assert {each.which for each in heard if type(each) is events.Tcgen05Fenced} == {
        "before_thread_sync", "after_thread_sync",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ moves

_SHAPES = [("32x32b", 4), ("16x64b", 4), ("16x128b", 2), ("16x256b", 1), ("16x32bx2", 4)]


@rows("shape num packed", [(*each, packed) for each in _SHAPES for packed in (False, True)])
@pytest.mark.parametrize(("policy", "seed"), ORDERS)
def test_what_is_stored_is_loaded(shape, num, packed, policy, seed):
    """st of any shape, as ld of 32x32b sees it, by the maps of CuTe; then ld of the same shape."""
    lanes, columns = cells(shape, num, packed, 8 if shape == "16x32bx2" else None)
    given = np.arange(32 * lanes.shape[1], dtype=np.uint32).reshape(32, -1) * 0x10001 + 0x10000
    split = (8,) if shape == "16x32bx2" else ()
    seen, back = {}, {}

    def body(warp, taddr):
        warp.tcgen05_st(taddr, given, f"{shape}.x{num}" + ".unpack::16b" * packed, *split)
        warp.tcgen05_wait_st()
        every = warp.tcgen05_ld(taddr, "32x32b.x32")
        again = warp.tcgen05_ld(taddr, f"{shape}.x{num}" + ".pack::16b" * packed, *split)
        warp.tcgen05_wait_ld()
        seen[0], back[0] = every[...], again[...]

    one_warp(body, policy=policy, seed=seed)
    wanted = np.full((32, 32), POISON, np.uint32)
    held = np.stack([given & 0xFFFF, given >> 16], 2) if packed else given
    wanted[lanes, columns] = (held | POISON & 0xFFFF0000) if packed else held
    assert np.array_equal(seen[0], wanted)
    assert np.array_equal(back[0], given)


def test_every_form_of_ld_and_st_runs():
    for name in ("ld", "st"):
        family = next(each for each in tcemu.instructions.FAMILIES if each.name == f"tcgen05.{name}")
        forms = [form for _, form in family.variants]
        assert len(forms) == 2 * 37

        def body(warp, taddr, forms=forms):
            for form in forms:
                split = [4] if form.facts.halves else []
                values = [np.zeros((32, form.sources[-1].registers), np.uint32)] if form.family == "tcgen05.st" else []
                found = warp.run(form, taddr, *split, *values)
                assert values or found.shape == (32, form.operands[0].registers)
            warp.tcgen05_wait_ld()
            warp.tcgen05_wait_st()

        one_warp(body, columns=512)


def test_registers_hold_what_was_loaded_after_the_wait_only():
    seen = {}
    for policy in ("early", "late"):

        def body(warp, taddr, policy=policy):
            warp.tcgen05_st(taddr, 7, "32x32b.x1")
            before = warp.tcgen05_ld(taddr, "32x32b.x1")  # after the store, which is pipelined
            seen[policy, "before"] = int(before[0, 0])
            warp.tcgen05_wait_ld()
            seen[policy, "after"] = int(before[0, 0])

        one_warp(body, policy=policy)
    assert seen == {("early", "before"): 7, ("early", "after"): 7, ("late", "before"): POISON, ("late", "after"): 7}


def test_another_warp_sees_a_store_after_its_wait_only():
    """The quarter of a warp is that of its number modulo four, so warp 4 loads what warp 0 has stored."""
    seen = {}
    for waits in (False, True):

        def body(warp, taddr, waits=waits):
            if warp.warpid == 0:
                warp.tcgen05_st(taddr, 7, "32x32b.x1")
                if waits:
                    warp.tcgen05_wait_st()
            warp.bar_sync()
            if warp.warpid == 4:
                found = warp.tcgen05_ld(taddr, "32x32b.x1")
                warp.tcgen05_wait_ld()
                seen[waits] = int(found[0, 0])

        one_warp(body, block=160)
    assert seen == {False: POISON, True: 7}


# ------------------------------------------------------------------------------------------------ columns


def _sizes(*sizes, free=True):
    def kernel(warp):
        for size in sizes:
            warp.tcgen05_alloc(SLOT, size)
            at = int(warp.ld_shared(SLOT)[0, 0])
            if free:
                warp.tcgen05_dealloc(at, size)

    return kernel


def _after_relinquish(warp):
    warp.tcgen05_relinquish_alloc_permit()
    warp.tcgen05_alloc(SLOT, 32)


def _freed(offset, count, twice=False):
    def kernel(warp):
        warp.tcgen05_alloc(SLOT, 64)
        at = int(warp.ld_shared(SLOT)[0, 0])
        if twice:
            warp.tcgen05_dealloc(at, 64)
        warp.tcgen05_dealloc(at + offset, count)

    return kernel


def _mixed(warp):
    warp.tcgen05_alloc(SLOT, 32)
    warp.tcgen05_relinquish_alloc_permit(cta_group=2)


def _used(address, what="32x32b.x8"):
    return lambda warp: one(warp, lambda taddr: warp.tcgen05_ld(taddr + address, what))


def one(warp, body):
    warp.tcgen05_alloc(SLOT, 32)
    body(int(warp.ld_shared(SLOT)[0, 0]))


_WRONG = [
    (_sizes(48), "allocation", "the number of columns must be a power of two from 32 to 512; got 48"),
    (_sizes(16), "allocation", "a power of two from 32 to 512; got 16"),
    (_sizes(1024), "allocation", "a power of two from 32 to 512; got 1024"),
    (_sizes(32, 64), "allocation", "must not be larger than the block's last one; got 64 columns after 32"),
    (_after_relinquish, "allocation", "has executed tcgen05.relinquish_alloc_permit, and may not allocate"),
    (_freed(32, 32), "allocation", "got 32 columns at 0x00000020 (lane 0, column 32), but block 0 has columns 0 to 63"),
    (_freed(0, 32), "allocation", "what is freed must be what one tcgen05.alloc has allocated; got 32 columns"),
    (_freed(0, 64, twice=True), "allocation", "but block 0 has none"),
    (_sizes(64, free=False), "allocation", "block 0 exits with columns 0 to 63 of Tensor Memory"),
    (_mixed, "pair", "must have the same .cta_group; warp 0 of block 0"),
    (_used(28), "columns", "lanes 0 to 31 and columns 28 to 35: column 32 is not allocated; block 0 has columns 0 to"),
    (_used(508), "bounds", "columns 508 to 515 lie outside Tensor Memory, which has 128 lanes and 512 columns"),
    (_used(32 << 16), "quarter", "reaches lanes 0 to 31 of Tensor Memory, so bits 31:16 of the address must be 0; got"),
    (_used(8 << 16, "16x64b.x1"), "quarter", "must be 0 or 16; got lane 8"),
    (_used(200 << 16), "quarter", "got lane 200, which does not exist"),
]


@rows("kernel kind says", _WRONG, ids=lambda kernel, kind, says: says)
def test_what_is_wrong_ends_the_launch(kernel, kind, says):
    heard = []
    with pytest.raises(LaunchError, match=re.escape(says)):
        launch(kernel, 1, 32, shared=64, target="sm_100a", observers=(heard.append,))
    (fault,) = (each for each in heard if isinstance(each, events.Faulted))
    assert (fault.kind, fault.space) == (kind, "tensor")


def test_a_block_waits_for_columns_of_another():
    """Two blocks that want all columns take turns; each gets the address of the first column."""
    order = []

    def kernel(warp):
        warp.tcgen05_alloc(SLOT, 512)
        order.append(("has", warp.ctaid[0]))
        for _ in range(20):
            warp.nanosleep(20)
        order.append(("frees", warp.ctaid[0]))
        warp.tcgen05_dealloc(int(warp.ld_shared(SLOT)[0, 0]), 512)

    for seed in range(1, 8):
        order.clear()
        launch(kernel, 2, 32, shared=64, target="sm_100a", seed=seed)
        first = order[0][1]
        assert order == [("has", first), ("frees", first), ("has", 1 - first), ("frees", 1 - first)]


def test_more_columns_than_there_are_is_a_deadlock_with_their_owners():
    def kernel(warp):
        warp.tcgen05_alloc(SLOT, 512)
        warp.tcgen05_alloc(SLOT, 32)

    with pytest.raises(Deadlock, match="32 free columns of Tensor Memory: of the 512 of its SM, block 0 has 512"):
        launch(kernel, 1, 32, shared=64, target="sm_100a")

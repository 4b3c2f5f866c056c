"""The quick way of an access to global memory leaves and reports what the long way does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

import tcemu
from tcemu.sanitizer.flags import Flags
from tcemu.sanitizer.global_shadow import GlobalShadow

WORDS = 128
STORES = ("", "volatile", "relaxed.gpu", "release.gpu")
LOADS = ("", "volatile", "relaxed.gpu", "acquire.gpu")
#: Of operations that only add, and of those that also look.
ADDS, LOOKS = ("relaxed.gpu", "release.gpu", "relaxed.cta", ""), ("relaxed.gpu", "acquire.gpu", "acq_rel.gpu", "")


def publish(warp, at, flag, number):
    """Store, and then tell so by a flag, with a release or without."""
    warp.st_global(at, number)
    warp.red_global("add.u32", flag, 1, order=ADDS[number])


def obtain(warp, at, flag, number):
    """Look at the flag, with an acquire or without, and then load."""
    warp.atom_global("add.u32", flag, 1, order=LOOKS[number])
    warp.ld_global(at)


#: What a warp does: at the addresses of its lanes, or at a flag's, with a number.
DOES = {
    "store": lambda warp, at, flag, number: warp.st_global(at, warp.laneid, order=STORES[number]),
    "wide store": lambda warp, at, flag, number: warp.st_global(at // 8 * 8, np.ones((32, 2), np.uint32), "v2.b32"),
    "load": lambda warp, at, flag, number: warp.ld_global(at, order=LOADS[number]),
    "load of bytes": lambda warp, at, flag, number: warp.ld_global(at, "u8"),
    "load of what stays": lambda warp, at, flag, number: warp.run("ld.global.nc.b32", at),
    "add": lambda warp, at, flag, number: warp.red_global("add.u32", at, 1, order=ADDS[number]),
    "add and look": lambda warp, at, flag, number: warp.atom_global("add.u32", at, 1, order=LOOKS[number]),
    "publish": publish,
    "obtain": obtain,
    "fence": lambda warp, at, flag, number: warp.run("fence.acq_rel.gpu"),
    "warp": lambda warp, at, flag, number: warp.bar_warp_sync(),
}
#: Steps that one of two warps of one of two blocks takes, some of its lanes or all, from a word on.
STEPS = st.lists(
    st.one_of(
        st.just("barrier"),
        st.tuples(
            st.sampled_from([*DOES]), st.integers(0, 1), st.integers(0, 1), st.sampled_from([0, 0, 1, 32]),
            st.integers(0, 3), st.booleans(),
        ),
    ),
    min_size=6,
    max_size=16,
)  # fmt: skip


def run(steps):
    """The reports of a kernel that takes these steps."""

    def kernel(warp, x, flags):
        flag = flags.at(0 * warp.laneid)
        for step in steps:
            if step == "barrier":
                warp.bar_sync()
                continue
            name, block, which, word, number, some = step
            if (block, which) == (warp.ctaid[0], warp.warpid):
                with warp.only(warp.laneid < (7 if some and name != "warp" else 32)):
                    DOES[name](warp, x.at(word + warp.laneid), flag, number)

    given = np.zeros((2, WORDS), np.uint32)
    found = tcemu.launch(kernel, grid=2, block=64, args=tuple(given), sanitizer="collect", target="sm_90a").reports
    return sorted((each.rule, each.message, each.severity, each.count) for each in found)


@examples(300)
@given(STEPS)
@pytest.mark.slow
def test_loads_stores_and_atomics(steps):
    def claim(shadow, addresses, size, first, lanes, strong, extent, own):
        shadow.settle(extent)  # with which the long way of a write begins
        return False

    with_it = run(steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GlobalShadow, "claim", claim)
        patch.setattr(GlobalShadow, "reread", lambda self, *given: False)
        patch.setattr(Flags, "_silent", lambda self, event: False)
        without = run(steps)
    assert with_it == without

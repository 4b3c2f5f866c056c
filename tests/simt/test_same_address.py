"""Which lane's value stays where lanes of one store give the same address: what an H200 answered."""

import numpy as np
import pytest

from tcemu.machine.launch import launch
from tests.simt.texts import kernel

LANES = np.arange(32)
#: tools/same_address.cu on an H200 (driver 580.159.04), in shared and in global memory: the lane that stays at each
#: place, if lane i stores there at i % 16, at i // 4, and at 7 * i % 5.
PLACES = [LANES % 16, LANES // 4, 7 * LANES % 5]
FOURS = [0, 4, 8, 12, 16, 20, 24, 28]
STAYS = {
    "u8": [list(range(16)), FOURS, [0, 3, 1, 4, 2]],
    "u16": [list(range(16)), FOURS, [0, 3, 1, 4, 2]],
    "u32": [list(range(16)), FOURS, [0, 3, 1, 4, 2]],
    "v2.u32": [list(range(16, 32)), FOURS, [20, 18, 16, 19, 17]],
    "v4.u32": [list(range(16, 32)), FOURS, [25, 28, 26, 24, 27]],
}
SPACES = ("shared", "global")


@pytest.mark.parametrize("which", ["", "reference"])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", STAYS)
def test_of_a_ptx_kernel(monkeypatch, kind, space, which):
    monkeypatch.setenv("TCEMU_KERNELS", which)
    count, bits = int(kind[1]) if kind[0] == "v" else 1, int(kind.split(".")[-1][1:])
    size, register = count * bits // 8, "%r" if bits == 32 else "%h"
    given = "{" + ", ".join(["%r10"] * count) + "}" if count > 1 else f"{register}10"
    computed = ("and.b32 %r2, %r0, 15;", "shr.u32 %r2, %r0, 2;", "mul.lo.u32 %r2, %r0, 7; rem.u32 %r2, %r2, 5;")
    for index, stays in zip(computed, STAYS[kind], strict=True):
        body = f"""
        .shared .align 16 .b8 s[512];
        mov.u32 %r10, %r0;  cvt.u16.u32 %h10, %r0;
        {index}
        mul.lo.u32 %r2, %r2, {size};
        mov.u32 %r1, s;  add.u32 %r1, %r1, %r2;
        cvt.u64.u32 %rd2, %r2;  add.s64 %rd2, %rd2, %rd1;
        st.{space}.{kind} [{"%r1" if space == "shared" else "%rd2"}], {given};
        bar.sync 0;
        mov.u32 %r1, s;  mad.lo.u32 %r1, %r0, {size}, %r1;
        mul.wide.u32 %rd2, %r0, {size};  add.s64 %rd2, %rd2, %rd1;
        ld.{space}.u8 %r3, [{"%r1" if space == "shared" else "%rd2"}];
        bar.sync 0;
        mul.wide.u32 %rd3, %r0, 4;  add.s64 %rd3, %rd3, %rd1;
        st.global.u32 [%rd3], %r3;
        """
        memory = np.zeros(512, np.uint8)
        kernel(body)(1, 32, memory, sanitizer="collect")
        assert memory.view(np.uint32)[: len(stays)].tolist() == stays


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", STAYS)
def test_of_a_python_kernel(kind, space):
    count, bits = int(kind[1]) if kind[0] == "v" else 1, int(kind.split(".")[-1][1:])
    size = count * bits // 8
    for places, stays in zip(PLACES, STAYS[kind], strict=True):
        array, found = np.zeros(512, np.uint8), []

        def body(warp, given, places=places, size=size, found=found):
            base = int(given) if space == "global" else 0
            values = np.repeat(LANES[:, None], count, axis=1)
            getattr(warp, f"st_{space}")(base + places * size, values, kind)
            found.append(warp.core.block.shared.bytes[:512].copy())

        launch(body, 1, 32, (array,), shared=512)
        assert (array if space == "global" else found[0])[::size][: len(stays)].tolist() == stays


def test_of_lanes_that_take_part(monkeypatch):
    """The same program with 256 masks of lanes in each memory, stores of 4 bytes: always the lowest stays."""
    body = """
    mov.u32 %r1, MASK;  shr.u32 %r1, %r1, %r0;  and.b32 %r1, %r1, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 st.global.u32 [%rd1], %r0;
    """
    for bits in (0x80000000, 0xFFFFFFFE, 0x00F0F000, 0x10000001):
        lowest = (bits & -bits).bit_length() - 1
        for which in ("", "reference"):
            monkeypatch.setenv("TCEMU_KERNELS", which)
            memory = np.zeros(1, np.uint32)
            kernel(body.replace("MASK", str(bits)))(1, 32, memory, sanitizer="collect")
            assert memory[0] == lowest

"""Ways to write a tile of 64 rows of 128 bytes, and what the tests of tiles do with it."""

from kernels_table import finish

import tcemu
from tcemu.layouts import Descriptor

MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"


def rows(row, unit):
    """64 rows of 128 bytes."""
    return 128 * row + 16 * unit


def padded(row, unit):
    return 144 * row + 16 * unit


def swizzled(row, unit):
    return 128 * row + 16 * (unit ^ row % 8)


def half_swizzled(row, unit):
    """The phase of the swizzle of 64 bytes, in lines of 128 bytes."""
    return 128 * row + 16 * (unit ^ row // 2 % 4)


def turned(row, unit):
    return 128 * row + 16 * ((unit + row) % 8)


def cores(row, unit):
    """8 columns of core matrices, 1024 bytes each."""
    return 1024 * unit + 16 * row


def row_cores(row, unit):
    """8 rows of core matrices, 1024 bytes each."""
    return row // 8 * 1024 + 128 * unit + row % 8 * 16


def multiply(warp, out, a, b, opcode=MMA, more=(1, 1, 1, 0, 0)):
    """D = the sum of products of the tiles."""
    warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    for one, other in zip(a, b, strict=True):
        warp.run(opcode, d, one, other, *more)
    finish(warp)
    row, column = 16 * warp.warpid + warp.laneid // 4, warp.laneid % 4 * 2
    for i in range(4):
        warp.st_global(out.at(row + 8 * (i // 2), column + i % 2), d[:, i])


def steps(step, *descriptor):
    """Descriptors for k = 0, 16, 32, 48, each `step` bytes further on."""
    return [Descriptor(step * number, *descriptor) for number in range(4)]


def launched(kernel, *args, shared=20480, block=128):
    return tcemu.launch(kernel, block=block, args=args, shared=shared, sanitizer="collect").reports

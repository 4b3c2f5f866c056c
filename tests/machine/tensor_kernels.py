"""Kernels on Tensor Memory that tests of several files share."""

import numpy as np

import tcemu
from tcemu.formats import lookup
from tcemu.instructions.tcgen05_product import Product
from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.layouts.tcgen05 import a_operand, accumulator, metadata, scale_factors
from tcemu.machine.allocation import Shared
from tcemu.machine.launch import launch
from tcemu.machine.tensor_memory import TensorMemory

#: Every policy, in the fixed order and in one that a seed decides.
ORDERS = [(policy, seed) for policy in ("early", "late", "random") for seed in (0, 5)]
#: Where tests keep the address of their columns, and an mbarrier.
SLOT, BARRIER = 0, 8


def one_warp(body, *, columns=32, policy="late", seed=0, block=32, **more):
    """Run body(warp, address of allocated columns) in each warp; the first allocates and frees."""

    def kernel(warp):
        if warp.warpid == 0:
            warp.tcgen05_alloc(SLOT, columns)
        warp.bar_sync()
        taddr = int(warp.ld_shared(SLOT)[0, 0])
        body(warp, taddr)
        warp.bar_sync()
        if warp.warpid == 0:
            warp.tcgen05_dealloc(taddr, columns)

    return launch(kernel, 1, block, shared=4096, target="sm_100a", policy=policy, seed=seed, **more)


def gemm(a, b, *, kind="f16", form="f16", idesc=None, k=16, swizzle=128, policy="late", seed=0, observers=()):
    """D (M, N) f32 of A (M, K) and B (N, K), given as patterns: the smallest whole kernel of one block."""
    (m, depth), n = a.shape, len(b)
    size = a.dtype.itemsize
    shared = Shared(A=(a.shape, a.dtype), B=(b.shape, b.dtype), bar=(1, np.uint64), slot=(1, np.uint32))
    tiles = {
        "A": Descriptor.for_tile(form, m, depth, swizzle=swizzle, start=int(shared.A)),
        "B": Descriptor.for_tile(form, n, depth, swizzle=swizzle, start=int(shared.B)),
    }
    columns = max(32, 1 << (n - 1).bit_length())
    bits = instruction_descriptor(m, n) if idesc is None else idesc

    def kernel(warp, a, b, out):
        slot, bar = int(shared.slot), int(shared.bar)
        if warp.warpid == 0:
            warp.tcgen05_alloc(slot, columns)
            warp.tcgen05_relinquish_alloc_permit()
        if warp.warpid == 1:
            with warp.only(warp.elect_sync()):
                warp.mbarrier_init(bar, 1)
                warp.fence_mbarrier_init()
        for name, source, rows in (("A", a, m), ("B", b, n)):
            with warp.only(warp.threads < rows):
                here = np.minimum(warp.threads, rows - 1)
                for chunk in range(0, depth, 16 // size):
                    at = np.array([tiles[name].address(int(row), chunk, form) for row in here])
                    warp.st_shared(at, warp.ld_global(source.at(here, chunk), "v4.b32"), "v4.b32")
        warp.fence_proxy_async()
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        warp.tcgen05_fence_after_thread_sync()
        d = int(warp.ld_shared(slot)[0, 0])
        if warp.warpid == 2:
            with warp.only(warp.elect_sync()):
                for step in range(0, depth, k):
                    left, right = (tcgen05_descriptor(tiles[name].advance(form, k=step)) for name in "AB")
                    warp.tcgen05_mma(kind, d, left, right, bits, step > 0)
                warp.tcgen05_commit(bar)
        warp.mbarrier_wait(bar, 0)
        warp.tcgen05_fence_after_thread_sync()
        row = warp.threads if m == 128 else np.where(warp.laneid < 16, 16 * warp.warpid + warp.laneid, 0)
        for column in range(0, n, 8):
            found = warp.tcgen05_ld(d + (warp.warpid * 32 << 16) + column, "32x32b.x8")
            warp.tcgen05_wait_ld()
            with warp.only((warp.laneid < 16) | (m == 128)):
                for half in (0, 4):
                    warp.st_global(out.at(row, column + half), found[:, half : half + 4], "v4.b32")
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        if warp.warpid == 0:
            warp.tcgen05_dealloc(d, columns)

    out = np.zeros((m, n), np.uint32)
    launch(kernel, 1, 128, (a, b, out), shared=shared, target="sm_100a", policy=policy, seed=seed, observers=observers)
    return out


def expected(a, b, form="f16", d="f32"):
    """What tcemu.matmul of mma.sync says, which has the same sums on this chip."""
    opcode = f"mma.sync.aligned.m16n8k16.row.col.{d}.{form}.{form}.{d}"
    return tcemu.matmul(a, b.T, instruction=opcode, target="sm_100a").view(np.uint32)


class Placed:
    """Operands of one tcgen05.mma placed by hand: bits of A (m, stored), B (n, k), D (m, n), as a pair or one block.

    Shared memory has A at 0 and B at 64 KB, in the canonical layout without a swizzle; Tensor Memory has D at column 0,
    A at 256 if it is there, scales at 320 and 352, and metadata at 384.
    """

    A, B, D, HELD, SCALES, META = 0, 1 << 16, 0, 256, (320, 352), 384

    def __init__(self, opcode, idesc, a, b, d, *, scales=(), codes=None, held=False, group=1):
        self.instruction = tcemu.parse(opcode, "sm_100a")
        self.product = Product.of(self.instruction, idesc, "sm_100a")
        self.idesc, self.a, self.b, self.d, self.scales, self.codes = idesc, a, b, d, scales, codes
        self.held, self.group = held, group
        #: what is added to the operands d and b when the instruction is issued
        self.beside = {"d": 0, "b": 0}

    def descriptor(self, patterns, start):
        """A K-major tile in shared memory, its 16-byte columns one after the other: its descriptor and its bytes."""
        form = lookup(self.product.descriptor.a if start == self.A else self.product.descriptor.b)
        bits = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(form.name, form.container)
        rows, depth = patterns.shape
        if self.product.kind.packed:
            lines = (patterns[:, 0::2] | patterns[:, 1::2] << 4).astype(np.uint8)
        elif bits < 8:
            ones = np.unpackbits(patterns.astype(np.uint8)[..., None], axis=2, bitorder="little")[..., :bits]
            lines = np.zeros((rows, depth // 16, 128), np.uint8)
            lines[..., : 16 * bits] = ones.reshape(rows, depth // 16, 16 * bits)
            lines = np.packbits(lines, axis=2, bitorder="little").reshape(rows, depth)
        else:
            lines = np.ascontiguousarray(patterns.astype(form.storage)).view(np.uint8)
        chunks = lines.reshape(rows, -1, 16).swapaxes(0, 1)  # (chunk of k, row, 16 bytes)
        tile = Descriptor(start, lbo=16 * rows, sbo=128)
        return tcgen05_descriptor(tile), chunks.tobytes()

    def run(self, *, adds=True, mask=None, zeros=None, policy="late", seed=0):
        """The new D (m, n): as tcgen05.mma of the machine leaves it, read from Tensor Memory."""
        found, group = self.product.descriptor, self.group
        rows, columns = found.m // group, found.n // group
        out = {}

        def kernel(warp):
            block = warp.core.block
            warp.tcgen05_alloc(SLOT, 512, cta_group=group)
            memory, rank = block.state(TensorMemory), block.rank
            mine = slice(rows * rank, rows * rank + rows)
            left, image = self.descriptor(self.a[mine], self.A)
            right, other = self.descriptor(self.b[columns * rank : columns * rank + columns], self.B)
            shared = block.shared.bytes
            for at, bytes_ in ((self.A, image), (self.B, other)):
                shared[at + 1024 : at + 1024 + len(bytes_)] = np.frombuffer(bytes_, np.uint8)
            left, right = left + (1024 >> 4), right + (1024 >> 4)
            place(memory, accumulator(found, group), self.D, self.d[mine])
            if self.held:
                width = lookup(found.a).container
                place(memory, a_operand(found, group, width), self.HELD, self.a[mine])
                left = self.HELD
            more = []
            if self.codes is not None:
                place(memory, metadata(found, group), self.META, self.codes[mine])
                more.append(self.META)
            more.append(self.idesc)
            for at, scales, half in zip(self.SCALES, self.scales, (mine, slice(None)), strict=False):
                place(memory, scale_factors(len(scales[half]), scales.shape[1]), at, scales[half])
                more.append(at)
            with warp.only(warp.elect_sync()):
                warp.mbarrier_init(BARRIER, 1)
                warp.fence_mbarrier_init()
            warp.barrier_cluster_arrive()
            warp.barrier_cluster_wait()
            if rank == 0:
                with warp.only(warp.elect_sync()):
                    masks = [] if mask is None else [mask]
                    d, right = self.D + self.beside["d"], right + self.beside["b"]
                    tail = [] if zeros is None else [zeros]
                    warp.run(self.instruction, d, left, right, *more, *masks, adds, *tail)
                    everyone = 3 if group == 2 else None
                    warp.tcgen05_commit(BARRIER, everyone, cta_group=group)
            warp.mbarrier_wait(BARRIER, 0)
            lanes, columns_, _ = accumulator(found, group).cells()
            out[rank] = memory.words[lanes, columns_].copy()
            warp.barrier_cluster_arrive()
            warp.barrier_cluster_wait()
            warp.tcgen05_dealloc(0, 512, cta_group=group)

        more = {"cluster": group} if group == 2 else {}
        launch(kernel, group, 32, shared=1 << 17, target="sm_100a", policy=policy, seed=seed, **more)
        return np.concatenate([out[rank] for rank in sorted(out)])


def place(memory, where, column, patterns):
    """Put patterns into Tensor Memory by a map, with all their copies."""
    lanes, columns, bits = where.cells()
    for copy in where.copies:
        for index in np.ndindex(patterns.shape):
            at = int(lanes[index]) + copy, int(columns[index]) + column
            mask = ((1 << where.width) - 1) << int(bits[index])
            memory.words[at] = int(memory.words[at]) & ~mask | int(patterns[index]) << int(bits[index])
            memory.defined[at] |= mask

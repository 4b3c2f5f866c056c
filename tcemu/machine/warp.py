"""The warp that a kernel is called with: PTX's special registers, and a method for each instruction."""

from __future__ import annotations

from typing import Any

from tcemu.instructions import Instruction
from tcemu.machine import other_names
from tcemu.machine.lanes import Lanes, lanes
from tcemu.machine.methods import (
    asynchronous_copy,
    atomics,
    data_movement,
    lanes_and_registers,
    mbarriers,
    miscellaneous,
    synchronization,
    tcgen05,
    warpgroup_matrix,
)
from tcemu.machine.methods.adoption import adopt
from tcemu.machine.special_registers import SpecialRegisters


class Warp(SpecialRegisters):
    """A warp of a running kernel: its special registers and a method for each instruction.

    The methods are named after the PTX opcodes, with underscores for dots. Addresses are in bytes: those in shared
    memory count from its start, those in global memory start at a pointer. An address is an integer for all lanes, or
    an array (32,) with one for each lane. Results are registers of the warp, (32, n) of uint32, or of uint64 for types
    of 64 bits; predicates are bool (32,). Values to store are a number, (32,) or (32, n).

    Each method's first line cites its section of the PTX ISA. Any of them raises OperandError for operands that do not
    fit and IllegalInstruction on a target without the instruction. An access outside memory, or one that is not
    aligned, ends the launch: with UndefinedBehaviour, or with MemoryFault if the sanitizer is off.

    >>> def lanes(warp, out):  # special registers, lanes, loads and stores
    ...     total = warp.redux_sync("add.u32", warp.laneid)[:, 0]  # 496 in every lane
    ...     left = warp.shfl_sync("up", warp.laneid, 1)  # each lane's value from the lane before it
    ...     odd = warp.vote_sync("ballot", warp.laneid % 2 == 1)  # 0xAAAAAAAA
    ...     same, all_same = warp.match_sync("any", warp.laneid // 4), warp.match_sync("all", 7)
    ...     with warp.only(warp.elect_sync()):  # one lane
    ...         warp.st_global(out.at(0), total + warp.ld_global(out.at(0))[:, 0])
    ...         warp.st_global(out.at(1), odd)
    ...         warp.atom_global("add.u32", out.at(2), 5)
    ...         warp.red_global("max.u32", out.at(3), warp.activemask())
    >>> out = np.zeros(4, np.uint32)
    >>> _ = tcemu.launch(lanes, args=(out,))
    >>> [hex(word) for word in out]
    ['0x1f0', '0xaaaaaaaa', '0x5', '0x1']
    >>> def block(warp, out):  # shared memory, barriers, fences
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     count = warp.bar_red("popc", warp.threads < 40)  # meets the block, as bar_sync does; 40
    ...     neighbour = warp.ld_shared(4 * ((warp.threads + 1) % 64))[:, 0]
    ...     warp.bar_warp_sync()
    ...     with warp.only(warp.laneid == 0):
    ...         warp.st_shared(256 + 4 * warp.warpid, 0)
    ...     warp.bar_warp_sync()
    ...     warp.red_shared("add.u32", 256 + 4 * warp.warpid, neighbour)  # the sum over the warp's lanes
    ...     old = warp.atom_shared("inc.u32", 256 + 4 * warp.warpid, 2**31)
    ...     warp.membar("cta")  # the same as warp.fence("sc", "cta")
    ...     warp.fence("acq_rel", "cta")
    ...     if warp.warpid == 1:
    ...         warp.bar_arrive(1, 64)  # counts, and does not wait
    ...         warp.exit()
    ...     else:
    ...         warp.bar_sync(1, 64)
    ...         warp.st_global(out.at(warp.laneid), warp.ld_shared(256 + 4 * (warp.laneid % 2)))
    >>> sums = np.zeros(32, np.uint32)
    >>> _ = tcemu.launch(block, block=64, args=(sums,), shared=512)
    >>> sums[:2]  # 1 + ... + 32 and 33 + ... + 63 + 0, and 32 increments each
    array([ 560, 1520], dtype=uint32)
    >>> def groups(warp, source, out):  # cp.async in groups; an mbarrier counts the copies of another stage
    ...     for stage in range(2):
    ...         warp.cp_async(128 * stage + 4 * warp.laneid, source.at(32 * stage + warp.laneid), 4)
    ...         warp.cp_async_commit_group()
    ...     warp.cp_async_wait_group(1)  # the first group has landed
    ...     warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * warp.laneid))
    ...     warp.cp_async_wait_all()
    ...     warp.st_global(out.at(32 + warp.laneid), warp.ld_shared(128 + 4 * warp.laneid))
    >>> source, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    >>> _ = tcemu.launch(groups, args=(source, out), shared=256)
    >>> np.array_equal(source, out)
    True
    >>> def bulk(warp, source, out):  # a bulk copy in, counted by an mbarrier at byte 512, and one out, in a group
    ...     with warp.only(warp.elect_sync()):
    ...         warp.mbarrier_init(512, 1)
    ...         warp.fence_mbarrier_init()
    ...         warp.mbarrier_arrive_expect_tx(512, 256)  # one arrival, and 256 bytes to come
    ...         warp.cp_async_bulk_shared_global(0, source, 256, 512)
    ...         warp.mbarrier_wait(512, 0)  # the first phase has parity 0
    ...         warp.cp_async_bulk_global_shared(out, 0, 256)
    ...         warp.cp_async_bulk_commit_group()
    ...         warp.cp_async_bulk_wait_group(0)
    ...         warp.mbarrier_inval(512)
    >>> out = np.zeros(64, np.uint32)
    >>> _ = tcemu.launch(bulk, args=(source, out), shared=520)
    >>> np.array_equal(source, out)
    True
    >>> def arrivals(warp, out):  # an mbarrier in steps, and registers
    ...     bar = 0
    ...     with warp.only(warp.laneid == 0):
    ...         warp.mbarrier_init(bar, 33)
    ...     warp.bar_warp_sync()
    ...     with warp.only(warp.laneid == 0):
    ...         warp.mbarrier_arrive_drop(bar)  # 32 are expected from the next phase on
    ...         warp.cp_async_mbarrier_arrive(bar)  # neutral: one more is pending until the copies have ended
    ...     warp.mbarrier_arrive(bar)
    ...     done = warp.mbarrier_try_wait(bar, 0)  # waits; test_wait only asks
    ...     acc = warp.registers(2, fill=0)
    ...     acc[:, 0] = warp.laneid * (done & warp.mbarrier_test_wait(bar, 0))
    ...     warp.st_global(out.at(warp.laneid), acc[:, 0])
    >>> out = np.zeros(32, np.uint32)
    >>> _ = tcemu.launch(arrivals, args=(out,), shared=8)
    >>> out[-1]
    np.uint32(31)
    >>> from tcemu.machine.tensor_map import TensorMap
    >>> def box(warp, x, y):  # a box of 8 rows of 16 numbers in by TMA, and out to another place
    ...     source, to = TensorMap.of(x, (16, 8)), TensorMap.of(y, (16, 8))
    ...     with warp.only(warp.elect_sync()):
    ...         warp.prefetch_tensormap(source)
    ...         warp.mbarrier_init(512, 1)
    ...         warp.fence_mbarrier_init()
    ...         warp.mbarrier_expect_tx(512, 512)
    ...         warp.cp_async_bulk_tensor_shared_global(0, source, (16, 8), 512)
    ...         warp.mbarrier_arrive(512)
    ...         warp.mbarrier_wait(512, 0)
    ...         first = warp.ld_shared(0).view(np.float32)
    ...         warp.st_shared(0, -first, "f32")
    ...         warp.fence_proxy_async("shared::cta")  # the copy out, by the async proxy, sees the store
    ...         warp.cp_async_bulk_tensor_global_shared(to, (0, 0), 0)
    ...         warp.cp_async_bulk_commit_group()
    ...         warp.cp_async_bulk_wait_group(0)
    >>> x, y = np.arange(512, dtype=np.float32).reshape(16, 32), np.zeros((16, 32), np.float32)
    >>> _ = tcemu.launch(box, args=(x, y), shared=520)
    >>> y[0, :2], x[8, 16:18]
    (array([-272.,  273.], dtype=float32), array([272., 273.], dtype=float32))
    >>> def product(warp, out):  # four warps multiply two tiles of shared memory, asynchronously
    ...     for place in range(0, 2048 + 256, 512):
    ...         warp.st_shared(place + 4 * warp.threads, 0x3C003C00)  # ones
    ...     warp.setmaxnreg("inc", 64)
    ...     warp.fence_proxy_async()
    ...     warp.bar_sync()
    ...     a, b = (tcemu.layouts.Descriptor.for_tile("f16", rows, 16, start=at) for rows, at in ((64, 0), (8, 2048)))
    ...     d = warp.registers(4, fill=0)
    ...     warp.wgmma_fence()
    ...     warp.run("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", d, a, b, 1, 1, 1, 0, 0)
    ...     warp.wgmma_commit_group()
    ...     warp.wgmma_wait_group(0)
    ...     warp.st_global(out.at(warp.threads), d[:, 0])
    >>> out = np.zeros(128, np.float32)
    >>> _ = tcemu.launch(product, block=128, args=(out,), shared=4096)
    >>> out[-1]
    np.float32(16.0)
    >>> def tensor(warp, out):  # one lane multiplies tiles of ones into Tensor Memory, beside ones of cp
    ...     for place in range(0, 4096, 512):
    ...         warp.st_shared(place + 16 * warp.laneid, np.full((32, 4), 0x3C003C00, np.uint32), "v4.b32")
    ...     warp.st_shared(4096 + 16 * warp.laneid, np.full((32, 4), 0x3F800000, np.uint32), "v4.b32")
    ...     warp.fence_proxy_async()
    ...     warp.tcgen05_alloc(8192, 32)  # 32 columns; their address is at byte 8192
    ...     warp.tcgen05_relinquish_alloc_permit()
    ...     with warp.only(warp.laneid == 0):
    ...         warp.mbarrier_init(8200, 1)
    ...     warp.bar_warp_sync()
    ...     d = int(warp.ld_shared(8192)[0, 0])
    ...     left = tcemu.layouts.Descriptor(0, lbo=2048, sbo=128)  # 128 rows of 16, without a swizzle
    ...     right = tcemu.layouts.Descriptor(0, lbo=128, sbo=128)
    ...     line = tcemu.layouts.Descriptor(4096, lbo=512, sbo=128)
    ...     with warp.only(warp.elect_sync()):
    ...         warp.tcgen05_cp(d, line, "32x128b.warpx4")  # ones in the first four columns
    ...         warp.tcgen05_mma("f16", d + 8, left, right, tcemu.layouts.instruction_descriptor(128, 8), False)
    ...         warp.tcgen05_commit(8200)
    ...     warp.mbarrier_wait(8200, 0)
    ...     warp.tcgen05_fence_after_thread_sync()
    ...     ones, sums = (warp.tcgen05_ld(d + column, "32x32b.x1") for column in (0, 8))
    ...     warp.tcgen05_wait_ld()  # before it, the registers hold nothing
    ...     warp.tcgen05_st(d, ones.view(np.float32) + sums.view(np.float32), "32x32b.x1")
    ...     warp.tcgen05_wait_st()
    ...     warp.tcgen05_fence_before_thread_sync()
    ...     last = warp.tcgen05_ld(d, "32x32b.x1")
    ...     warp.tcgen05_wait_ld()
    ...     warp.st_global(out.at(warp.laneid), last[:, 0])
    ...     warp.tcgen05_dealloc(d, 32)
    >>> out = np.zeros(32, np.float32)
    >>> _ = tcemu.launch(tensor, args=(out,), shared=8208, target="sm_100a")
    >>> out[-1]  # 16 products, and 1
    np.float32(17.0)
    >>> def hints(warp, out):  # what does nothing here but has its place in a kernel, and generic addresses
    ...     warp.griddepcontrol("wait")
    ...     warp.prefetch_global("L2", out)
    ...     warp.nanosleep(100)
    ...     warp.st_shared(4 * warp.laneid, warp.laneid)
    ...     warp.bar_warp_sync()
    ...     rows = warp.generic(16 * (warp.laneid % 8))
    ...     d = warp.run("ldmatrix.sync.aligned.m8n8.x1.b16", rows)
    ...     warp.st_global(out.at(warp.laneid), d)
    >>> out = np.zeros(32, np.uint32)
    >>> _ = tcemu.launch(hints, args=(out,), shared=128)
    >>> out[:4]
    array([0, 1, 2, 3], dtype=uint32)
    >>> def cluster(warp, out):  # two blocks that see each other's shared memory
    ...     other = 1 - warp.cluster_ctarank
    ...     there, bar = warp.mapa(4 * warp.laneid, other), warp.mapa(384, other)  # places in the other block
    ...     assert warp.getctarank(bar) == other
    ...     with warp.only(warp.elect_sync()):
    ...         warp.mbarrier_init(384, 2)
    ...         warp.fence_mbarrier_init()
    ...         warp.st_shared(400, np.zeros((32, 4), np.uint32), "v4.b32")
    ...     warp.st_shared(256 + 4 * warp.laneid, 100)
    ...     warp.fence_proxy_async()
    ...     warp.barrier_cluster_arrive()
    ...     warp.barrier_cluster_wait()
    ...     warp.st_async(there, warp.laneid, bar)  # 128 bytes, which the other block's mbarrier counts
    ...     warp.red_async("add.u32", there + 256, 1, bar)
    ...     with warp.only(warp.elect_sync()):
    ...         warp.cp_async_bulk_shared_cluster(there + 128, 400, 16, bar)  # 16 more
    ...         warp.mbarrier_arrive_expect_tx_shared_cluster(bar, 272)
    ...         warp.mbarrier_arrive_shared_cluster(bar)
    ...     warp.mbarrier_wait(384, 0)
    ...     warp.st_global(out.at(warp.cluster_ctarank, warp.laneid), warp.ld_shared(4 * warp.laneid))
    ...     warp.barrier_cluster_arrive()
    ...     warp.barrier_cluster_wait()
    ...     with warp.only(warp.laneid == other):
    ...         warp.st_shared_cluster(there, 7, order="relaxed")
    ...         warp.red_shared_cluster("add.u32", there, 1)
    ...         old = warp.atom_shared_cluster("exch.b32", there, 0)
    ...         assert (old[other, 0], warp.ld_shared_cluster(there)[other, 0]) == (8, 0)
    ...     warp.barrier_cluster_arrive("relaxed")  # neither block exits before both are done
    ...     warp.barrier_cluster_wait()
    >>> out = np.zeros((2, 32), np.uint32)
    >>> _ = tcemu.launch(cluster, 2, args=(out,), shared=416, cluster=2)
    >>> out[:, :4]
    array([[0, 1, 2, 3],
           [0, 1, 2, 3]], dtype=uint32)
    """

    def __repr__(self) -> str:
        return f"<warp {self.warpid} of block {self.ctaid}: {self.core.bits.bit_count()} active lanes>"

    __getattr__ = other_names.missing

    @property
    def target(self) -> str:
        """The target of the launch, such as "sm_90a"."""
        return self.core.target

    @property
    def active(self) -> Lanes:
        """The active lanes, which take part in operations now, bool (32,)."""
        return lanes(self.core.active.copy())

    def run(self, instruction: str | Instruction, *operands: Any, both: bool = False) -> Any:
        """Execute a PTX instruction, given as an opcode with all its qualifiers, on operands in PTX's order.

        This is tcemu.run for one warp, on the memory of the block. It returns registers (32, n), or None for a store.
        Each warp of a warpgroup passes its own (32, n) of wgmma's accumulator and gets the same registers back; they
        hold the result once a wgmma.wait_group covers it. The other methods are short forms: `warp.bar_sync()` is
        `warp.run("bar.sync", 0)`.

        shfl.sync, match.all.sync and elect.sync can write two destinations, d|p. They return the one that PTX does not
        let you leave out or, with `both`, (d, p). Raises OperandError for `both` of another instruction.
        """
        return self.core.execute(instruction, *operands, both=both)

    only = lanes_and_registers.only
    exit = lanes_and_registers.exit
    registers = lanes_and_registers.registers

    # ------------------------------------------------------------------------------------------- data movement (9.7.9)
    ld_shared = data_movement.ld_shared
    ld_global = data_movement.ld_global
    ld_shared_cluster = data_movement.ld_shared_cluster
    st_shared = data_movement.st_shared
    st_global = data_movement.st_global
    st_shared_cluster = data_movement.st_shared_cluster
    st_async = data_movement.st_async
    generic = data_movement.generic
    mapa = data_movement.mapa
    getctarank = data_movement.getctarank
    shfl_sync = data_movement.shfl_sync
    prefetch_global = data_movement.prefetch_global
    prefetch_tensormap = data_movement.prefetch_tensormap

    # ---------------------------------------------------------------------------------- asynchronous copies (9.7.9.25)
    cp_async = asynchronous_copy.cp_async
    cp_async_commit_group = asynchronous_copy.cp_async_commit_group
    cp_async_wait_group = asynchronous_copy.cp_async_wait_group
    cp_async_wait_all = asynchronous_copy.cp_async_wait_all
    cp_async_mbarrier_arrive = asynchronous_copy.cp_async_mbarrier_arrive
    cp_async_bulk_shared_global = asynchronous_copy.cp_async_bulk_shared_global
    cp_async_bulk_shared_cluster = asynchronous_copy.cp_async_bulk_shared_cluster
    cp_async_bulk_global_shared = asynchronous_copy.cp_async_bulk_global_shared
    cp_async_bulk_tensor_shared_global = asynchronous_copy.cp_async_bulk_tensor_shared_global
    cp_async_bulk_tensor_global_shared = asynchronous_copy.cp_async_bulk_tensor_global_shared
    cp_async_bulk_commit_group = asynchronous_copy.cp_async_bulk_commit_group
    cp_async_bulk_wait_group = asynchronous_copy.cp_async_bulk_wait_group

    # ---------------------------------------------------------------------------------------- synchronisation (9.7.13)
    bar_sync = synchronization.bar_sync
    bar_arrive = synchronization.bar_arrive
    bar_red = synchronization.bar_red
    bar_warp_sync = synchronization.bar_warp_sync
    barrier_cluster_arrive = synchronization.barrier_cluster_arrive
    barrier_cluster_wait = synchronization.barrier_cluster_wait
    fence = synchronization.fence
    membar = synchronization.membar
    fence_proxy_async = synchronization.fence_proxy_async
    fence_mbarrier_init = synchronization.fence_mbarrier_init
    vote_sync = synchronization.vote_sync
    match_sync = synchronization.match_sync
    redux_sync = synchronization.redux_sync
    activemask = synchronization.activemask
    elect_sync = synchronization.elect_sync
    griddepcontrol = synchronization.griddepcontrol

    # ------------------------------------------------------------------------------------ atomic operations (9.7.13.5)
    atom_shared = atomics.atom_shared
    atom_global = atomics.atom_global
    atom_shared_cluster = atomics.atom_shared_cluster
    red_shared = atomics.red_shared
    red_global = atomics.red_global
    red_shared_cluster = atomics.red_shared_cluster
    red_async = atomics.red_async

    # ------------------------------------------------------------------------------------------- mbarriers (9.7.13.15)
    mbarrier_init = mbarriers.mbarrier_init
    mbarrier_inval = mbarriers.mbarrier_inval
    mbarrier_arrive = mbarriers.mbarrier_arrive
    mbarrier_arrive_drop = mbarriers.mbarrier_arrive_drop
    mbarrier_expect_tx = mbarriers.mbarrier_expect_tx
    mbarrier_arrive_expect_tx = mbarriers.mbarrier_arrive_expect_tx
    mbarrier_arrive_shared_cluster = mbarriers.mbarrier_arrive_shared_cluster
    mbarrier_arrive_expect_tx_shared_cluster = mbarriers.mbarrier_arrive_expect_tx_shared_cluster
    mbarrier_test_wait = mbarriers.mbarrier_test_wait
    mbarrier_try_wait = mbarriers.mbarrier_try_wait
    mbarrier_wait = mbarriers.mbarrier_wait

    # -------------------------------------------------------------------------- wgmma (9.7.15), miscellaneous (9.7.19)
    wgmma_fence = warpgroup_matrix.wgmma_fence
    wgmma_commit_group = warpgroup_matrix.wgmma_commit_group
    wgmma_wait_group = warpgroup_matrix.wgmma_wait_group

    # ------------------------------------------------------------------------------------------------ tcgen05 (9.7.16)
    tcgen05_alloc = tcgen05.tcgen05_alloc
    tcgen05_dealloc = tcgen05.tcgen05_dealloc
    tcgen05_relinquish_alloc_permit = tcgen05.tcgen05_relinquish_alloc_permit
    tcgen05_ld = tcgen05.tcgen05_ld
    tcgen05_st = tcgen05.tcgen05_st
    tcgen05_wait_ld = tcgen05.tcgen05_wait_ld
    tcgen05_wait_st = tcgen05.tcgen05_wait_st
    tcgen05_cp = tcgen05.tcgen05_cp
    tcgen05_mma = tcgen05.tcgen05_mma
    tcgen05_commit = tcgen05.tcgen05_commit
    tcgen05_fence_before_thread_sync = tcgen05.tcgen05_fence_before_thread_sync
    tcgen05_fence_after_thread_sync = tcgen05.tcgen05_fence_after_thread_sync

    setmaxnreg = miscellaneous.setmaxnreg
    nanosleep = miscellaneous.nanosleep


adopt(Warp)

"""The warp that a kernel is called with: PTX's special registers, and a method for each instruction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, UnknownName, briefly, did_you_mean
from tcemu.instructions import FAMILIES, Instruction, parse
from tcemu.machine import (  # noqa: F401 - these modules register what executes their chapters
    asynchronous_copy,
    atomics,
    barriers,
    bulk_copy,
    cluster,
    cluster_memory,
    data_movement,
    mbarrier_operations,
    miscellaneous,
    synchronization,
    warp_matrix,
    warpgroup_matrix,
)
from tcemu.machine.addresses import generic
from tcemu.machine.block import Index3
from tcemu.machine.core import Core
from tcemu.machine.lanes import Lanes, fixed, lanes
from tcemu.machine.masks import FULL, LANES, bits_of
from tcemu.machine.memory import Pointer
from tcemu.machine.registers import WARP, Registers
from tcemu.machine.tensor_map import TensorMap

#: The most registers that `Warp.registers` allocates at once, more than any thread has.
_MOST = 1024
#: Names from CUDA C++ and from older versions, and what a kernel writes here.
_OTHERS = {
    "threadIdx": "warp.tid, arrays x, y and z (32,); warp.threads numbers the threads of the block",
    "blockIdx": "warp.ctaid, (x, y, z)",
    "blockDim": "warp.ntid, (x, y, z)",
    "gridDim": "warp.nctaid, (x, y, z)",
    "warpSize": "32",
    "__syncthreads": "warp.bar_sync()",
    "syncthreads": "warp.bar_sync()",
    "__syncwarp": "warp.bar_warp_sync()",
    "syncwarp": "warp.bar_warp_sync()",
    "__threadfence": "warp.fence()",
    "__shfl_sync": "warp.shfl_sync('idx', values, lane)",
    "__shfl_down_sync": "warp.shfl_sync('down', values, delta)",
    "__shfl_up_sync": "warp.shfl_sync('up', values, delta)",
    "__shfl_xor_sync": "warp.shfl_sync('bfly', values, mask)",
    "__ballot_sync": "warp.vote_sync('ballot', predicate)",
    "__any_sync": "warp.vote_sync('any', predicate)",
    "__all_sync": "warp.vote_sync('all', predicate)",
    "atomicAdd": "warp.red_global('add.u32', address, value), or warp.atom_global to get the old value",
    "shared": "warp.ld_shared(address) and warp.st_shared(address, value); launch(..., shared=bytes) allocates it",
    "block": "warp.ctaid",
    "grid": "warp.nctaid",
    "block_shape": "warp.ntid",
    "thread": "warp.tid",
    "lanes": "warp.laneid",
    "lane": "warp.laneid",
    "index": "warp.warpid",
}


@lru_cache(maxsize=4096)
def _form(*qualifiers: str) -> str:
    """The opcode that qualifiers spell, in any order; empty ones are left out."""
    return parse(".".join(word.strip(".") for word in qualifiers if word)).opcode


def _text(family: str, what: str, given: object) -> str:
    if not isinstance(given, str):
        section = next(each.section for each in FAMILIES if each.name == family)
        raise OperandError(
            f"{family}: {what} is text, as the opcode spells it; got {briefly(given)} (PTX ISA {section})"
        )
    return given


#: Memory orders that have a scope, and the default scope in each state space.
_SCOPED = ("relaxed", "acquire", "release", "acq_rel")
_SCOPES = {"shared": "cta", "shared::cluster": "cluster", "global": "gpu"}


def _order(family: str, given: object, space: str) -> str:
    """A memory order with its scope; without one, .cta or .cluster in shared memory, and .gpu in global memory."""
    order = _text(family, "order", given).strip(".")
    return f"{order}.{_SCOPES[space]}" if order in _SCOPED else order


def _access(family: str, space: str, what: object, order: object) -> str:
    """The opcode of an access to a state space: `what` is "v4.b32", "add.u32" or such."""
    words = _order(family, order, space) if order != "" else ""
    return _form(family, words, space, what if type(what) is str else _text(family, f"what follows .{space}", what))


class _Only:
    """While it is entered, only lanes of a mask are active. Lanes that exit inside stay away."""

    __slots__ = ("_before", "_core", "_mask")

    def __init__(self, core: Core, mask: int) -> None:
        self._core, self._mask, self._before = core, mask, 0

    def __enter__(self) -> None:
        self._before = self._core.bits
        self._core.bits &= self._mask

    def __exit__(self, *_: object) -> None:
        self._core.bits = self._before & self._core.there


class Warp:
    """A warp of a running kernel: its special registers and a method for each instruction.

    The methods are named after the PTX opcodes, with underscores for dots. Addresses are in bytes: those in shared
    memory count from its start, those in global memory start at a pointer. An address is an integer for all lanes, or
    an array (32,) with one for each lane. Results are registers of the warp, (32, n); predicates are bool (32,).

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
    ...         warp.bar_arrive(1, 64)  # counts, and goes on
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
    ...     warp.barrier_cluster_arrive("relaxed")  # nobody exits before both are done
    ...     warp.barrier_cluster_wait()
    >>> out = np.zeros((2, 32), np.uint32)
    >>> _ = tcemu.launch(cluster, 2, args=(out,), shared=416, cluster=2)
    >>> out[:, :4]
    array([[0, 1, 2, 3],
           [0, 1, 2, 3]], dtype=uint32)
    """

    def __init__(self, core: Core) -> None:
        #: the warp as the machine and its front ends see it
        self.core = core

    def __repr__(self) -> str:
        return f"<warp {self.warpid} of block {self.ctaid}: {self.core.bits.bit_count()} active lanes>"

    def __getattr__(self, name: str) -> Any:
        if name in _OTHERS:
            raise UnknownName(f"a warp has no {name} here; write {_OTHERS[name]}")
        known = [each for each in dir(self) if not each.startswith("_")]
        raise UnknownName(f"a warp has no {name}.{did_you_mean(name, known)}")

    # ---------------------------------------------------------------------------------------- special registers

    @property
    def ctaid(self) -> Index3:
        """%ctaid: the position of the block in the grid, (x, y, z)."""
        return self.core.block.index

    @property
    def nctaid(self) -> Index3:
        """%nctaid: the number of blocks in the grid, (x, y, z)."""
        return self.core.block.shape.grid

    @property
    def ntid(self) -> Index3:
        """%ntid: the number of threads in a block, (x, y, z)."""
        return self.core.block.shape.block

    @property
    def tid(self) -> tuple[Lanes, Lanes, Lanes]:
        """%tid: the position of each lane in its block, three arrays x, y and z (32,)."""
        x, y, _ = self.ntid
        threads = self.threads
        return fixed(threads % x), fixed(threads // x % y), fixed(threads // (x * y))

    @property
    def laneid(self) -> Lanes:
        """%laneid: 0 to 31, (32,)."""
        return lanes(LANES)

    @property
    def warpid(self) -> int:
        """%warpid: the number of the warp in its block."""
        return self.core.index

    @property
    def nwarpid(self) -> int:
        """%nwarpid: the number of warps in the block; the last one may be only partly full."""
        return self.core.block.warps

    @property
    def cluster_ctarank(self) -> int:
        """%cluster_ctarank: the rank of the block in its cluster, with x as the fastest dimension, then y, then z."""
        return self.core.block.rank

    @property
    def cluster_nctarank(self) -> int:
        """%cluster_nctarank: the number of blocks in the cluster."""
        return self.core.block.shape.ranks

    @property
    def cluster_ctaid(self) -> Index3:
        """%cluster_ctaid: the position of the block in its cluster, (x, y, z)."""
        return self.core.block.place

    @property
    def cluster_nctaid(self) -> Index3:
        """%cluster_nctaid: the number of blocks in a cluster, (x, y, z)."""
        return self.core.block.shape.cluster or (1, 1, 1)

    @property
    def clusterid(self) -> Index3:
        """%clusterid: the position of the cluster among those of the grid, (x, y, z)."""
        return self.core.block.cluster.index

    @property
    def nclusterid(self) -> Index3:
        """%nclusterid: the number of clusters in the grid, (x, y, z)."""
        return self.core.block.shape.clusters

    @property
    def is_explicit_cluster(self) -> bool:
        """%is_explicit_cluster: whether the launch has clusters; without them, each block is a cluster of its own."""
        return self.core.block.shape.cluster is not None

    @property
    def threads(self) -> Lanes:
        """The number of each lane in its block, (32,): %tid with x as the fastest dimension, then y, then z."""
        return fixed(LANES + WARP * self.core.index)

    @property
    def warpgroup(self) -> int:
        """The number of the warpgroup: four consecutive warps that start at a multiple of four."""
        return self.core.index // 4

    @property
    def target(self) -> str:
        """The target of the launch, such as "sm_90a"."""
        return self.core.target

    @property
    def active(self) -> Lanes:
        """The active lanes, which take part in operations now, bool (32,)."""
        return lanes(self.core.active.copy())

    # ---------------------------------------------------------------------------------------- lanes, registers

    def only(self, mask: npt.ArrayLike) -> AbstractContextManager[None]:
        """Within `with warp.only(mask):` only the lanes of `mask` are active: bool (32,), or one bool for all.

        The mask may be empty. An operation without active lanes does nothing; the registers that it returns are
        unwritten. Raises OperandError for anything but bools.
        """
        wanted = self.core.values(mask)
        if wanted.dtype != np.bool_ or wanted.shape not in ((), (WARP,)):
            raise OperandError(f"a mask of lanes is bool (32,); got dtype {wanted.dtype}, shape {wanted.shape}")
        return _Only(self.core, bits_of(wanted) if wanted.ndim else FULL * bool(wanted))

    def exit(self) -> None:
        """exit: the active lanes exit and take part in nothing that follows (PTX ISA 9.7.12.7).

        After the last lane has exited, the Python function still runs to its end, but its operations do nothing.
        """
        if self.core.bits:
            self.core.by()
        self.core.exit()

    def registers(self, count: int, fill: int | None = None, dtype: npt.DTypeLike = np.uint32) -> Registers:
        """New registers (32, count) of the warp, filled with `fill` or, without it, unwritten.

        Raises OperandError for a count that is not 1 to 1024, a `fill` that does not fit, or another dtype than uint32
        and uint64.
        """
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 1 <= count <= _MOST:
            raise OperandError(f"the number of registers is an integer from 1 to {_MOST}; got {briefly(count)}")
        kind = _register_dtype(dtype)
        if fill is None:
            return self.core.blank(int(count), kind)
        bits = 8 * kind.itemsize
        if not isinstance(fill, int | np.integer) or not -(1 << bits - 1) <= fill < 1 << bits:
            raise OperandError(f"registers are filled with an integer of {bits} bits; got {briefly(fill)}")
        return self.core.made(np.full((WARP, count), int(fill) % (1 << bits), kind), FULL)

    def generic(self, shared_address: npt.ArrayLike) -> Any:
        """cvta.shared: the generic addresses of addresses in shared memory, an int or an int64 array of their shape."""
        array = self.core.values(shared_address)
        if array.dtype.kind not in "iu":
            raise OperandError(f"cvta.shared: addresses are integers; got dtype {array.dtype} (PTX ISA 9.7.9.20)")
        found = generic(array.astype(np.int64), self.core.block.rank)
        return found if array.ndim else int(found)

    def mapa(self, address: npt.ArrayLike, cta: npt.ArrayLike) -> Any:
        """mapa.shared::cluster: the same place in the shared memory of the block with rank `cta` of the cluster.

        Returns an int or, if an operand is an array (32,), an int64 array (32,).
        """
        return self.core.execute("mapa.shared::cluster.u32", address, cta)

    def getctarank(self, address: npt.ArrayLike) -> Any:
        """getctarank.shared::cluster: the rank of the block whose shared memory the address lies in."""
        return self.core.execute("getctarank.shared::cluster.u32", address)

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

    # ---------------------------------------------------------------------------------------- ld, st, atom, red

    def ld_shared(self, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
        """ld.shared: load registers (32, n); `access` is the type, with a vector size in front: "b32", "v4.b32".

        An `order` makes the load strong: "volatile", "relaxed" or "acquire", optionally with a scope ("acquire.cta").
        """
        form = _access("ld", "shared", access, order)
        return self.core.execute(form, addresses)  # type: ignore[no-any-return]

    def ld_global(self, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
        """ld.global: like ld_shared, from global memory; a pointer is the address of its first byte."""
        form = _access("ld", "global", access, order)
        return self.core.execute(form, addresses)  # type: ignore[no-any-return]

    def st_shared(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
    ) -> None:
        """st.shared: store values (32, n), (32,) or one for all; floats of the element's width keep their bits.

        An `order` makes the store strong: "volatile", "relaxed" or "release", optionally with a scope.
        """
        self.core.execute(_access("st", "shared", access, order), addresses, values)

    def st_global(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
    ) -> None:
        """st.global: like st_shared, to global memory."""
        self.core.execute(_access("st", "global", access, order), addresses, values)

    def atom_shared(
        self,
        operation: str,
        addresses: npt.ArrayLike,
        b: npt.ArrayLike,
        c: npt.ArrayLike | None = None,
        *,
        order: str = "",
    ) -> Registers:
        """atom.shared: return the old values, registers (32, 1); `operation` is "add.u32", "exch.b32", "cas.b32" etc.

        `cas` compares with `b` and stores `c`. `order` is "relaxed", "acquire", "release" or "acq_rel", optionally with
        a scope.
        """
        return self._atom("shared", operation, addresses, b, c, order)

    def atom_global(
        self,
        operation: str,
        addresses: npt.ArrayLike,
        b: npt.ArrayLike,
        c: npt.ArrayLike | None = None,
        *,
        order: str = "",
    ) -> Registers:
        """atom.global: like atom_shared. Additions of f32 flush subnormals to zero; those in shared memory do not."""
        return self._atom("global", operation, addresses, b, c, order)

    def _atom(self, space: str, operation: str, addresses: Any, b: Any, c: Any, order: str) -> Registers:
        form = _access("atom", space, operation, order)
        operands = (b,) if c is None else (b, c)
        return self.core.execute(form, addresses, *operands)  # type: ignore[no-any-return]

    def red_shared(self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
        """red.shared: like atom_shared, but returns nothing; without "exch", "cas" and the orders of a read."""
        self.core.execute(_access("red", "shared", operation, order), addresses, b)

    def red_global(self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
        """red.global: like red_shared, on global memory."""
        self.core.execute(_access("red", "global", operation, order), addresses, b)

    # ---------------------------------------------------------------------------------------- shared memory, cluster

    def ld_shared_cluster(self, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
        """ld.shared::cluster: like ld_shared, from the shared memory of any block of the cluster (see `mapa`)."""
        form = _access("ld", "shared::cluster", access, order)
        return self.core.execute(form, addresses)  # type: ignore[no-any-return]

    def st_shared_cluster(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
    ) -> None:
        """st.shared::cluster: like st_shared, to the shared memory of any block of the cluster."""
        self.core.execute(_access("st", "shared::cluster", access, order), addresses, values)

    def atom_shared_cluster(
        self,
        operation: str,
        addresses: npt.ArrayLike,
        b: npt.ArrayLike,
        c: npt.ArrayLike | None = None,
        *,
        order: str = "",
    ) -> Registers:
        """atom.shared::cluster: like atom_shared, in the shared memory of any block of the cluster."""
        return self._atom("shared::cluster", operation, addresses, b, c, order)

    def red_shared_cluster(
        self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = ""
    ) -> None:
        """red.shared::cluster: like red_shared, in the shared memory of any block of the cluster."""
        self.core.execute(_access("red", "shared::cluster", operation, order), addresses, b)

    def st_async(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, mbarrier: npt.ArrayLike, access: str = "b32"
    ) -> None:
        """st.async: store values in the cluster's shared memory while the warp goes on; `mbarrier` counts the bytes.

        The mbarrier is in the same block as the destination.
        """
        form = _form("st.async.shared::cluster.mbarrier::complete_tx::bytes", _text("st.async", "access", access))
        self.core.execute(form, addresses, values, mbarrier)

    def red_async(
        self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, mbarrier: npt.ArrayLike
    ) -> None:
        """red.async: like st_async, but combines each value with the one at the destination: "add.u32"."""
        start = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"
        self.core.execute(_form(start, _text("red.async", "operation", operation)), addresses, b, mbarrier)

    # ---------------------------------------------------------------------------------------- lanes of the warp

    def shfl_sync(
        self, mode: str, values: npt.ArrayLike, lane: npt.ArrayLike, width: int = WARP, *, both: bool = False
    ) -> Any:
        """shfl.sync: each lane gets another lane's value, in the shape, (32,) or (32, n), and dtype of `values`.

        `mode` is "idx", "up", "down" or "bfly"; `lane` is its operand, one for all or (32,), of which five bits count;
        `width` is the number of lanes in a segment. Values from or for inactive lanes are poison. With `both`, returns
        (values, p): the predicate p, bool (32,), is false in lanes whose source lies outside their segment.
        """
        form = _form("shfl.sync", _text("shfl.sync", "mode", mode), "b32")
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width not in (1, 2, 4, 8, 16, 32):
            raise OperandError(
                f"shfl.sync: a segment has 1, 2, 4, 8, 16 or 32 lanes; got {briefly(width)} (PTX ISA 9.7.9.6)"
            )
        clamp = (WARP - int(width)) << 8 | (0 if mode == "up" else WARP - 1)
        return self.core.execute(form, values, lane, clamp, both=both)

    def vote_sync(self, mode: str, predicate: npt.ArrayLike) -> Any:
        """vote.sync: whether the predicate is true in "all" active lanes, in "any", or the same in all ("uni").

        Returns a bool or, for the mode "ballot", an int with one bit for each lane. If no lane is active, "all" and
        "uni" are true.
        """
        form = _form("vote.sync", _text("vote.sync", "mode", mode), _VOTES.get(mode, "pred"))
        return self.core.execute(form, predicate)

    def match_sync(self, mode: str, values: npt.ArrayLike) -> Any:
        """match.sync: the lanes that have the same value, one bit for each.

        "any" returns for each lane the mask of the lanes with its value, uint32 (32,). "all" returns (masks, p): the
        active lanes if they all have the same value, which p tells, and 0 otherwise.
        """
        form = _form("match", _text("match.sync", "mode", mode), "sync.b32")
        return self.core.execute(form, values, both=mode == "all")

    def redux_sync(self, operation: str, values: npt.ArrayLike) -> Registers:
        """redux.sync: combine the active lanes' values ("add.u32", "min.s32", "and.b32"); all of them get it."""
        form = _form("redux.sync", _text("redux.sync", "operation", operation))
        return self.core.execute(form, values)  # type: ignore[no-any-return]

    def activemask(self) -> int:
        """activemask: the active lanes, one bit for each."""
        return self.core.execute("activemask.b32")  # type: ignore[no-any-return]

    def elect_sync(self, *, both: bool = False) -> Any:
        """elect.sync: a predicate, bool (32,), that is true in one active lane, the first.

        With `both`, returns (d, p): d is the number of that lane, or -1 if no lane is active.
        """
        return self.core.execute("elect.sync", both=both)

    def bar_warp_sync(self) -> None:
        """bar.warp.sync (__syncwarp): the active lanes wait for each other, and then see what each of them wrote."""
        self.core.execute("bar.warp.sync")

    # ---------------------------------------------------------------------------------------- barriers, fences

    def bar_sync(self, barrier: int = 0, threads: int | None = None) -> None:
        """bar.sync (__syncthreads): wait until `threads` threads, by default all of the block, have arrived."""
        self.core.execute("bar.sync", barrier, *(() if threads is None else (threads,)))

    def bar_arrive(self, barrier: int, threads: int) -> None:
        """bar.arrive: arrive at the barrier without waiting."""
        self.core.execute("bar.arrive", barrier, threads)

    def bar_red(self, mode: str, predicate: npt.ArrayLike, barrier: int = 0, threads: int | None = None) -> Any:
        """bar.red: like bar_sync; then return how many predicates are true, or whether all or any of them are.

        `mode` is "popc" (returns an int), "and" or "or" (return a bool); `predicate` is bool (32,), or one for all.
        """
        form = _form("bar.red", _text("bar.red", "mode", mode), "u32" if mode == "popc" else "pred")
        return self.core.execute(form, barrier, *(() if threads is None else (threads,)), predicate)

    def barrier_cluster_arrive(self, order: str = "release") -> None:
        """barrier.cluster.arrive: arrive at the barrier of the cluster; "relaxed" publishes nothing done before."""
        self.core.execute(_form("barrier.cluster.arrive", _text("barrier.cluster.arrive", "order", order)))

    def barrier_cluster_wait(self) -> None:
        """barrier.cluster.wait: wait until all threads of the cluster have arrived, and see what they did before."""
        self.core.execute("barrier.cluster.wait.acquire")

    def fence(self, semantics: str = "acq_rel", scope: str = "gpu") -> None:
        """fence (__threadfence etc.): order the strong accesses of each thread before it with those after it.

        `semantics` is "acq_rel", "sc", "acquire" or "release"; `scope` is "cta", "cluster", "gpu" or "sys". A flag that
        one thread writes after a fence and another reads before one orders what the two do around it. A fence alone
        waits for nobody.
        """
        order = _text("fence", "semantics", semantics) or "acq_rel"
        self.core.execute(_form("fence", order, _text("fence", "scope", scope)))

    def membar(self, level: str = "gl") -> None:
        """membar: the old name of fence.sc; `level` is "cta", "gl" or "sys"."""
        self.core.execute(_form("membar", _text("membar", "level", level)))

    def fence_proxy_async(self, space: str = "") -> None:
        """fence.proxy.async: make what the active lanes wrote visible to the async proxy.

        `space` is "", "shared::cta", "shared::cluster" or "global". The fence orders each thread's own accesses only;
        other threads need a barrier after it.
        """
        self.core.execute(_form("fence.proxy.async", _text("fence.proxy.async", "space", space)))

    def fence_mbarrier_init(self) -> None:
        """fence.mbarrier_init.release.cluster: make mbarriers that these lanes initialised visible to bulk copies."""
        self.core.execute("fence.mbarrier_init.release.cluster")

    def griddepcontrol(self, action: str) -> None:
        """griddepcontrol: "wait" or "launch_dependents". Grids run one at a time here, so neither has an effect."""
        self.core.execute(_form("griddepcontrol", _text("griddepcontrol", "action", action)))

    # ---------------------------------------------------------------------------------------- mbarriers

    def mbarrier_init(self, address: npt.ArrayLike, count: int) -> None:
        """mbarrier.init: make the 8 bytes at `address` an mbarrier that expects `count` arrivals in each phase.

        Other threads may use it after a barrier; bulk copies also need fence_mbarrier_init before that barrier.
        """
        self.core.execute("mbarrier.init.shared::cta.b64", address, count)

    def mbarrier_inval(self, address: npt.ArrayLike) -> None:
        """mbarrier.inval: make the 8 bytes ordinary memory again."""
        self.core.execute("mbarrier.inval.shared::cta.b64", address)

    def mbarrier_arrive(self, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> Any:
        """mbarrier.arrive: each active lane arrives `count` times.

        Returns the state of the mbarrier before the warp's first arrival, for mbarrier_test_wait and mbarrier_wait: an
        int or, if lanes give different addresses, uint64 (32,) with 0 for inactive lanes.
        """
        return self.core.execute("mbarrier.arrive.shared::cta.b64", address, count)

    def mbarrier_arrive_drop(self, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> Any:
        """mbarrier.arrive_drop: each active lane arrives `count` times; later phases expect that many arrivals fewer.

        Returns the state, as mbarrier_arrive does.
        """
        return self.core.execute("mbarrier.arrive_drop.shared::cta.b64", address, count)

    def mbarrier_expect_tx(self, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> None:
        """mbarrier.expect_tx: each active lane makes the phase wait for `tx_count` more bytes."""
        self.core.execute("mbarrier.expect_tx.relaxed.cta.shared::cta.b64", address, tx_count)

    def mbarrier_arrive_expect_tx(self, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> Any:
        """mbarrier.arrive.expect_tx: each active lane makes the phase wait for `tx_count` more bytes, then arrives.

        Returns the state, as mbarrier_arrive does.
        """
        return self.core.execute("mbarrier.arrive.expect_tx.shared::cta.b64", address, tx_count)

    def mbarrier_arrive_shared_cluster(self, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> None:
        """mbarrier.arrive.release.cluster.shared::cluster: arrive at an mbarrier of any block of the cluster."""
        self.core.execute("mbarrier.arrive.release.cluster.shared::cluster.b64", address, count)

    def mbarrier_arrive_expect_tx_shared_cluster(self, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> None:
        """mbarrier.arrive.expect_tx.release.cluster.shared::cluster: the same, after an expect_tx of `tx_count`."""
        self.core.execute("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64", address, tx_count)

    def mbarrier_test_wait(self, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> bool:
        """mbarrier.test_wait: whether the phase with this parity is complete. If it is not, other warps run first.

        Instead of the parity you can pass the `state` that an arrival in the phase returned. If lanes ask for different
        phases, the answer is whether all of them are complete.
        """
        found = self._asked("mbarrier.test_wait", address, parity, state)
        return bool(self.core.bits) and bool(found[self.core.active].all())

    def mbarrier_try_wait(self, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> Lanes:
        """mbarrier.try_wait: wait until the phase is complete; the predicate, bool (32,), is true in active lanes."""
        return self._asked("mbarrier.try_wait", address, parity, state)

    def mbarrier_wait(self, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> None:
        """mbarrier.try_wait in a loop: wait until the phase with this parity is complete.

        Instead of the parity you can pass the `state` that an arrival in the phase returned.
        """
        self._asked("mbarrier.try_wait", address, parity, state)

    def _asked(self, name: str, address: npt.ArrayLike, parity: Any, state: Any) -> Lanes:
        if (parity is None) == (state is None):
            given = f"{briefly(parity)} and {briefly(state)}"
            raise OperandError(f"{name} takes either a parity or a state; got {given} (PTX ISA 9.7.13.15.16)")
        if state is None:
            found = self.core.execute(_form(name, "parity.shared::cta.b64"), address, parity)
        else:
            found = self.core.execute(_form(name, "shared::cta.b64"), address, state)
        return found  # type: ignore[no-any-return]

    # ---------------------------------------------------------------------------------------- asynchronous copies

    def cp_async(
        self,
        destination: npt.ArrayLike,
        source: npt.ArrayLike,
        size: int,
        src_size: npt.ArrayLike | None = None,
        *,
        cache: str = "ca",
    ) -> None:
        """cp.async: each active lane starts to copy `size` bytes (4, 8 or 16) from global to shared memory.

        Only `src_size` bytes of the source are read (an integer, or (32,)); zeros fill the rest. `cache` is "ca" or,
        for 16 bytes, "cg".
        """
        form = _form("cp.async", _text("cp.async", "cache", cache), "shared.global")
        self.core.execute(form, destination, source, size, *(() if src_size is None else (src_size,)))

    def cp_async_commit_group(self) -> None:
        """cp.async.commit_group: the cp.async of this warp that are in no group yet become a group."""
        self.core.execute("cp.async.commit_group")

    def cp_async_wait_group(self, pending: int) -> None:
        """cp.async.wait_group N: wait until at most the N youngest groups of this warp are still under way."""
        self.core.execute("cp.async.wait_group", pending)

    def cp_async_wait_all(self) -> None:
        """cp.async.wait_all: wait for every cp.async of this warp, committed or not."""
        self.core.execute("cp.async.wait_all")

    def cp_async_mbarrier_arrive(self, address: npt.ArrayLike, *, noinc: bool = False) -> None:
        """cp.async.mbarrier.arrive: each active lane arrives at the mbarrier once its cp.async so far have ended.

        Without .noinc the phase expects that many more arrivals, so the count of mbarrier_init need not include them.
        """
        self.core.execute(_form("cp.async.mbarrier.arrive", "noinc" if noinc else "", "shared.b64"), address)

    def cp_async_bulk_shared_global(
        self,
        destination: npt.ArrayLike,
        source: npt.ArrayLike,
        size: npt.ArrayLike,
        mbarrier: npt.ArrayLike,
        *,
        cta_mask: int | None = None,
    ) -> None:
        """cp.async.bulk.shared::cta.global: each active lane starts to copy `size` bytes into shared memory.

        The copy completes on `mbarrier`, which counts its bytes. Addresses and sizes are multiples of 16. With
        `cta_mask` (.multicast::cluster), the bytes go to the same place in each block of the cluster whose rank has a
        bit there, and its mbarrier at the same place counts them.
        """
        form = f"cp.async.bulk.{_into(cta_mask)}"
        self.core.execute(form, destination, source, size, mbarrier, *(() if cta_mask is None else (cta_mask,)))

    def cp_async_bulk_shared_cluster(
        self, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike, mbarrier: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.shared::cluster.shared::cta: copy `size` bytes to a block of the cluster, which has `mbarrier`.

        `source` is in the block's own shared memory.
        """
        form = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        self.core.execute(form, destination, source, size, mbarrier)

    def cp_async_bulk_global_shared(
        self, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.global.shared::cta.bulk_group: each lane starts to copy `size` bytes to global memory."""
        self.core.execute("cp.async.bulk.global.shared::cta.bulk_group", destination, source, size)

    def cp_async_bulk_tensor_shared_global(
        self,
        destination: npt.ArrayLike,
        tensor_map: TensorMap | npt.ArrayLike,
        coordinates: Sequence[int],
        mbarrier: npt.ArrayLike,
        *,
        cta_mask: int | None = None,
    ) -> None:
        """cp.async.bulk.tensor, tile mode: each active lane starts to copy a box of the tensor into shared memory.

        `tensor_map` is a constant, or the address in global memory of a map that the kernel has made or changed
        (tensormap.replace; tcemu.machine.tensor_map_words).
        `coordinates` are those of the box's first element, innermost first. The copy completes on `mbarrier`, which
        counts the whole box, `tensor_map.bytes`. With `cta_mask` (.multicast::cluster), the box goes to the same place
        in each block of the cluster whose rank has a bit there, and its mbarrier at the same place counts it.
        """
        form = _form("cp.async.bulk.tensor", _dimensions(tensor_map, coordinates), "tile", _into(cta_mask))
        more = () if cta_mask is None else (cta_mask,)
        self.core.execute(form, destination, tensor_map, coordinates, mbarrier, *more)

    def cp_async_bulk_tensor_global_shared(
        self, tensor_map: TensorMap | npt.ArrayLike, coordinates: Sequence[int], source: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.tensor, tile mode: each active lane starts to copy the box at `source` into the tensor."""
        form = _form("cp.async.bulk.tensor", _dimensions(tensor_map, coordinates), "global.shared::cta.tile.bulk_group")
        self.core.execute(form, tensor_map, coordinates, source)

    def cp_async_bulk_commit_group(self) -> None:
        """cp.async.bulk.commit_group: the bulk copies of this warp to global memory so far become a group."""
        self.core.execute("cp.async.bulk.commit_group")

    def cp_async_bulk_wait_group(self, pending: int, *, read: bool = False) -> None:
        """cp.async.bulk.wait_group N: wait until at most the N youngest groups are under way.

        With `read` (.read) wait only until the other groups have read their sources, which may then be overwritten.
        """
        self.core.execute(_form("cp.async.bulk.wait_group", "read" if read else ""), pending)

    # ---------------------------------------------------------------------------------------- wgmma, hints

    def wgmma_fence(self) -> None:
        """wgmma.fence.sync.aligned: order the register accesses of this warp before it with the mma_asyncs after it."""
        self.core.execute("wgmma.fence.sync.aligned")

    def wgmma_commit_group(self) -> None:
        """wgmma.commit_group.sync.aligned: the mma_asyncs of the warpgroup that are in no group yet become a group."""
        self.core.execute("wgmma.commit_group.sync.aligned")

    def wgmma_wait_group(self, pending: int) -> None:
        """wgmma.wait_group.sync.aligned N: wait until at most the N youngest groups are under way."""
        self.core.execute("wgmma.wait_group.sync.aligned", pending)

    def setmaxnreg(self, action: str, count: int) -> None:
        """setmaxnreg.{inc,dec}.sync.aligned.u32: set how many registers a thread of this warp may use from now on.

        "inc" waits until other warps have given back enough. A warp starts with as many as the launch has room for;
        because a kernel may be compiled for fewer, its first "inc" may name fewer. Raises OperandError for a count that
        is not a multiple of 8 from 24 to 256. A count that contradicts `action` is undefined: it changes nothing here.
        """
        self.core.execute(_form("setmaxnreg", _text("setmaxnreg", "action", action), "sync.aligned.u32"), count)

    def nanosleep(self, duration: npt.ArrayLike) -> None:
        """nanosleep: sleep for about `duration` nanoseconds. Here time does not pass; other warps run first."""
        self.core.execute("nanosleep.u32", duration)

    def prefetch_global(self, level: str, addresses: npt.ArrayLike) -> None:
        """prefetch.global: bring lines into the cache "L1" or "L2". This machine has no caches: nothing happens."""
        self.core.execute(_form("prefetch.global", _text("prefetch", "level", level)), addresses)

    def prefetch_tensormap(self, tensor_map: TensorMap) -> None:
        """prefetch.tensormap: bring a tensor map into the cache. This machine has no caches: nothing happens."""
        self.core.execute("prefetch.tensormap", tensor_map)


#: The types of votes, if they are not .pred.
_VOTES = {"ballot": "b32"}


def _into(cta_mask: int | None) -> str:
    """The ends of a copy into shared memory: of the block, or of those that a mask names."""
    counted = "global.mbarrier::complete_tx::bytes"
    return f"shared::cta.{counted}" if cta_mask is None else f"shared::cluster.{counted}.multicast::cluster"


def _dimensions(tensor_map: Any, coordinates: Any) -> str:
    """The dimensions of a tensor map or, of one in memory, those of the coordinates."""
    if isinstance(tensor_map, TensorMap):
        return f"{tensor_map.rank}d"
    if isinstance(tensor_map, Pointer | int | np.integer | np.ndarray) and isinstance(coordinates, Sequence):
        return f"{len(coordinates)}d"
    told = f"a tensor copy takes a TensorMap, or the address of one in global memory; got {briefly(tensor_map)}"
    raise OperandError(f"{told} (PTX ISA 9.7.9.27.1)")


def _register_dtype(given: npt.DTypeLike) -> np.dtype[Any]:
    try:
        found = np.dtype(given)
    except Exception:  # noqa: BLE001 - numpy raises much, SyntaxError too
        found = np.dtype(object)
    if found not in (np.uint32, np.uint64):
        raise OperandError(f"registers are uint32, or uint64 for f64; got dtype {briefly(given)}")
    return found

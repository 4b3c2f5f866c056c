"""The warp that a kernel is called with: PTX's special registers, and a method for each instruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    data_movement,
    mbarriers,
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
from tcemu.machine.registers import WARP, Registers
from tcemu.machine.tensor_map import TensorMap

#: More registers than any thread has.
_MOST = 1024
#: What CUDA C++ and older versions call things, and their names here.
_OTHERS = {
    "threadIdx": "warp.tid, (x, y, z) of arrays (32,); warp.threads numbers the block's threads",
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
    "atomicAdd": "warp.red_global('add.u32', address, value), or warp.atom_global for what was there",
    "shared": "warp.ld_shared(address) and warp.st_shared(address, value); tcemu.launch(..., shared=bytes) makes room",
    "block": "warp.ctaid",
    "grid": "warp.nctaid",
    "block_shape": "warp.ntid",
    "thread": "warp.tid",
    "lanes": "warp.laneid",
    "lane": "warp.laneid",
    "index": "warp.warpid",
}


@lru_cache(maxsize=4096)
def _form(*qualifiers: str) -> Instruction:
    """The instruction that qualifiers spell, in any order; empty ones are left out."""
    return parse(".".join(word.strip(".") for word in qualifiers if word))


def _text(family: str, what: str, given: object) -> str:
    if not isinstance(given, str):
        section = next(each.section for each in FAMILIES if each.name == family)
        raise OperandError(
            f"{family}: {what} is text, as the opcode spells it; got {briefly(given)} (PTX ISA {section})"
        )
    return given


#: Orders that have a scope, and the one that an order without a scope gets in each state space.
_SCOPED = ("relaxed", "acquire", "release", "acq_rel")
_SCOPES = {"shared": "cta", "global": "gpu"}


def _order(family: str, given: object, space: str) -> str:
    """A memory order with its scope: the block's in shared memory and gpu in global, where it has none."""
    order = _text(family, "order", given).strip(".")
    return f"{order}.{_SCOPES[space]}" if order in _SCOPED else order


def _access(family: str, space: str, what: object, order: object) -> Instruction:
    """The access to a state space that `what` ("v4.b32", "add.u32") and a memory order spell."""
    return _form(family, _order(family, order, space), space, _text(family, f"what follows .{space}", what))


class Warp:
    """A warp of a running kernel: what it is, and everything it can do.

    The operations are named after the PTX opcode, with underscores. Addresses are bytes: shared ones count from the
    start of the block's shared memory, global ones are pointers. An integer, or a (32,) array with one a
    lane, will do. Results are registers of the warp, arrays (32, n); predicates are bool (32,).

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
    """

    def __init__(self, core: Core) -> None:
        #: The warp as the machine and front ends see it.
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
        """%ctaid: the block's place in the grid, (x, y, z)."""
        return self.core.block.index

    @property
    def nctaid(self) -> Index3:
        """%nctaid: blocks of the grid, (x, y, z)."""
        return self.core.block.shape.grid

    @property
    def ntid(self) -> Index3:
        """%ntid: threads of a block, (x, y, z)."""
        return self.core.block.shape.block

    @property
    def tid(self) -> tuple[Lanes, Lanes, Lanes]:
        """%tid: each lane's place in its block, x, y and z (32,)."""
        x, y, _ = self.ntid
        threads = self.threads
        return fixed(threads % x), fixed(threads // x % y), fixed(threads // (x * y))

    @property
    def laneid(self) -> Lanes:
        """%laneid: 0 to 31, (32,)."""
        return lanes(LANES)

    @property
    def warpid(self) -> int:
        """%warpid: the warp's number in its block."""
        return self.core.index

    @property
    def nwarpid(self) -> int:
        """Warps of the block, the last one perhaps not full."""
        return self.core.block.warps

    @property
    def cluster_ctarank(self) -> int:
        """%cluster_ctarank: the block's rank in its cluster; 0, as each block is a cluster of its own."""
        return self.core.block.rank

    @property
    def cluster_nctarank(self) -> int:
        """%cluster_nctarank: blocks of the cluster; 1."""
        return 1

    @property
    def threads(self) -> Lanes:
        """Each lane's number in the block, (32,): %tid counted through x, then y, then z."""
        return fixed(LANES + WARP * self.core.index)

    @property
    def warpgroup(self) -> int:
        """The number of the warpgroup: four warps that begin at a multiple of four."""
        return self.core.index // 4

    @property
    def target(self) -> str:
        """The target that the launch runs on: "sm_90a"."""
        return self.core.target

    @property
    def active(self) -> Lanes:
        """Which lanes take part in operations now, bool (32,)."""
        return lanes(self.core.active.copy())

    # ---------------------------------------------------------------------------------------- lanes, registers

    @contextmanager
    def only(self, mask: npt.ArrayLike) -> Iterator[None]:
        """Only lanes of `mask` (bool, (32,) or one for all) take part in what is done inside; none is allowed.

        An operation without active lanes does nothing; registers that it would bring are unwritten.
        """
        wanted = self.core.values(mask)
        if wanted.dtype != np.bool_ or wanted.shape not in ((), (WARP,)):
            raise OperandError(f"a mask of lanes is bool (32,); got dtype {wanted.dtype}, shape {wanted.shape}")
        core, before = self.core, self.core.bits
        core.bits = before & (bits_of(wanted) if wanted.ndim else FULL * bool(wanted))
        try:
            yield
        finally:
            core.bits = before & core.there

    def exit(self) -> None:
        """exit: the active lanes end here, and take part in nothing that follows (PTX ISA 9.7.12.7).

        When all lanes have exited, the kernel goes on in Python, and its operations do nothing.
        """
        if self.core.bits:
            self.core.by()
        self.core.exit()

    def registers(self, count: int, fill: int | None = None, dtype: npt.DTypeLike = np.uint32) -> Registers:
        """Registers (32, count) of the warp, all of them `fill`, or never written."""
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 1 <= count <= _MOST:
            raise OperandError(f"a number of registers is an integer from 1 to {_MOST}; got {briefly(count)}")
        kind = _register_dtype(dtype)
        if fill is None:
            return self.core.blank(int(count), kind)
        bits = 8 * kind.itemsize
        if not isinstance(fill, int | np.integer) or not -(1 << bits - 1) <= fill < 1 << bits:
            raise OperandError(f"registers are filled with an integer of {bits} bits; got {briefly(fill)}")
        return self.core.made(np.full((WARP, count), int(fill) % (1 << bits), kind), FULL)

    def generic(self, shared_address: npt.ArrayLike) -> Any:
        """cvta.shared: the generic addresses of addresses in shared memory, an int or int64 of their shape."""
        array = self.core.values(shared_address)
        if array.dtype.kind not in "iu":
            raise OperandError(f"cvta.shared: addresses are integers; got dtype {array.dtype} (PTX ISA 9.7.9.20)")
        found = generic(array.astype(np.int64), self.core.block.rank)
        return found if array.ndim else int(found)

    def run(self, instruction: str | Instruction, *operands: Any) -> Any:
        """Execute a PTX instruction, given as the opcode with all its qualifiers, on operands in PTX's order.

        As tcemu.run for one warp, with the block's memory understood. The answer is registers (32, n), or None for a
        store. Each warp of a warpgroup gives wgmma.mma_async its own (32, n) of the accumulator, which the answer is
        too, once a wgmma.wait_group covers it. The other methods are shorter spellings of it:
        `warp.run("bar.sync", 0)` is `warp.bar_sync()`.
        """
        return self.core.execute(instruction, *operands)

    # ---------------------------------------------------------------------------------------- ld, st, atom, red

    def ld_shared(self, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
        """ld.shared: registers (32, n) from byte addresses (32,), or one for all; `access` is "v4.b32" or such.

        `order` is "volatile", "relaxed" or "acquire", with a scope behind it or not ("acquire.cta"): a strong load.
        """
        form = _access("ld", "shared", access, order)
        return self.core.execute(form, addresses)  # type: ignore[no-any-return]

    def ld_global(self, addresses: npt.ArrayLike, access: str = "b32", *, order: str = "") -> Registers:
        """ld.global, as ld_shared; a pointer is the address of its first byte."""
        form = _access("ld", "global", access, order)
        return self.core.execute(form, addresses)  # type: ignore[no-any-return]

    def st_shared(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
    ) -> None:
        """st.shared: store values (32, n), (32,) or one for all; floats of the access's width go as they are.

        `order` is "volatile", "relaxed" or "release", with a scope behind it or not: a strong store.
        """
        self.core.execute(_access("st", "shared", access, order), addresses, values)

    def st_global(
        self, addresses: npt.ArrayLike, values: npt.ArrayLike, access: str = "b32", *, order: str = ""
    ) -> None:
        """st.global, as st_shared."""
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
        """atom.shared: what was there, registers (32, 1); `operation` is "add.u32", "exch.b32", "cas.b32" or such.

        `cas` takes `b`, which is compared, and `c`. `order` is "relaxed", "acquire", "release" or "acq_rel", with a
        scope behind it or not.
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
        """atom.global, as atom_shared. Additions of f32 take subnormals for zeros, those in shared memory do not."""
        return self._atom("global", operation, addresses, b, c, order)

    def _atom(self, space: str, operation: str, addresses: Any, b: Any, c: Any, order: str) -> Registers:
        form = _access("atom", space, operation, order)
        operands = (b,) if c is None else (b, c)
        return self.core.execute(form, addresses, *operands)  # type: ignore[no-any-return]

    def red_shared(self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
        """red.shared: as atom_shared, without an answer; no "exch", no "cas", no order "acquire" or "acq_rel"."""
        self.core.execute(_access("red", "shared", operation, order), addresses, b)

    def red_global(self, operation: str, addresses: npt.ArrayLike, b: npt.ArrayLike, *, order: str = "") -> None:
        """red.global, as red_shared."""
        self.core.execute(_access("red", "global", operation, order), addresses, b)

    # ---------------------------------------------------------------------------------------- lanes of the warp

    def shfl_sync(self, mode: str, values: npt.ArrayLike, lane: npt.ArrayLike, width: int = WARP) -> Any:
        """shfl.sync: each lane's value of another lane, in the shape (32,) or (32, n) and dtype of `values`.

        mode is "idx", "up", "down" or "bfly", `lane` its operand (one, or one a lane), of which five bits count,
        `width` the lanes of a segment. What an inactive lane would give or get is poison.
        """
        form = _form("shfl.sync", _text("shfl.sync", "mode", mode), "b32")
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width not in (1, 2, 4, 8, 16, 32):
            raise OperandError(
                f"shfl.sync: a segment has 1, 2, 4, 8, 16 or 32 lanes; got {briefly(width)} (PTX ISA {form.section})"
            )
        return self.core.execute(form, values, lane, (WARP - int(width)) << 8 | (0 if mode == "up" else WARP - 1))

    def vote_sync(self, mode: str, predicate: npt.ArrayLike) -> Any:
        """vote.sync: "all", "any" or "uni" of the active lanes' predicates as a bool, or "ballot", bits as an int.

        Where no lane is active all and uni are true, as of nothing everything is.
        """
        form = _form("vote.sync", _text("vote.sync", "mode", mode), _VOTES.get(mode, "pred"))
        return self.core.execute(form, predicate)

    def match_sync(self, mode: str, values: npt.ArrayLike) -> Any:
        """match.sync: "any": for each lane the mask of lanes with its value; "all": (that mask or 0, a bool)."""
        return self.core.execute(_form("match", _text("match.sync", "mode", mode), "sync.b32"), values)

    def redux_sync(self, operation: str, values: npt.ArrayLike) -> Registers:
        """redux.sync: "add.u32", "min.s32", "and.b32" or such of the active lanes' values, which all of them get."""
        form = _form("redux.sync", _text("redux.sync", "operation", operation))
        return self.core.execute(form, values)  # type: ignore[no-any-return]

    def activemask(self) -> int:
        """activemask: the active lanes as 32 bits."""
        return self.core.execute("activemask.b32")  # type: ignore[no-any-return]

    def elect_sync(self) -> Lanes:
        """elect.sync: a predicate, bool (32,), that is true in one active lane (the first)."""
        return self.core.execute("elect.sync")  # type: ignore[no-any-return]

    def bar_warp_sync(self) -> None:
        """bar.warp.sync (__syncwarp): the active lanes meet, and see what each of them wrote."""
        self.core.execute("bar.warp.sync")

    # ---------------------------------------------------------------------------------------- barriers, fences

    def bar_sync(self, barrier: int = 0, threads: int | None = None) -> None:
        """bar.sync (__syncthreads): wait until `threads` threads, by default the block's, came to this barrier."""
        self.core.execute("bar.sync", barrier, *(() if threads is None else (threads,)))

    def bar_arrive(self, barrier: int, threads: int) -> None:
        """bar.arrive: count this warp at the barrier, and go on."""
        self.core.execute("bar.arrive", barrier, threads)

    def bar_red(self, mode: str, predicate: npt.ArrayLike, barrier: int = 0, threads: int | None = None) -> Any:
        """bar.red: as bar_sync, and the answer is how many threads' predicates are true, or whether all, or any, are.

        mode is "popc" (an int), "and" or "or" (a bool); `predicate` is bool (32,), or one for all.
        """
        form = _form("bar.red", _text("bar.red", "mode", mode), "u32" if mode == "popc" else "pred")
        return self.core.execute(form, barrier, *(() if threads is None else (threads,)), predicate)

    def fence(self, semantics: str = "acq_rel", scope: str = "gpu") -> None:
        """fence (__threadfence and its kin): orders this thread's strong accesses before and after it.

        `semantics` is "acq_rel", "sc", "acquire" or "release", `scope` "cta", "cluster", "gpu" or "sys". A flag that is
        written behind a fence and read in front of one orders what stands around; the fence alone waits for nobody.
        """
        order = _text("fence", "semantics", semantics) or "acq_rel"
        self.core.execute(_form("fence", order, _text("fence", "scope", scope)))

    def membar(self, level: str = "gl") -> None:
        """membar: fence.sc under its old name; level is "cta", "gl" or "sys"."""
        self.core.execute(_form("membar", _text("membar", "level", level)))

    def fence_proxy_async(self, space: str = "") -> None:
        """fence.proxy.async: what these lanes wrote before becomes visible to the async proxy.

        `space` is "", "shared::cta", "shared::cluster" or "global". It orders this thread's own accesses: other threads
        need a barrier after it.
        """
        self.core.execute(_form("fence.proxy.async", _text("fence.proxy.async", "space", space)))

    def fence_mbarrier_init(self) -> None:
        """fence.mbarrier_init.release.cluster: mbarriers that were initialised before are visible to bulk copies."""
        self.core.execute("fence.mbarrier_init.release.cluster")

    def griddepcontrol(self, action: str) -> None:
        """griddepcontrol: "wait" for the grid before this one, or "launch_dependents". Here grids come one by one."""
        self.core.execute(_form("griddepcontrol", _text("griddepcontrol", "action", action)))

    # ---------------------------------------------------------------------------------------- mbarriers

    def mbarrier_init(self, address: npt.ArrayLike, count: int) -> None:
        """mbarrier.init: an mbarrier of 8 bytes at `address` that waits for `count` arrivals a phase.

        Other threads may use it after a barrier; bulk copies after fence_mbarrier_init, too.
        """
        self.core.execute("mbarrier.init.shared::cta.b64", address, count)

    def mbarrier_inval(self, address: npt.ArrayLike) -> None:
        """mbarrier.inval: the 8 bytes are ordinary memory again."""
        self.core.execute("mbarrier.inval.shared::cta.b64", address)

    def mbarrier_arrive(self, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> Any:
        """mbarrier.arrive: each active lane arrives `count` times.

        The state of the mbarrier before the warp's first arrival, for `mbarrier_test_wait` and `mbarrier_wait`: an
        int, or where lanes give different addresses uint64 (32,), 0 for inactive lanes.
        """
        return self.core.execute("mbarrier.arrive.shared::cta.b64", address, count)

    def mbarrier_arrive_drop(self, address: npt.ArrayLike, count: npt.ArrayLike = 1) -> Any:
        """mbarrier.arrive_drop: each active lane arrives `count` times and is not expected again in later phases.

        The state, as `mbarrier_arrive` returns it.
        """
        return self.core.execute("mbarrier.arrive_drop.shared::cta.b64", address, count)

    def mbarrier_expect_tx(self, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> None:
        """mbarrier.expect_tx: for each active lane, the phase waits for `tx_count` more bytes."""
        self.core.execute("mbarrier.expect_tx.relaxed.cta.shared::cta.b64", address, tx_count)

    def mbarrier_arrive_expect_tx(self, address: npt.ArrayLike, tx_count: npt.ArrayLike) -> Any:
        """mbarrier.arrive.expect_tx: each active lane lets the phase wait for `tx_count` more bytes, then arrives.

        The state, as `mbarrier_arrive` returns it.
        """
        return self.core.execute("mbarrier.arrive.expect_tx.shared::cta.b64", address, tx_count)

    def mbarrier_test_wait(self, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> bool:
        """mbarrier.test_wait: whether the phase with this parity is complete; if not, others go first.

        In place of the parity, the `state` that an arrival in the phase returned. Where lanes ask for different phases:
        whether all of them are complete.
        """
        found = self._asked("mbarrier.test_wait", address, parity, state)
        return bool(self.core.bits) and bool(found[self.core.active].all())

    def mbarrier_try_wait(self, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> Lanes:
        """mbarrier.try_wait: wait until the phase is complete; the predicate, bool (32,), of the active lanes."""
        return self._asked("mbarrier.try_wait", address, parity, state)

    def mbarrier_wait(self, address: npt.ArrayLike, parity: Any = None, *, state: Any = None) -> None:
        """mbarrier.try_wait in a loop: wait until the phase with this parity is complete.

        In place of the parity, the `state` that an arrival in the phase returned.
        """
        self._asked("mbarrier.try_wait", address, parity, state)

    def _asked(self, name: str, address: npt.ArrayLike, parity: Any, state: Any) -> Lanes:
        if (parity is None) == (state is None):
            given = f"{briefly(parity)} and {briefly(state)}"
            raise OperandError(f"{name} asks by parity or by state; got {given} (PTX ISA 9.7.13.15.16)")
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
        """cp.async: each lane copies `size` bytes (4, 8, 16) from global to shared memory, not waiting for them.

        Of the source only `src_size` bytes are read (an integer, or one a lane); the rest is filled with zeros.
        """
        form = _form("cp.async", _text("cp.async", "cache", cache), "shared.global")
        self.core.execute(form, destination, source, size, *(() if src_size is None else (src_size,)))

    def cp_async_commit_group(self) -> None:
        """cp.async.commit_group: this warp's cp.async so far, that are in no group, become one."""
        self.core.execute("cp.async.commit_group")

    def cp_async_wait_group(self, pending: int) -> None:
        """cp.async.wait_group N: wait until at most the N youngest groups of this warp are under way."""
        self.core.execute("cp.async.wait_group", pending)

    def cp_async_wait_all(self) -> None:
        """cp.async.wait_all: wait for every cp.async of this warp, committed or not."""
        self.core.execute("cp.async.wait_all")

    def cp_async_mbarrier_arrive(self, address: npt.ArrayLike, *, noinc: bool = False) -> None:
        """cp.async.mbarrier.arrive: each active lane arrives at the mbarrier once its cp.async so far have ended.

        Without .noinc the phase expects that many more arrivals, so that the count set by init need not include them.
        """
        self.core.execute(_form("cp.async.mbarrier.arrive", "noinc" if noinc else "", "shared.b64"), address)

    def cp_async_bulk_shared_global(
        self, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike, mbarrier: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.shared::cta.global: each active lane copies `size` bytes into shared memory.

        Their number is counted at `mbarrier`. Addresses and sizes are multiples of 16.
        """
        form = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
        self.core.execute(form, destination, source, size, mbarrier)

    def cp_async_bulk_global_shared(
        self, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.global.shared::cta.bulk_group: each active lane copies `size` bytes out of shared memory."""
        self.core.execute("cp.async.bulk.global.shared::cta.bulk_group", destination, source, size)

    def cp_async_bulk_tensor_shared_global(
        self, destination: npt.ArrayLike, tensor_map: TensorMap, coordinates: Sequence[int], mbarrier: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.tensor, tile mode: each active lane copies the box at `coordinates` (innermost first) in.

        The whole box, of `tensor_map.bytes`, is counted at `mbarrier`.
        """
        end = "shared::cta.global.tile.mbarrier::complete_tx::bytes"
        form = _form("cp.async.bulk.tensor", _dimensions(tensor_map), end)
        self.core.execute(form, destination, tensor_map, coordinates, mbarrier)

    def cp_async_bulk_tensor_global_shared(
        self, tensor_map: TensorMap, coordinates: Sequence[int], source: npt.ArrayLike
    ) -> None:
        """cp.async.bulk.tensor, tile mode: each active lane copies the box at `source` out, where the tensor is."""
        form = _form("cp.async.bulk.tensor", _dimensions(tensor_map), "global.shared::cta.tile.bulk_group")
        self.core.execute(form, tensor_map, coordinates, source)

    def cp_async_bulk_commit_group(self) -> None:
        """cp.async.bulk.commit_group: this warp's bulk copies out of shared memory so far become a group."""
        self.core.execute("cp.async.bulk.commit_group")

    def cp_async_bulk_wait_group(self, pending: int, *, read: bool = False) -> None:
        """cp.async.bulk.wait_group N: at most N groups are under way then; with .read, their sources may change."""
        self.core.execute(_form("cp.async.bulk.wait_group", "read" if read else ""), pending)

    # ---------------------------------------------------------------------------------------- wgmma, hints

    def wgmma_fence(self) -> None:
        """wgmma.fence.sync.aligned: orders this warp's register accesses before with the mma_asyncs after."""
        self.core.execute("wgmma.fence.sync.aligned")

    def wgmma_commit_group(self) -> None:
        """wgmma.commit_group.sync.aligned: the warpgroup's mma_asyncs since the last one become a group."""
        self.core.execute("wgmma.commit_group.sync.aligned")

    def wgmma_wait_group(self, pending: int) -> None:
        """wgmma.wait_group.sync.aligned N: wait until at most the N youngest groups are under way."""
        self.core.execute("wgmma.wait_group.sync.aligned", pending)

    def setmaxnreg(self, action: str, count: int) -> None:
        """setmaxnreg.{inc,dec}.sync.aligned.u32: how many registers a thread of this warp may use from now on.

        .inc waits until other warps have given back enough. A warp begins with as many as the launch has room for; as
        a kernel may be compiled for fewer, its first .inc may be to fewer. Raises OperandError for a count that is not
        a multiple of 8 from 24 to 256, LaunchError for one that goes the other way.
        """
        self.core.execute(_form("setmaxnreg", _text("setmaxnreg", "action", action), "sync.aligned.u32"), count)

    def nanosleep(self, duration: npt.ArrayLike) -> None:
        """nanosleep: about `duration` nanoseconds, in which others go first. Here a wait has no length."""
        self.core.execute("nanosleep.u32", duration)

    def prefetch_global(self, level: str, addresses: npt.ArrayLike) -> None:
        """prefetch.global: bring lines into "L1" or "L2". Here memory has no caches, and nothing happens."""
        self.core.execute(_form("prefetch.global", _text("prefetch", "level", level)), addresses)

    def prefetch_tensormap(self, tensor_map: TensorMap) -> None:
        """prefetch.tensormap: bring a tensor map into the cache. Nothing happens here."""
        self.core.execute("prefetch.tensormap", tensor_map)


#: The types that votes end in.
_VOTES = {"ballot": "b32"}


def _dimensions(tensor_map: Any) -> str:
    if not isinstance(tensor_map, TensorMap):
        raise OperandError(f"a tensor copy takes a TensorMap; got {briefly(tensor_map)} (PTX ISA 9.7.9.27.1)")
    return f"{tensor_map.rank}d"


def _register_dtype(given: npt.DTypeLike) -> np.dtype[Any]:
    try:
        found = np.dtype(given)
    except Exception:  # noqa: BLE001 - numpy raises much, SyntaxError too
        found = np.dtype(object)
    if found not in (np.uint32, np.uint64):
        raise OperandError(f"registers are uint32, or uint64 for f64; got dtype {briefly(given)}")
    return found

"""The kernel that asks one question: both memories filled, one instruction, all of Tensor Memory read back.

A block has 128 threads, each with its lane of Tensor Memory; two blocks are a cluster. The same question is answered by
the machine, as far as it executes the instruction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions.parse import parse
from tcemu.instructions.targets import ptx_version
from tcemu.live import ptx
from tcemu.live.campaigns.tcgen05.questions import COLUMNS, LANES, SHARED, Question
from tcemu.live.process.job import Job, filled, wanted
from tcemu.machine.launch import launch
from tcemu.machine.tensor_memory import WHOLE, TensorMemory

Array = npt.NDArray[Any]

NAME = "one_question"
#: Registers of tcgen05.ld.red, and of one load or store.
_RED, _WIDE = 8, 8
#: Each of the 128 threads copies 16 bytes at a time.
_STEP = 16 * LANES
_TYPES = {"tensor": "b32", "shared": "b64", "b32": "b32", "b64": "b64", "pred": "pred"}


def job(question: Question, target: str) -> Job:
    """What the process that holds the GPU is asked."""
    blocks = question.group
    arguments = (
        filled("image", question.shared), filled("cells", question.tensor),
        wanted("out", (blocks, LANES, COLUMNS), np.dtype(np.uint32)),
        wanted("reduced", (blocks, LANES, _RED + 1), np.dtype(np.uint32)),
    )  # fmt: skip
    return Job("ptx", code(question, target), NAME, (blocks,), (LANES,), arguments, shared=SHARED)


def code(question: Question, target: str) -> str:
    """The PTX of a question."""
    lines = [*_declare(question), *_fill(), *_begin(question), *_ask(question), *_read_back(question), "ret;"]
    parameters = {f"p_{name}": "u64" for name in ("image", "cells", "out", "reduced")}
    gates = [ptx.SINCE.get(target, "8.6"), "8.6"]
    if question.opcode:
        gates.append(parse(question.opcode, target).gate.ptx)
    pair = ".explicitcluster .reqnctapercluster 2, 1, 1" if question.group == 2 else ""
    return ptx.module(max(gates, key=ptx_version), target, NAME, parameters, lines, shared=True, tuning=pair)


def _declare(question: Question) -> list[str]:
    given_ = [(f"%o{number}", _TYPES[kind]) for number, (kind, _) in enumerate(question.operands) if kind in _TYPES]
    return [
        ".shared .align 8 .b8 control[16];",
        ".reg .pred %done, %other;",
        ".reg .b32 %thread, %rank, %at, %bar, %slot, %base, %own, %cell, %row, %v<9>, %w<2>;",
        ".reg .b64 %p, %q, %tile;",
        ".reg .b16 %both;",
        *(f".reg .{type_} {name};" for name, type_ in given_),
    ]


def _fill() -> list[str]:
    """Shared memory from the image of the block. In a cluster, an address has the rank of its block in upper bits."""
    four = ptx.vector("v", 4)
    lines = [
        "mov.u32 %thread, %tid.x;", "mov.u32 %rank, %ctaid.x;", "mov.u32 %bar, control;", "add.u32 %slot, %bar, 8;",
        f"mov.u32 %at, {ptx.SHARED};", "and.b32 %v0, %at, 0x3ffff;", "shr.u32 %v0, %v0, 4;", "cvt.u64.u32 %tile, %v0;",
        "mad.lo.u32 %at, %thread, 16, %at;",
        *ptx.parameter("image", f"mad.wide.u32 %p, %rank, {SHARED}, %p;"), "mad.wide.u32 %p, %thread, 16, %p;",
    ]  # fmt: skip
    for step in range(0, SHARED, _STEP):
        lines += [f"ld.global.v4.b32 {four}, [%p+{step}];", f"st.shared.v4.b32 [%at+{step}], {four};"]
    return [*lines, "fence.proxy.async;"]


def _meet(question: Question) -> list[str]:
    cluster = ["barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"]
    return [
        "tcgen05.fence::before_thread_sync;", *(cluster if question.group == 2 else ["bar.sync 0;"]),
        "tcgen05.fence::after_thread_sync;",
    ]  # fmt: skip


def _moves(question: Question, name: str, stores: bool) -> list[str]:
    """All columns of the thread's lane, from an array or to it."""
    size = 4 * COLUMNS
    lines = [
        f"mad.lo.u32 %row, %rank, {LANES}, %thread;", *ptx.parameter(name, f"mad.wide.u32 %p, %row, {size}, %p;"),
    ]  # fmt: skip
    registers, halves = ptx.vector("v", _WIDE), [ptx.braced(f"%v{i + n}" for n in range(4)) for i in (0, 4)]
    for column in range(0, COLUMNS, _WIDE):
        lines.append(f"add.u32 %cell, %own, {column};")
        places = [(f"[%p+{4 * column + 16 * n}]", half) for n, half in enumerate(halves)]
        if stores:
            lines += [f"ld.global.v4.b32 {half}, {place};" for place, half in places]
            lines.append(f"tcgen05.st.sync.aligned.32x32b.x{_WIDE}.b32 [%cell], {registers};")
        else:
            lines += [f"tcgen05.ld.sync.aligned.32x32b.x{_WIDE}.b32 {registers}, [%cell];"]
            lines += ["tcgen05.wait::ld.sync.aligned;"]
            lines += [f"st.global.v4.b32 {place}, {half};" for place, half in places]
    return [*lines, "tcgen05.wait::st.sync.aligned;"] if stores else lines


def _begin(question: Question) -> list[str]:
    """An mbarrier, and the columns with what they are to hold."""
    group = f"cta_group::{question.group}"
    return [
        "setp.ne.u32 %other, %thread, 0;", "@%other bra ready;", "mbarrier.init.shared.b64 [%bar], 1;",
        "fence.mbarrier_init.release.cluster;", "ready:", *_meet(question),
        "setp.ge.u32 %other, %thread, 32;", "@%other bra allocated;",
        f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%slot], {COLUMNS};",
        f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned;", "allocated:", *_meet(question),
        "ld.shared.b32 %base, [%slot];", "and.b32 %own, %thread, 96;", "shl.b32 %own, %own, 16;",
        "add.u32 %own, %own, %base;", *(_moves(question, "cells", True) if question.by != "nobody" else []),
        *_meet(question),
    ]  # fmt: skip


def _ask(question: Question) -> list[str]:
    """The instruction, and the wait for it."""
    group, lines, texts = f"cta_group::{question.group}", list[str](), list[str]()
    for number, (kind, value) in enumerate(question.operands):
        name = f"%o{number}"
        lines += {
            "tensor": [f"add.u32 {name}, %base, {value};"],
            "shared": [f"mov.b64 {name}, {value};", f"add.u64 {name}, {name}, %tile;"],
            "b32": [f"mov.b32 {name}, {value};"], "b64": [f"mov.b64 {name}, {value};"],
            "pred": [f"setp.ne.u32 {name}, {int(value) if kind == 'pred' else 0}, 0;"], "immediate": [],
        }[kind]  # fmt: skip
        texts.append(f"[{name}]" if kind == "tensor" else f"{value}" if kind == "immediate" else name)
    if question.by == "warps":
        registers = ptx.vector("v", _RED)
        return [
            f"{question.opcode} {registers}, %v{_RED}, {', '.join(['[%own]', *texts])};",
            "tcgen05.wait::ld.sync.aligned;", f"mad.lo.u32 %row, %rank, {LANES}, %thread;",
            *ptx.parameter("reduced", f"mad.wide.u32 %p, %row, {4 * (_RED + 1)}, %p;"),
            *(f"st.global.b32 [%p+{4 * n}], %v{n};" for n in range(_RED + 1)),
        ]  # fmt: skip
    if question.by == "nobody":
        return []
    many = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bar], %both;"
    one = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64 [%bar];"
    return [
        "or.b32 %v0, %thread, %rank;", "setp.ne.u32 %other, %v0, 0;", "@%other bra asked;", *lines,
        f"{question.opcode} {', '.join(texts)};", "mov.b16 %both, 3;", many if question.group == 2 else one, "asked:",
        ptx.try_wait("", "%bar", "0"), "tcgen05.fence::after_thread_sync;",
    ]  # fmt: skip


def _read_back(question: Question) -> list[str]:
    group = f"cta_group::{question.group}"
    return [
        *_moves(question, "out", False), *_meet(question), "setp.ge.u32 %other, %thread, 32;", "@%other bra freed;",
        f"tcgen05.dealloc.{group}.sync.aligned.b32 %base, {COLUMNS};", "freed:",
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- the machine


def emulated(question: Question, target: str) -> Array:
    """Tensor Memory as the machine leaves it, (blocks, LANES, COLUMNS); the reductions of its lanes, (LANES, 9).

    Raises what the machine raises for an instruction that it does not execute.
    """
    out, reduced = dict[int, Array](), list[Array]()

    def kernel(warp: Any) -> None:
        block = warp.core.block
        warp.tcgen05_alloc(SHARED, COLUMNS, cta_group=question.group)
        memory, rank = block.state(TensorMemory), block.rank
        block.shared.bytes[:SHARED] = question.shared[rank]
        if question.by != "nobody":
            memory.write((slice(None), slice(0, COLUMNS)), question.tensor[rank], WHOLE)
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(SHARED + 8, 1)
            warp.fence_mbarrier_init()
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        if question.by == "thread":
            if rank == 0:
                with warp.only(warp.laneid == 0):
                    warp.run(question.opcode, *(value for _, value in question.operands))
                    warp.tcgen05_commit(SHARED + 8, 3 if question.group == 2 else None, cta_group=question.group)
            warp.mbarrier_wait(SHARED + 8, 0)
        elif question.by == "warps":
            values, least = warp.run(question.opcode, 0, *(value for _, value in question.operands))
            warp.tcgen05_wait_ld()
            reduced.append(np.column_stack([values[...], least[...]]))
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
        out[rank] = memory.seen((slice(None), slice(0, COLUMNS)))[0].copy()
        warp.tcgen05_dealloc(0, COLUMNS, cta_group=question.group)

    launch(kernel, question.group, 32, shared=SHARED + 32, target=target, cluster=question.group)
    return reduced[0] if reduced else np.stack([out[rank] for rank in range(question.group)])

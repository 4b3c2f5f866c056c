"""Probes of asynchronous copies between global and shared memory: cp.async, cp.async.bulk, cp.async.bulk.tensor.

"latency" is from the issue of a copy until the wait for it returns, one copy at a time; "interval" is the time between
two copies with several in flight, so one SM moves bytes / interval. A source in "L2" was read before; a source in
"memory" is at a new address for each copy, so it was not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcemu.instructions import target_named
from tcemu.live.campaigns.measure.probe import How, Part, Probe, always
from tcemu.live.ptx import try_wait

#: The most copies in flight for intervals, and the bytes that they take. Shared memory starts with an mbarrier for
#: each, and one for latencies; then the data begins.
FLIGHT, ROOM, DATA = 16, 64 << 10, 1024
#: Bytes of global memory: so large that its beginning has left the L2 when the copies start over.
MEMORY = 128 << 20
#: Distance between copies from memory: more than their length, but several share a page.
APART = 1 << 16
_PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"


def copies(target: str, version: str) -> Iterator[Probe]:
    """Every kind of copy that the target has, by size."""
    chip = target_named(target).number
    if chip >= 80:
        for opcode, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
            for count in (1, 4, 16) if size == 16 else (1,):
                yield _cp_async(f"cp.async.{opcode}.shared.global", size, count, 1)
        yield _cp_async("cp.async.cg.shared.global", 16, 4, 8)
        yield _cp_async("cp.async.cg.shared.global", 16, 4, 1, far=True)
    if chip >= 90:
        for size in (16, 64, 256, 1024, 4096, 16384, 32768):
            yield _load(_Bulk(size))
        for size in (1024, 16384):
            yield _load(_Bulk(size), far=True)
        for rows in (8, 32, 128, 256):
            yield _load(_Tensor(rows))
        yield _load(_Tensor(128, swizzle=0))
        yield _load(_Tensor(128), far=True)
        for size in (64, 1024, 4096, 16384):
            yield _store(size)


# ---------------------------------------------------------------------------------------------------- cp.async


def _cp_async(opcode: str, size: int, count: int, warps: int, far: bool = False) -> Probe:
    """PTX of a group of `count` instructions in each warp."""
    span = 32 * warps * size
    lines = [f"{opcode} [%to+{span * i}], [%from+{span * i}], {size};" for i in range(count)]
    step = f"add.u64 %from, %from, {APART};" if far else ""
    group = f"{' '.join(lines)} {step} cp.async.commit_group;"
    how = {"size": size, "bytes": span * count, "warps": warps, "source": "memory" if far else "L2"}
    if opcode == "cp.async.ca.shared.global" and not far:
        how["source"] = "L1"
    wait = "cp.async.wait_group {};"
    return Probe(
        parts=(
            Part(opcode, "latency", how, always(f"{group} {wait.format(0)}"), 2),
            Part(
                opcode,
                "interval",
                how | {"in flight": 4},
                always(f"{group} {wait.format(3)}"),
                4,
                settle=wait.format(0),
            ),
        ),
        threads=32 * warps,
        declare=".reg .b32 %to; .reg .b64 %from;",
        setup=f"mad.lo.u32 %to, %thread, {size}, %base; add.u32 %to, %to, {DATA}; "
        f"mad.wide.u32 %from, %thread, {size}, %memory;",
        shared=DATA + span * count,
        memory=MEMORY if far else span * count,
        trips=4 if far else 32,
        name=f"cp_async_{opcode.split('.')[2]}_{size}_{count}_{warps}_{int(far)}",
    )


# ---------------------------------------------------------------------------------------------------- bulk


@dataclass(frozen=True)
class _Bulk:
    """A run of bytes."""

    size: int

    opcode = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    declare = ""
    setup = ""
    #: Where the data begins in global memory.
    start = 0
    #: What the conditions say about it besides its size.
    how: tuple[tuple[str, str | int], ...] = ()

    def text(self, to: str, barrier: str) -> str:
        """One copy."""
        return f"{self.opcode} [{to}], [%from], {self.size}, [{barrier}];"

    @property
    def step(self) -> str:
        """PTX that goes on to data that has not been read yet."""
        return f"add.u64 %from, %from, {APART};"


@dataclass(frozen=True)
class _Tensor:
    """A box of a matrix of f16 with rows of 64 elements, 128 bytes, by a tensor map that the kernel makes."""

    rows: int
    swizzle: int = 128

    opcode = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    declare = ".reg .b32 %row, %map;"
    start = 4096

    @property
    def size(self) -> int:
        """Bytes of the box."""
        return 128 * self.rows

    @property
    def how(self) -> tuple[tuple[str, str | int], ...]:
        """The box and the swizzle."""
        return ("box", f"64x{self.rows} f16"), ("swizzle", self.swizzle)

    @property
    def setup(self) -> str:
        """PTX that makes the tensor map in shared memory and copies it to the start of global memory."""
        edge = "tensormap.replace.tile.{}.shared::cta.b1024.{} [%map]{}, {};".format
        rows = (MEMORY - self.start) // 128
        fields = [
            edge("global_address", "b64", "", "%from"),
            edge("rank", "b32", "", 1),
            edge("box_dim", "b32", ", 0", 64),
            edge("box_dim", "b32", ", 1", self.rows),
            edge("global_dim", "b32", ", 0", 64),
            edge("global_dim", "b32", ", 1", rows),
            edge("global_stride", "b64", ", 0", 128),
            edge("element_stride", "b32", ", 0", 1),
            edge("element_stride", "b32", ", 1", 1),
            edge("elemtype", "b32", "", 6),
            edge("interleave_layout", "b32", "", 0),
            edge("swizzle_mode", "b32", "", {0: 0, 32: 1, 64: 2, 128: 3}[self.swizzle]),
            edge("fill_mode", "b32", "", 0),
        ]
        return "\n".join(
            [
                "mov.u32 %row, 0; add.u32 %map, %base, 512; @!%first bra MAPPED;",  # shared memory is zero there
                *fields,
                "MAPPED:",
                "bar.warp.sync 0xffffffff;",
                f"{_PUBLISH} [%memory], [%map], 128;",
                "fence.proxy.tensormap::generic.acquire.gpu [%memory], 128;",
            ]
        )

    def text(self, to: str, barrier: str) -> str:
        """One copy."""
        return f"{self.opcode} [{to}], [%memory, {{0, %row}}], [{barrier}];"

    @property
    def step(self) -> str:
        """PTX that goes on to data that has not been read yet."""
        return f"add.u32 %row, %row, {APART // 128};"


def _load(copy: _Bulk | _Tensor, far: bool = False) -> Probe:
    """One thread copies; a copy is complete when its mbarrier has counted its bytes."""
    how = {"bytes": copy.size, **dict(copy.how), "source": "memory" if far else "L2"}
    step, flight = copy.step if far else "", min(FLIGHT, max(ROOM // copy.size, 2))

    def issue(barrier: str, place: int) -> str:
        expect = f"mbarrier.arrive.expect_tx.shared::cta.b64 %state, [{barrier}], {copy.size};"
        return f"{expect} {copy.text(f'%base+{DATA + place * copy.size}', barrier)} {step}"

    def one(_: int, tag: str) -> str:
        wait = try_wait(tag, f"%base+{8 * flight}", "%phase1")
        return f"{issue(f'%base+{8 * flight}', 0)} {wait} xor.b32 %phase1, %phase1, 1;"

    def turn(number: int, tag: str) -> str:
        place = number % flight
        barrier = f"%base+{8 * place}"
        wait = try_wait(tag, barrier, "%phase")
        flip = "xor.b32 %phase, %phase, 1;" if place == flight - 1 else ""
        return f"{wait} {issue(barrier, place)} {flip}"

    ends = [try_wait(f"{{tag}}_{i}", f"%base+{8 * i}", "%phase") for i in range(flight)]
    barriers = " ".join(f"@%first mbarrier.init.shared::cta.b64 [%base+{8 * i}], 1;" for i in range(flight + 1))
    return Probe(
        parts=(
            Part(copy.opcode, "latency", how, one, 2),
            Part(copy.opcode, "interval", {**how, "in flight": flight}, turn, flight, settle=" ".join(ends)),
        ),
        declare=f".reg .b32 %phase, %phase1; .reg .b64 %from, %state; .reg .pred %done; {copy.declare}",
        setup=f"mov.u32 %phase, 1; mov.u32 %phase1, 0; add.u64 %from, %memory, {copy.start}; {barriers}\n"
        f"fence.proxy.async; bar.sync 0; {copy.setup}\n@!%first exit;",
        shared=DATA + flight * copy.size,
        memory=MEMORY if far else copy.start + copy.size,
        trips=4 if far else 32,
        name=f"{'bulk' if isinstance(copy, _Bulk) else f'tensor_{copy.swizzle}'}_{copy.size}_{int(far)}",
    )


def _store(size: int) -> Probe:
    """From shared to global memory, complete when the data has arrived, or when shared memory has been read."""
    opcode = "cp.async.bulk.global.shared::cta.bulk_group"
    issue = f"{opcode} [%memory], [%base+{DATA}], {size}; cp.async.bulk.commit_group;"
    wait = "cp.async.bulk.wait_group{} {};"
    parts: list[tuple[str, How, str]] = [
        ("latency", {"bytes": size, "until": "written"}, wait.format("", 0)),
        ("latency", {"bytes": size, "until": "read"}, wait.format(".read", 0)),
        ("interval", {"bytes": size, "in flight": FLIGHT}, wait.format("", FLIGHT - 1)),
    ]
    return Probe(
        parts=tuple(
            Part(opcode, what, how, always(f"{issue} {end}"), 2 * FLIGHT, settle=wait.format("", 0))
            for what, how, end in parts
        ),
        setup="@!%first exit;",  # one thread copies
        shared=DATA + size,
        memory=size,
        name=f"bulk_store_{size}",
    )

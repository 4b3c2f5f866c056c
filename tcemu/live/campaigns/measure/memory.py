"""Probes of shared memory: ld, st, ldmatrix and stmatrix with addresses of several conflict degrees, and movmatrix.

Loads are chains: what a lane loads is its next address. One chain gives the latency; several interleaved chains give
the interval. The conditions include the wavefronts of each set of addresses, as tcemu.wavefronts counts them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions import Instruction, parse, target_named
from tcemu.live.campaigns.measure.probe import How, Part, Probe, always
from tcemu.live.ptx import vector
from tcemu.timing import wavefronts

Array = npt.NDArray[Any]

#: Bytes of shared memory, interleaved chains, and warps that keep it busy.
SIZE, CHAINS, WARPS = 8192, 16, 8
LANE = np.arange(32)
#: How far apart the lanes' addresses are, in accesses; 0 is one address for all.
STEPS = (1, 2, 4, 8, 16, 32, 0)
_MATRIX = "{}matrix.sync.aligned.m8n8.x{}{}.shared.b16"


@dataclass(frozen=True)
class _Access:
    """An access, and its PTX."""

    spelling: str
    #: Bytes per lane, and registers.
    size: int
    registers: int

    @property
    def loads(self) -> bool:
        """Whether it reads."""
        return self.spelling.startswith("ld")

    def addresses(self, step: int) -> Array:
        """32 addresses, `stride` accesses apart."""
        return LANE * step * self.size % SIZE

    def text(self, chain: int) -> str:
        """The PTX of one access, on the registers of a chain."""
        one = self.registers == 1 and "matrix" not in self.spelling
        held = f"%v{chain}_0" if one else vector(f"v{chain}_", self.registers)
        opcode = _volatile(self.spelling)
        return f"{opcode} {held}, [%v{chain}_0];" if self.loads else f"{opcode} [%at], {held};"


def _table(target: str) -> Iterator[_Access]:
    chip = target_named(target)
    for verb in ("ld", "st"):
        for width, wide in ((4, ""), (8, ".v2"), (16, ".v4")):
            yield _Access(f"{verb}.shared{wide}.b32", width, width // 4)
    for verb in ("ld", "st"):
        for count in (1, 2, 4):
            for trans in ("", ".trans"):
                spelling = _MATRIX.format(verb, count, trans)
                if parse(spelling).gate.admits(chip):
                    yield _Access(spelling, 16, count)


def accesses(target: str, version: str) -> Iterator[Probe]:
    """Every access with every conflict degree that differs, alone and from several warps."""
    for number, access in enumerate(_table(target)):
        seen = set()
        for step in STEPS:
            addresses = access.addresses(step)
            count = int(wavefronts(addresses, access.spelling).count)
            # one row cannot hold a transposed chain
            if (count in seen and step) or (step == 0 and "trans" in access.spelling):
                continue
            seen.add(count)
            for warps in (1, WARPS):
                yield _probe(access, addresses, step, count, warps, f"access_{number}_{step}_{warps}")
    yield _round_trips(target)
    if target_named(target).number >= 75:
        yield _movmatrix()


def _probe(access: _Access, addresses: Array, step: int, count: int, warps: int, name: str) -> Probe:
    how: How = {"wavefronts": count, "apart": step * access.size, "warps": warps}
    what = "interval" if warps == 1 else "SM interval"
    turns = Part(access.spelling, what, how, lambda i, _: access.text(i % CHAINS), CHAINS, warps)
    chain = Part(access.spelling, "latency", how, always(access.text(0)), CHAINS)
    names = [[f"%v{chain}_{r}" for r in range(access.registers)] for chain in range(CHAINS)]
    return Probe(
        parts=(chain, turns) if access.loads and warps == 1 else (turns,),
        threads=32 * warps,
        declare=" ".join(f".reg .b32 {name};" for chain in names for name in chain),
        # the addresses are read again for each chain, so that the assembler cannot know that they are equal
        setup="\n".join(
            [f"ld.volatile.global.u32 {chain[0]}, [%g0];" for chain in names]
            + [f"add.u32 {rest}, %lane, {i};" for i, rest in enumerate(r for chain in names for r in chain[1:])]
        ),
        sink="\n".join(f"st.volatile.global.b32 [%sink], {register};" for chain in names for register in chain),
        shared=SIZE,
        image=partial(image, access.spelling, access.registers, addresses) if access.loads else None,
        lanes=lambda base: np.tile(addresses + base, warps),
        name=name,
    )


def image(spelling: str, registers: int, addresses: Array, base: int) -> Array:
    """Shared memory in which every lane's first word is its own address again; memory begins at `base`."""
    held = np.zeros(SIZE, np.uint8)
    own = (addresses + base).astype(np.uint32)
    if not spelling.startswith("ldmatrix"):
        held.view(np.uint32)[addresses // 4] = own
        return held
    instruction: Instruction = parse(spelling)
    fragment = instruction.fragments["d"]
    lanes = np.resize(own, fragment.lanes)  # ldmatrix .x1 and .x2 ignore the addresses of the other lanes
    patterns = fragment.read(np.repeat(lanes[None, :, None], registers, axis=2).reshape(1, -1))
    rows = np.ascontiguousarray(patterns).reshape(-1, 8).view(np.uint8).reshape(-1, 16)
    for address, row in zip(addresses, rows, strict=False):
        held[address : address + 16] = row
    return held


def _round_trips(target: str) -> Probe:
    """A store, and a load that needs what it stored."""
    pairs = [("st.shared.b32", "ld.shared.b32", "%v0")]
    pairs.append(("st.shared.v4.b32", "ld.shared.v4.b32", vector("v", 4)))
    if target_named(target).number >= 90:
        pairs.append((_MATRIX.format("st", 4, ""), _MATRIX.format("ld", 4, ""), vector("v", 4)))
    parts = []
    for store, load, held in pairs:
        text = f"{_volatile(store)} [%at], {held}; {_volatile(load)} {held}, [%at];"
        parts.append(Part(f"{store}; {load}", "latency", {"warps": 1}, always(text), 8))
    return Probe(
        parts=tuple(parts),
        declare=".reg .b32 %v<4>;",
        setup="mov.u32 %v0, %lane; mov.u32 %v1, %lane; mov.u32 %v2, %lane; mov.u32 %v3, %lane;",
        sink="st.volatile.global.b32 [%sink], %v0;",
        lanes=lambda base: LANE * 16 + base,
        name="round_trips",
    )


def _volatile(opcode: str) -> str:
    """The access as a volatile one, which the assembler keeps even if it repeats an earlier load."""
    return opcode if "matrix" in opcode else opcode.replace(".shared", ".volatile.shared")


def _movmatrix() -> Probe:
    opcode = "movmatrix.sync.aligned.m8n8.trans.b16"
    how = {"warps": 1}
    return Probe(
        parts=(
            Part(opcode, "latency", how, always(f"{opcode} %v0, %v0;"), CHAINS),
            Part(opcode, "interval", how, lambda i, _: f"{opcode} %v{i % CHAINS}, %v{i % CHAINS};", CHAINS),
        ),
        declare=f".reg .b32 %v<{CHAINS}>;",
        setup="\n".join(f"add.u32 %v{i}, %lane, {i};" for i in range(CHAINS)),
        sink="\n".join(f"st.volatile.global.b32 [%sink], %v{i};" for i in range(CHAINS)),
        name="movmatrix",
    )

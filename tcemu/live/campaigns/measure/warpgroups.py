"""Probes of wgmma: every opcode of the target with A in shared memory and in registers, and closer looks at a few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcemu.instructions import Instruction, parse
from tcemu.layouts.descriptor import Descriptor
from tcemu.live.campaigns.measure.probe import How, Part, Probe, always
from tcemu.live.campaigns.measure.registers import METADATA, SPARSE, filled, kept
from tcemu.live.ptx import WGMMA_COMMIT, WGMMA_FENCE, declared, issue, vector, wgmma_wait
from tcemu.live.runner.families import legal
from tcemu.vectors.operands import operands
from tcemu.vectors.warpgroup import SIZE, A, B

#: The most that stay in flight.
DEPTH = 8
_F16 = "wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16"
#: Measured with 1 to 8 in flight, with every layout of A and B, and with more than one warpgroup.
CLOSER = (
    *(_F16.format(n) for n in (8, 16, 32, 64, 128, 256)),
    "wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16",
    "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32",
    "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3",
    "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8",
)


@dataclass(frozen=True)
class _Variant:
    """How an instruction is issued."""

    instruction: Instruction
    #: "registers" or "shared": where A is.
    a: str = "shared"
    #: Bytes of the swizzle of both operands.
    swizzle: int = 128
    trans_a: bool = False
    trans_b: bool = False

    def text(self, accumulator: int = 0) -> str:
        """One wgmma on an accumulator."""
        fragments, described = self.instruction.fragments, self.a == "shared"
        texts = {
            "d": vector(f"d{accumulator}_", fragments["d"].registers),
            "a": "%desca" if described else vector("a", fragments["a"].registers),
            "b": "%descb",
            "scale_d": "%one",
            "imm_scale_a": "1",
            "imm_scale_b": "1",
            "imm_trans_a": str(int(self.trans_a)),
            "imm_trans_b": str(int(self.trans_b)),
        }
        return issue(self.instruction, texts | SPARSE, described)

    @property
    def copies(self) -> int:
        """Number of copies: few if one takes long, because the assembler is slow with many registers."""
        return 8 if self.instruction.shape.n <= 32 else 4 if self.instruction.shape.n <= 64 else 2

    @property
    def how(self) -> dict[str, str | int]:
        """The conditions that differ from the default."""
        conditions: dict[str, str | int] = {"a": self.a}
        conditions |= {} if self.swizzle == 128 else {"swizzle": self.swizzle}
        conditions |= {"a major": "MN"} if self.trans_a else {}
        return conditions | ({"b major": "MN"} if self.trans_b else {})


def warpgroups(target: str, version: str) -> Iterator[Probe]:
    """Latency and interval of every opcode."""
    for number, instruction in enumerate(legal(("wgmma",), target, version)):
        for a in ("shared", "registers"):
            variant = _Variant(instruction, a)
            parts = (_in_flight(variant, 1, "latency"), _back_to_back(variant))
            yield _probe(variant, parts, f"wgmma_{number}_{a}")


def closer(target: str, version: str) -> Iterator[Probe]:
    """1 to 8 in flight, several accumulators, other layouts, several warpgroups."""
    for number, opcode in enumerate(CLOSER):
        instruction = parse(opcode, target, version)
        for a in ("shared", "registers"):
            variant, name = _Variant(instruction, a), f"closer_{number}_{a}"
            flights = tuple(_in_flight(variant, count, "interval") for count in range(1, DEPTH + 1))
            yield _probe(variant, flights, f"{name}_flights")
            if instruction.shape.n <= 32:  # more accumulators than one fit into the registers
                own = tuple(_in_flight(variant, count, "interval", count) for count in range(2, DEPTH + 1))
                yield _probe(variant, own, f"{name}_own", accumulators=DEPTH)
            for groups in (2, 4):
                if groups * instruction.fragments["d"].registers <= 256:
                    yield _probe(variant, (_back_to_back(variant, groups),), f"{name}_{groups}_groups", groups=groups)
        for index, variant in enumerate(_layouts(instruction)):
            parts = (_in_flight(variant, 1, "latency"), _back_to_back(variant))
            yield _probe(variant, parts, f"closer_{number}_layout_{index}")


def _transposes(instruction: Instruction) -> bool:
    """Whether A and B may be transposed."""
    return any(operand.role == "imm_trans_b" for operand in operands(instruction))


def _layouts(instruction: Instruction) -> Iterator[_Variant]:
    yield _Variant(instruction, swizzle=0)
    if _transposes(instruction):
        yield _Variant(instruction, trans_b=True)
        yield _Variant(instruction, trans_a=True, trans_b=True)


def _in_flight(variant: _Variant, count: int, what: str, accumulators: int = 1) -> Part:
    """Each wgmma is a group of its own, and the same number may be pending."""
    how: How = variant.how | ({"in flight": count} if what == "interval" else {})
    how = {**how, "accumulators": accumulators} if accumulators > 1 else how

    def body(copy: int, _: str) -> str:
        one = variant.text(copy % accumulators)
        return f"{one} {WGMMA_COMMIT} {wgmma_wait(count - 1)}"

    copies = variant.copies if accumulators == 1 else 2 * accumulators
    return Part(variant.instruction.opcode, what, how, body, copies, settle=wgmma_wait(0))


def _back_to_back(variant: _Variant, groups: int = 1) -> Part:
    """Several wgmma to a group, all on one accumulator; further groups are issued before the previous one completes."""
    how: How = variant.how if groups == 1 else variant.how | {"warpgroups": groups}
    what = "interval" if groups == 1 else "SM interval"
    end = f"{WGMMA_COMMIT} {wgmma_wait(DEPTH - 1)}"
    opcode = variant.instruction.opcode
    return Part(opcode, what, how, always(variant.text()), variant.copies, groups, settle=wgmma_wait(0), each_trip=end)


def _probe(variant: _Variant, parts: tuple[Part, ...], name: str, accumulators: int = 1, groups: int = 1) -> Probe:
    fragments = variant.instruction.fragments
    names = {"a": fragments["a"]} | {f"d{number}_": fragments["d"] for number in range(accumulators)}
    setup = [
        f"mov.u32 %meta, {METADATA}; setp.eq.u32 %one, %meta, {METADATA};",
        *(
            _described(role, start, variant, trans)
            for role, start, trans in (("a", A, variant.trans_a), ("b", B, variant.trans_b))
        ),
        *(filled(key, fragment, index) for index, (key, fragment) in enumerate(names.items())),
        WGMMA_FENCE,
    ]
    return Probe(
        parts=parts,
        threads=128 * groups,
        declare=" ".join(declared(key, fragment) for key, fragment in names.items())
        + " .reg .b32 %meta; .reg .b64 %desca, %descb; .reg .pred %one;",
        setup="\n".join(setup),
        sink="\n".join(kept(f"d{number}_", fragments["d"]) for number in range(accumulators)),
        shared=SIZE,
        name=name,
    )


def _described(role: str, start: int, variant: _Variant, trans: bool) -> str:
    """The descriptor of an operand: compact without a swizzle, otherwise rows of 128 bytes."""
    lbo, sbo = (1024, 1024) if variant.swizzle else (128, 256)
    if trans:  # MN-major: 64 elements of 16 bits side by side, 8 rows to a block
        lbo, sbo = 2048, 1024
    bits = Descriptor(start, lbo, sbo, variant.swizzle).encode()
    return f"shr.u32 %h0, %base, 4; cvt.u64.u32 %desc{role}, %h0; add.u64 %desc{role}, %desc{role}, {bits:#x};"

"""Probes of wgmma: every opcode of the target with A in shared memory and in registers, and closer looks at a few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcemu.instructions import Instruction, parse
from tcemu.layouts.descriptor import Descriptor
from tcemu.live.measure.probe import How, Part, Probe, always
from tcemu.live.measure.products import METADATA, declared, filled, kept, legal, registers

#: Where A and B begin in shared memory: 64 rows of 128 bytes, then up to 256 of them.
A, B, SHARED = 0, 8192, 8192 + 32768
#: The most that stay in flight.
DEPTH = 8
_F16 = "wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16"
#: Looked at with 1 to 8 in flight, with every layout of A and B, and with more than one warpgroup.
CLOSER = (
    *(_F16.format(n) for n in (8, 16, 32, 64, 128, 256)),
    "wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16",
    "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32",
    "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3",
    "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8",
)


@dataclass(frozen=True)
class _Form:
    """How an instruction is issued."""

    instruction: Instruction
    #: "registers" or "shared": where A is.
    a: str = "shared"
    #: Bytes of the swizzle of both operands.
    swizzle: int = 128
    trans_a: bool = False
    trans_b: bool = False

    def issue(self, accumulator: int = 0) -> str:
        """One wgmma on an accumulator."""
        instruction = self.instruction
        words = [registers(f"d{accumulator}_", instruction.fragments["d"])]
        words += [registers("a", instruction.fragments["a"]) if self.a == "registers" else "%desca", "%descb"]
        words += ["%meta, 0"] if "e" in instruction.fragments else []
        words += ["%one"] + (["1, 1"] if instruction.facts.negates else [])
        if instruction.facts.transposes:
            words += ([str(int(self.trans_a))] if self.a == "shared" else []) + [str(int(self.trans_b))]
        return f"{instruction} {', '.join(words)};"

    @property
    def copies(self) -> int:
        """Few where one takes long: the assembler is slow with many registers."""
        return 8 if self.instruction.shape.n <= 32 else 4 if self.instruction.shape.n <= 64 else 2

    @property
    def how(self) -> dict[str, str | int]:
        """The conditions that differ from the usual."""
        found: dict[str, str | int] = {"a": self.a}
        found |= {} if self.swizzle == 128 else {"swizzle": self.swizzle}
        found |= {"a major": "MN"} if self.trans_a else {}
        return found | ({"b major": "MN"} if self.trans_b else {})


def warpgroups(target: str, version: str) -> Iterator[Probe]:
    """Latency and interval of every opcode."""
    for number, instruction in enumerate(legal(("wgmma",), target, version)):
        for a in ("shared", "registers"):
            form = _Form(instruction, a)
            parts = (_in_flight(form, 1, "latency"), _back_to_back(form))
            yield _probe(form, parts, f"wgmma_{number}_{a}")


def closer(target: str, version: str) -> Iterator[Probe]:
    """1 to 8 in flight, several accumulators, other layouts, several warpgroups."""
    for number, opcode in enumerate(CLOSER):
        instruction = parse(opcode, target, version)
        for a in ("shared", "registers"):
            form, name = _Form(instruction, a), f"closer_{number}_{a}"
            flights = tuple(_in_flight(form, count, "interval") for count in range(1, DEPTH + 1))
            yield _probe(form, flights, f"{name}_flights")
            if instruction.shape.n <= 32:  # more accumulators than one fit into the registers
                own = tuple(_in_flight(form, count, "interval", count) for count in range(2, DEPTH + 1))
                yield _probe(form, own, f"{name}_own", accumulators=DEPTH)
            for groups in (2, 4):
                if groups * instruction.fragments["d"].registers <= 256:
                    yield _probe(form, (_back_to_back(form, groups),), f"{name}_{groups}_groups", groups=groups)
        for index, form in enumerate(_layouts(instruction)):
            yield _probe(form, (_in_flight(form, 1, "latency"), _back_to_back(form)), f"closer_{number}_layout_{index}")


def _layouts(instruction: Instruction) -> Iterator[_Form]:
    yield _Form(instruction, swizzle=0)
    if instruction.facts.transposes:
        yield _Form(instruction, trans_b=True)
        yield _Form(instruction, trans_a=True, trans_b=True)


def _in_flight(form: _Form, count: int, what: str, accumulators: int = 1) -> Part:
    """Each wgmma is a group of its own, and as many may be pending."""
    how: How = form.how | ({"in flight": count} if what == "interval" else {})
    how = {**how, "accumulators": accumulators} if accumulators > 1 else how

    def body(copy: int, _: str) -> str:
        issue = form.issue(copy % accumulators)
        return f"{issue} {_COMMIT} wgmma.wait_group.sync.aligned {count - 1};"

    copies = form.copies if accumulators == 1 else 2 * accumulators
    return Part(form.instruction.opcode, what, how, body, copies, settle=_WAIT)


_COMMIT, _WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"


def _back_to_back(form: _Form, groups: int = 1) -> Part:
    """Some to a group, all on one accumulator; the next groups are issued before the last has ended."""
    how: How = form.how if groups == 1 else form.how | {"warpgroups": groups}
    what = "interval" if groups == 1 else "SM interval"
    end = f"{_COMMIT} wgmma.wait_group.sync.aligned {DEPTH - 1};"
    opcode = form.instruction.opcode
    return Part(opcode, what, how, always(form.issue()), form.copies, groups, settle=_WAIT, each_trip=end)


def _probe(form: _Form, parts: tuple[Part, ...], name: str, accumulators: int = 1, groups: int = 1) -> Probe:
    fragments = form.instruction.fragments
    names = {"a": fragments["a"]} | {f"d{number}_": fragments["d"] for number in range(accumulators)}
    setup = [
        f"mov.u32 %meta, {METADATA}; setp.eq.u32 %one, %meta, {METADATA};",
        *(
            _described(role, start, form, trans)
            for role, start, trans in (("a", A, form.trans_a), ("b", B, form.trans_b))
        ),
        *(filled(key, fragment, index) for index, (key, fragment) in enumerate(names.items())),
        "wgmma.fence.sync.aligned;",
    ]
    return Probe(
        parts=parts,
        threads=128 * groups,
        declare=" ".join(declared(key, fragment) for key, fragment in names.items())
        + " .reg .b32 %meta; .reg .b64 %desca, %descb; .reg .pred %one;",
        setup="\n".join(setup),
        sink="\n".join(kept(f"d{number}_", fragments["d"]) for number in range(accumulators)),
        shared=SHARED,
        name=name,
    )


def _described(role: str, start: int, form: _Form, trans: bool) -> str:
    """The descriptor of an operand. Compact without a swizzle, else rows of 128 bytes as tiles in kernels have them."""
    lbo, sbo = (1024, 1024) if form.swizzle else (128, 256)
    if trans:  # MN-major: 64 elements of 16 bits side by side, 8 rows a block
        lbo, sbo = 2048, 1024
    bits = Descriptor(start, lbo, sbo, form.swizzle).encode()
    return f"shr.u32 %h0, %base, 4; cvt.u64.u32 %desc{role}, %h0; add.u64 %desc{role}, %desc{role}, {bits:#x};"

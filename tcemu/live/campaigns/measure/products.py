"""Probes of mma.sync and its sparse form, from the instruction table: every opcode of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tcemu.instructions import Instruction
from tcemu.layouts import Fragment
from tcemu.live.campaigns.measure.probe import Body, Part, Probe, always
from tcemu.live.campaigns.measure.registers import METADATA, SPARSE, filled, kept
from tcemu.live.ptx import braced, declared, issue, register_type, vector
from tcemu.live.runner.families import legal

#: Accumulators that a single warp uses in turn, and that each of many warps uses.
ALONE, TOGETHER = 16, 4
#: Warps that keep the four tensor cores of an SM busy.
WARPS = 16


def products(target: str, version: str) -> Iterator[Probe]:
    """Two probes for each opcode: one warp, and enough warps for all tensor cores of an SM."""
    for number, instruction in enumerate(legal(("mma", "mma.sp"), target, version)):
        yield _probe(instruction, f"product_{number}_alone", 1, TOGETHER if _lowered(instruction) else ALONE)
        yield _probe(instruction, f"product_{number}_together", WARPS, TOGETHER)


def _probe(instruction: Instruction, name: str, warps: int, sets: int) -> Probe:
    fragments = {role: instruction.fragments[role] for role in "abcd"}
    one = _fresh(instruction, sets) if _lowered(instruction) else _fixed(instruction)
    # Few copies would measure the ends of an iteration; many copies of a long sequence need more registers than there
    # are and would measure spills.
    copies, more = (16, 64) if not _lowered(instruction) else (2, 2) if "e" in instruction.fragments else (4, 16)
    turns = Part(
        instruction.opcode,
        "interval" if warps == 1 else "SM interval",
        {"warps": warps},
        lambda copy, _: one(copy % sets, (copy + 1) % sets),
        more if warps == 1 else copies,
        warps,
    )
    chains = [Part(instruction.opcode, "latency", {"through": "c"}, always(one(0, 0)), copies)]
    if _lowered(instruction):
        chains = [replace(chains[0], how={"through": "a, b, c"})]
    elif _fits(fragments["a"], fragments["d"]):
        chains.append(Part(instruction.opcode, "latency", {"through": "a"}, _through_a(instruction, sets - 2), copies))
    names = {role: fragments[role] for role in "abc"} | {f"d{number}_": fragments["d"] for number in range(sets)}
    return Probe(
        parts=(*chains, turns) if warps == 1 else (turns,),
        threads=32 * warps,
        declare=" ".join(declared(key, fragment) for key, fragment in names.items()) + " .reg .b32 %meta;",
        setup="\n".join([f"mov.u32 %meta, {METADATA};", *(filled(n, f, i) for i, (n, f) in enumerate(names.items()))]),
        sink="\n".join(kept(f"d{number}_", fragments["d"]) for number in range(sets)),
        name=name,
    )


def _fits(a: Fragment, d: Fragment) -> bool:
    """Whether D's registers can be A's."""
    return d.registers >= a.registers and register_type(d) == register_type(a)


#: One mma on accumulator `number`, with operands from accumulator `other` if they must change.
Issue = Callable[[int, int], str]


def _fixed(instruction: Instruction) -> Issue:
    """A and B do not change."""
    held = {role: vector(role, instruction.fragments[role].registers) for role in "ab"}

    def one(number: int, other: int) -> str:
        sums = vector(f"d{number}_", instruction.fragments["d"].registers)
        return issue(instruction, {**held, **SPARSE, "c": sums, "d": sums})

    return one


def _through_a(instruction: Instruction, first: int) -> Body:
    """A is the previous result and C does not change: this avoids a possible shortcut from one sum to the next."""
    d, a, b, c = (instruction.fragments[role].registers for role in "dabc")
    held = {"b": vector("b", b), "c": vector("c", c)}

    def one(copy: int, _: str) -> str:
        # the last two, so that the other chain's result is needed
        old, new = f"d{first + (copy + 1) % 2}_", f"d{first + copy % 2}_"
        return issue(instruction, {**held, **SPARSE, "a": vector(old, a), "d": vector(new, d)})

    return one


def _lowered(instruction: Instruction) -> bool:
    """Whether the chip may lack the instruction, so that the assembler replaces it by a sequence.

    The assembler would move any part of the sequence that depends only on A and B out of the loop, so they have to
    change. fp8 and 4-bit integers are converted, single bits counted; m8n8k4 of 16-bit floats is for Volta.
    """
    a = instruction.types["a"]
    return bool(instruction.facts.quads) or a.container < 8 or (a.kind == "float" and a.container == 8)


def _fresh(instruction: Instruction, sets: int) -> Issue:
    """A and B are the bits of accumulators, so they change each time; their values do not matter."""
    fragments = instruction.fragments
    held = fragments["d"].registers

    def bits(role: str, first: int, number: int) -> str:
        """The registers of `number` accumulators, one after the other, from accumulator `first` on."""
        places = ((first + r // held % number) % sets for r in range(fragments[role].registers))
        return braced(f"%d{place}_{r % held}" for r, place in enumerate(places))

    def one(number: int, other: int) -> str:
        if number == other:  # a chain: everything comes from the previous result
            operands = {role: bits(role, number, 1) for role in "abc"}
        else:
            operands = {"a": bits("a", other, sets), "b": bits("b", other + 1, sets), "c": bits("c", number, sets)}
        return issue(instruction, {**operands, **SPARSE, "d": vector(f"d{number}_", held)})

    return one

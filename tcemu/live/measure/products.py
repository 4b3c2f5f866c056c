"""Probes of mma.sync and its sparse form: read from the instruction table, one for each opcode of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tcemu.instructions import FAMILIES, Instruction, target_named
from tcemu.layouts import Fragment
from tcemu.live.measure.probe import Body, Part, Probe, always

#: Accumulators of a warp that takes turns among them, and of each warp where many run side by side.
ALONE, TOGETHER = 16, 4
#: Warps that keep the four tensor cores of an SM busy.
WARPS = 16
#: Metadata that every sparse form takes: the first two of four, or the first of two.
METADATA = 0x44444444


def legal(families: tuple[str, ...], target: str, version: str) -> Iterator[Instruction]:
    """The instructions of some families that a target has."""
    chip = target_named(target)
    for family in FAMILIES:
        if family.name in families:
            for _, instruction in family.variants:
                if instruction.gate.admits(chip) and instruction.gate.admits_ptx(version):
                    yield instruction.on(chip)


def products(target: str, version: str) -> Iterator[Probe]:
    """Two probes for each opcode: one warp, and enough warps for all tensor cores of an SM."""
    for number, instruction in enumerate(legal(("mma", "mma.sp"), target, version)):
        yield _probe(instruction, f"product_{number}_alone", 1, TOGETHER if _lowered(instruction) else ALONE)
        yield _probe(instruction, f"product_{number}_together", WARPS, TOGETHER)


def _probe(instruction: Instruction, name: str, warps: int, sets: int) -> Probe:
    fragments = {role: instruction.fragments[role] for role in "abcd"}
    issue = _fresh(instruction, sets) if _lowered(instruction) else _fixed(instruction)
    # The ends of a trip show where there are few copies; of a long sequence, many at once take more registers than
    # there are, and spills would be what is measured.
    copies, more = (16, 64) if not _lowered(instruction) else (2, 2) if "e" in instruction.fragments else (4, 16)
    turns = Part(
        instruction.opcode,
        "interval" if warps == 1 else "SM interval",
        {"warps": warps},
        lambda copy, _: issue(copy % sets, (copy + 1) % sets),
        more if warps == 1 else copies,
        warps,
    )
    chains = [Part(instruction.opcode, "latency", {"through": "c"}, always(issue(0, 0)), copies)]
    if _lowered(instruction):
        chains = [replace(chains[0], how={"through": "a, b, c"})]
    elif kind(fragments["d"])[1] >= kind(fragments["a"])[1] and kind(fragments["d"])[0] == kind(fragments["a"])[0]:
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


#: One mma on accumulator `number`, with operands from accumulator `other` where they are to be fresh.
Issue = Callable[[int, int], str]


def _fixed(instruction: Instruction) -> Issue:
    """A and B stay what they are."""
    d, a, b = (instruction.fragments[role] for role in "dab")
    last = ", %meta, 0" if "e" in instruction.fragments else ""

    def issue(number: int, other: int) -> str:
        sums = registers(f"d{number}_", d)
        return f"{instruction} {sums}, {registers('a', a)}, {registers('b', b)}, {sums}{last};"

    return issue


def _through_a(instruction: Instruction, first: int) -> Body:
    """A is the result before, C stays what it is: without the short way that sums may have from one to the next."""
    d, a, b = (instruction.fragments[role] for role in "dab")
    last = ", %meta, 0" if "e" in instruction.fragments else ""
    sums = registers("c", instruction.fragments["c"])

    def issue(copy: int, _: str) -> str:
        # the last two, so that the other chain's result is still wanted
        old, new = f"d{first + (copy + 1) % 2}_", f"d{first + copy % 2}_"
        before = "{" + ", ".join(f"%{old}{r}" for r in range(a.registers)) + "}"
        return f"{instruction} {registers(new, d)}, {before}, {registers('b', b)}, {sums}{last};"

    return issue


def _lowered(instruction: Instruction) -> bool:
    """Whether the chip may have no such instruction and the assembler a sequence in its place.

    Of a sequence it would move out of the loop whatever depends on A and B alone, so they have to change. fp8 and 4-bit
    integers are converted, single bits counted, m8n8k4 of 16-bit floats is for Volta.
    """
    a = instruction.types["a"]
    return bool(instruction.facts.quads) or a.container < 8 or (a.kind == "float" and a.container == 8)


def _fresh(instruction: Instruction, sets: int) -> Issue:
    """A and B are the bits of accumulators, so they differ each time; which values they stand for does not matter."""
    fragments = instruction.fragments
    last = ", %meta, 0" if "e" in fragments else ""

    def bits(role: str, first: int) -> str:
        names = [f"%d{(first + r // held) % sets}_{r % held}" for r in range(fragments[role].registers)]
        return "{" + ", ".join(names) + "}"

    held = fragments["d"].registers

    def issue(number: int, other: int) -> str:
        if number == other:  # a chain: everything comes from the result before
            operands = [
                "{" + ", ".join(f"%d{number}_{r % held}" for r in range(fragments[role].registers)) + "}"
                for role in "abc"
            ]
        else:
            operands = [bits("a", other), bits("b", other + 1), bits("c", number)]
        return f"{instruction} {registers(f'd{number}_', fragments['d'])}, {', '.join(operands)}{last};"

    return issue


def kind(fragment: Fragment) -> tuple[str, int]:
    """The PTX type of a fragment's registers, and how many there are."""
    return "b64" if fragment.container.register_bits == 64 else "b32", fragment.registers


def registers(name: str, fragment: Fragment) -> str:
    """The vector operand."""
    return "{" + ", ".join(f"%{name}{r}" for r in range(fragment.registers)) + "}"


def declared(name: str, fragment: Fragment) -> str:
    """Declares a fragment's registers."""
    type_, count = kind(fragment)
    return f".reg .{type_} %{name}<{count}>;"


def filled(name: str, fragment: Fragment, salt: int) -> str:
    """Gives registers values that differ by lane, register and `salt`, of moderate size in every float format."""
    type_, count = kind(fragment)
    lines = []
    for r in range(count):
        value = (
            f"mul.lo.u32 %h0, %thread, 65537; add.u32 %h0, %h0, {0x34003400 + 0x10001 * (8 * salt + r) % 0x4000000};"
        )
        end = f"mov.b64 %{name}{r}, {{%thread, %h0}};" if type_ == "b64" else f"mov.b32 %{name}{r}, %h0;"
        lines.append(f"{value} {end}")
    return "\n".join(lines)


def kept(name: str, fragment: Fragment) -> str:
    """Stores registers, so that they have to be computed."""
    type_, count = kind(fragment)
    return "\n".join(f"st.volatile.global.{type_} [%sink], %{name}{r};" for r in range(count))

"""Probes of mma.sync and its sparse form: read from the instruction table, one for each opcode of the target."""

from __future__ import annotations

from collections.abc import Iterator

from tcemu.instructions import FAMILIES, Instruction, target_named
from tcemu.layouts import Fragment
from tcemu.live.measure.probe import Part, Probe

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
        yield _probe(instruction, f"product_{number}_alone", 1, ALONE)
        yield _probe(instruction, f"product_{number}_together", WARPS, TOGETHER)


def _probe(instruction: Instruction, name: str, warps: int, sets: int) -> Probe:
    fragments = {role: instruction.fragments[role] for role in "abcd"}
    same = kind(fragments["c"]) == kind(fragments["d"])
    opcode = instruction.opcode

    def issue(number: int) -> str:
        """Accumulate on set `number`; where C has other registers than D, D's bits become C's."""
        d = registers(f"d{number}_", fragments["d"])
        c = d if same else registers("c", fragments["c"])
        common = range(0 if same else min(fragments["c"].registers, fragments["d"].registers))
        move = "".join(f"mov.b32 %c{r}, %d{number}_{r}; " for r in common)
        last = ", %meta, 0" if "e" in fragments_of(instruction) else ""
        return f"{move}{opcode} {d}, {registers('a', fragments['a'])}, {registers('b', fragments['b'])}, {c}{last};"

    turns = Part(opcode, "interval" if warps == 1 else "SM interval", {"warps": warps}, lambda i, _: issue(i % sets), 16, warps)
    chain = Part(opcode, "latency", {"warps": 1}, lambda i, _: issue(0), 16)
    names = {"a": fragments["a"], "b": fragments["b"], "c": fragments["c"]}
    names |= {f"d{number}_": fragments["d"] for number in range(sets)}
    return Probe(
        parts=(chain, turns) if warps == 1 else (turns,),
        threads=32 * warps,
        declare=" ".join(declared(name, fragment) for name, fragment in names.items()) + " .reg .b32 %meta;",
        setup="\n".join([f"mov.u32 %meta, {METADATA};", *(filled(n, f, i) for i, (n, f) in enumerate(names.items()))]),
        sink="\n".join(kept(f"d{number}_", fragments["d"]) for number in range(sets)),
        name=name,
    )


def fragments_of(instruction: Instruction) -> set[str]:
    """The roles that have registers."""
    return set(instruction.fragments)


def kind(fragment: Fragment) -> tuple[str, int]:
    """The PTX type of a fragment's registers, and how many there are."""
    return {"f64": "f64", "f32": "f32"}.get(fragment.format.name, "b32"), fragment.registers


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
        value = f"mul.lo.u32 %h0, %thread, 65537; add.u32 %h0, %h0, {0x34003400 + 0x10001 * (8 * salt + r) % 0x4000000};"
        end = f"mov.b64 %{name}{r}, {{%thread, %h0}};" if type_ == "f64" else f"mov.b32 %{name}{r}, %h0;"
        lines.append(f"{value} {end}")
    return "\n".join(lines)


def kept(name: str, fragment: Fragment) -> str:
    """Stores registers, so that they have to be computed."""
    type_, count = kind(fragment)
    return "\n".join(f"st.volatile.global.{type_} [%sink], %{name}{r};" for r in range(count))

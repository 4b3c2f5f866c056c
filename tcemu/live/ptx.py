"""PTX for one instruction: a kernel in which warps execute it on their own operands.

A block is one group of lanes (a warp), and takes the warps start[block] up to start[block + 1] one after another. Where
the instruction touches bytes, all of these see memory number which[block]: in place, or, for shared memory, as a copy
that is written back in the end. So warps that share a memory go one after another, as in the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tcemu.instructions.instruction import Instruction
from tcemu.instructions.targets import ptx_version, target_named
from tcemu.layouts import Fragment
from tcemu.live.form import Form

#: The first PTX version that knows a target (PTX ISA, Release Notes); later chips are newer than the last one here.
_SINCE = {
    "sm_70": "6.0", "sm_72": "6.1", "sm_75": "6.3", "sm_80": "7.0", "sm_86": "7.1", "sm_87": "7.4", "sm_89": "7.8",
    "sm_90": "7.8", "sm_90a": "8.0", "sm_100": "8.6", "sm_100a": "8.6", "sm_100f": "8.8", "sm_103a": "8.8",
    "sm_107a": "9.4", "sm_110a": "9.0", "sm_120a": "8.7", "sm_121a": "8.8",
}  # fmt: skip
_NEWEST = "9.0"
#: PTX type of a register by the format of its elements; all others are plain bits.
_REGISTERS = {"f64": "f64", "f32": "f32"}
#: Registers that are written without braces, one by one.
SCALARS = frozenset({"e", "scale_a", "scale_b"})
KERNEL = "one_instruction"
LANES = 32


def version(instruction: Instruction, target: str) -> str:
    """The oldest PTX version that has the instruction and the target, so that old drivers take it too."""
    return max(instruction.gate.ptx, _SINCE.get(target, _NEWEST), key=ptx_version)


@lru_cache(maxsize=4096)
def kernel(form: Form, target: str, scalars: frozenset[str] = SCALARS) -> str:
    """A module with the kernel. Its parameters are `parameters(form)`, all of them 64 bits."""
    target_named(target)
    head = f".version {version(form.instruction, target)}\n.target {target}\n.address_size 64"
    shared = ".extern .shared .align 1024 .b8 bytes[];" if form.space == "shared" else ""
    given = ", ".join(f".param .u64 p_{name}" for name in parameters(form))
    lines = [*_declare(form), *_start(form), *_each_warp(form, scalars), *_end(form)]
    body = "\n".join(f"    {line}" for line in lines)
    return f"{head}\n{shared}\n.visible .entry {KERNEL}({given})\n{{\n{body}\n}}\n"


def parameters(form: Form) -> tuple[str, ...]:
    """Names of the kernel's parameters in order: warps of each block, bytes, what every warp reads, what it writes."""
    memory = ("which", "bytes", "size") if form.space else ()
    return ("start", *memory, *form.loads, *form.destination)


# ---------------------------------------------------------------------------------------------------- parts


def _declare(form: Form) -> list[str]:
    lines = [
        ".reg .pred %more;",
        ".reg .b32 %lane, %block, %warp, %last, %at, %place, %stride, %v<4>;",
        ".reg .b64 %p, %q, %base, %size, %offset, %address;",
    ]
    for role, fragment in _fragments(form).items():
        lines.append(f".reg .{register_type(fragment)} %{role}<{fragment.registers}>;")
    return lines


def _fragments(form: Form) -> dict[str, Fragment]:
    fragments = form.instruction.fragments
    return {word: fragments[word] for word in (*form.destination, *form.loads) if word in fragments}


def _start(form: Form) -> list[str]:
    lines = [
        "mov.u32 %lane, %tid.x;",
        "mov.u32 %block, %ctaid.x;",
        *parameter("start", "mad.wide.u32 %p, %block, 4, %p;"),
        "ld.global.u32 %warp, [%p];",
        "ld.global.u32 %last, [%p+4];",
    ]
    if form.space:
        lines += own_bytes()
    return [*lines, *(copied("in", LANES) if form.space == "shared" else [])]


def own_bytes() -> list[str]:
    """Where the bytes of this block start, and how many they are."""
    return [
        *parameter("which", "mad.wide.u32 %p, %block, 4, %p;"),
        "ld.global.u32 %at, [%p];",
        "ld.param.u64 %size, [p_size];",
        "cvt.u64.u32 %offset, %at;",
        "mul.lo.u64 %offset, %offset, %size;",
        *parameter("bytes", "add.u64 %base, %p, %offset;"),
    ]


def _each_warp(form: Form, scalars: frozenset[str]) -> list[str]:
    lines = ["each:", "setp.ge.u32 %more, %warp, %last;", "@%more bra done;"]
    lines += [f"mad.lo.u32 %place, %warp, {LANES}, %lane;"]
    for word in form.loads:
        lines += _LOAD[word](form) if word in _LOAD else moved("ld", word, form.instruction.fragments[word])
    lines.append(_spell(form, scalars))
    for role in form.destination:
        lines += moved("st", role, form.instruction.fragments[role])
    if form.stores:
        lines.append("bar.sync 0;")
    return [*lines, "add.u32 %warp, %warp, 1;", "bra each;", "done:"]


def _end(form: Form) -> list[str]:
    return [*(copied("out", LANES) if form.stores and form.space == "shared" else []), "ret;"]


def _spell(form: Form, scalars: frozenset[str]) -> str:
    """The instruction itself."""
    fixed = dict(form.immediates)
    texts = [_text(form, word, fixed, scalars) for word in (*form.destination, *form.sources)]
    return f"{form.instruction} {', '.join(texts)};"


def _text(form: Form, word: str, fixed: dict[str, str], scalars: frozenset[str]) -> str:
    if word in fixed:
        return fixed[word]
    if word in _WRITTEN:
        return _WRITTEN[word]
    if word in scalars:
        return f"%{word}0"
    return "{" + ", ".join(f"%{word}{r}" for r in range(form.instruction.fragments[word].registers)) + "}"


def register_type(fragment: Fragment) -> str:
    """The PTX type of the fragment's registers."""
    return _REGISTERS.get(fragment.format.name, "b32")


def parameter(name: str, then: str) -> list[str]:
    """Parameter `name`, a pointer, in %p; `then` goes on with it."""
    return [f"ld.param.u64 %p, [p_{name}];", "cvta.to.global.u64 %p, %p;", then]


def moved(verb: str, role: str, fragment: Fragment, name: str = "") -> list[str]:
    """Load the registers of a role of lane %place from parameter `name`, or store them there."""
    size, kind = fragment.container.register_bits // 8, register_type(fragment)
    lines = parameter(name or role, f"mad.wide.u32 %p, %place, {size * fragment.registers}, %p;")
    for r in range(fragment.registers):
        where, register = f"[%p+{size * r}]", f"%{role}{r}"
        order = f"{register}, {where}" if verb == "ld" else f"{where}, {register}"
        lines.append(f"{verb}.global.{kind} {order};")
    return lines


def copied(way: str, lanes: int) -> list[str]:
    """All bytes into shared memory, or back: 16 bytes a lane at a time."""
    move = {
        "in": ("ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%p];", "st.shared.v4.b32 [%at], {%v0, %v1, %v2, %v3};"),
        "out": ("ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%at];", "st.global.v4.b32 [%p], {%v0, %v1, %v2, %v3};"),
    }[way]
    return [
        "bar.sync 0;",
        "mul.wide.u32 %q, %lane, 16;",
        f"copy_{way}:",
        "setp.ge.u64 %more, %q, %size;",
        f"@%more bra copied_{way};",
        "add.u64 %p, %base, %q;",
        "cvt.u32.u64 %at, %q;",
        "mov.u32 %v0, bytes;",
        "add.u32 %at, %at, %v0;",
        *move,
        f"add.u64 %q, %q, {16 * lanes};",
        f"bra copy_{way};",
        f"copied_{way}:",
        "bar.sync 0;",
    ]


def _address(form: Form) -> list[str]:
    """From a place in the bytes (%q) to the address that the instruction takes (%address)."""
    if form.space == "memory":
        to_generic = [] if form.instruction.words.get("ss") else ["cvta.global.u64 %address, %address;"]
        return ["add.u64 %address, %base, %q;", *to_generic]
    lines = ["mov.u32 %v0, bytes;", "cvt.u64.u32 %address, %v0;", "add.u64 %address, %address, %q;"]
    return lines if form.instruction.words.get("ss") else [*lines, "cvta.shared.u64 %address, %address;"]


def _addresses(form: Form) -> list[str]:
    """A 32-bit place for each lane."""
    lines = parameter("addresses", "mad.wide.u32 %p, %place, 4, %p;")
    return [*lines, "ld.global.u32 %v0, [%p];", "cvt.u64.u32 %q, %v0;", *_address(form)]


def _pointer(form: Form) -> list[str]:
    """A 64-bit place for each warp."""
    return [*parameter("pointer", "mad.wide.u32 %p, %warp, 8, %p;"), "ld.global.u64 %q, [%p];", *_address(form)]


def _stride(form: Form) -> list[str]:
    return [*parameter("stride", "mad.wide.u32 %p, %warp, 4, %p;"), "ld.global.u32 %stride, [%p];"]


#: Operands that are no registers of a fragment: how a warp gets them, and how they are written.
_LOAD: dict[str, Callable[[Form], list[str]]] = {"addresses": _addresses, "pointer": _pointer, "stride": _stride}
_WRITTEN = {"addresses": "[%address]", "pointer": "[%address]", "stride": "%stride"}

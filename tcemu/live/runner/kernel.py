"""The kernel of one instruction: groups of lanes execute it, each on its own operands.

A block is one group (a warp, or a warpgroup for wgmma) and does the work of groups start[block] up to start[block + 1],
one after another. In all of these, an instruction that accesses bytes sees memory number which[block]: global memory in
place; shared memory as a copy, which is written back at the end if the instruction stores. So groups that share a
memory take turns, as in the emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tcemu.instructions.instruction import Instruction
from tcemu.instructions.operand import Kind, Operand
from tcemu.live import ptx
from tcemu.live.runner.families import MANNERS, Manner
from tcemu.vectors.operands import sources, written

NAME = "one_instruction"
#: The parameter for what the instruction writes.
OUT = "out"


@dataclass(frozen=True)
class Kernel:
    """What a kernel is generated from."""

    instruction: Instruction
    target: str
    #: Whether a descriptor replaces A's registers.
    described: bool = False
    #: The text of each operand that is part of the instruction's text, by role.
    texts: tuple[tuple[str, str], ...] = ()
    #: "shared" or "memory" if the instruction accesses bytes, otherwise empty.
    space: str = ""

    @cached_property
    def loaded(self) -> tuple[Operand, ...]:
        """The operands that each group loads."""
        return tuple(each for each in sources(self.instruction, self.described) if not each.in_the_text)

    @cached_property
    def written(self) -> Operand | None:
        """The operand that the instruction writes; None for a store."""
        return written(self.instruction)

    @property
    def manner(self) -> Manner:
        """What is special about the family."""
        return MANNERS[self.instruction.family]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in order: groups of each block, bytes, operands, result."""
        memory = ("which", "bytes", "size") if self.space else ()
        out = (OUT,) if self.written else ()
        return ("start", *memory, *(operand.role for operand in self.loaded), *out)


@lru_cache(maxsize=4096)
def code(kernel: Kernel) -> str:
    """The PTX of the kernel, in a module."""
    lines = [*_declare(kernel), *_start(kernel), *_each_group(kernel), *_end(kernel)]
    version = ptx.version(kernel.instruction, kernel.target)
    parameters = {f"p_{name}": "u64" for name in kernel.parameters}
    return ptx.module(version, kernel.target, NAME, parameters, lines, shared=kernel.space == "shared")


# ---------------------------------------------------------------------------------------------------- parts


def _declare(kernel: Kernel) -> list[str]:
    registers = {each.role: each.fragment for each in (*kernel.loaded, kernel.written) if each and each.fragment}
    return [
        ".reg .pred %more;",
        ".reg .b32 %lane, %block, %group, %last, %at, %place, %v<4>;",
        ".reg .b64 %p, %q, %base, %size, %offset;",
        *(ptx.declared(role, fragment) for role, fragment in registers.items()),
        *(_HOW[each.kind].declare.format(each.role) for each in kernel.loaded),
    ]


def _start(kernel: Kernel) -> list[str]:
    lines = [
        "mov.u32 %lane, %tid.x;",
        "mov.u32 %block, %ctaid.x;",
        *ptx.parameter("start", "mad.wide.u32 %p, %block, 4, %p;"),
        "ld.global.u32 %group, [%p];",
        "ld.global.u32 %last, [%p+4];",
    ]
    if kernel.space:
        lines += [  # where the bytes of this block start, and how many they are
            *ptx.parameter("which", "mad.wide.u32 %p, %block, 4, %p;"),
            "ld.global.u32 %at, [%p];",
            "ld.param.u64 %size, [p_size];",
            "cvt.u64.u32 %offset, %at;",
            "mul.lo.u64 %offset, %offset, %size;",
            *ptx.parameter("bytes", "add.u64 %base, %p, %offset;"),
        ]
    if kernel.space == "shared":
        lines += _copied("in", kernel.instruction.lanes)
    return [*lines, *(("fence.proxy.async;", "bar.sync 0;") if kernel.manner.through_proxy else ())]


def _each_group(kernel: Kernel) -> list[str]:
    lines = ["each:", "setp.ge.u32 %more, %group, %last;", "@%more bra done;"]
    lines += [f"mad.lo.u32 %place, %group, {kernel.instruction.lanes}, %lane;"]
    for operand in kernel.loaded:
        lines += _HOW[operand.kind].load(kernel, operand)
    texts = {each.role: _HOW[each.kind].text(kernel, each) for each in (kernel.written, *kernel.loaded) if each}
    issue = ptx.issue(kernel.instruction, texts | dict(kernel.texts), kernel.described)
    lines += [*kernel.manner.before, issue, *kernel.manner.after]
    lines += _moved("st", kernel.written, OUT) if kernel.written else ["bar.sync 0;"]
    return [*lines, "add.u32 %group, %group, 1;", "bra each;", "done:"]


def _end(kernel: Kernel) -> list[str]:
    back = _copied("out", kernel.instruction.lanes) if kernel.space == "shared" and not kernel.written else []
    return [*back, "ret;"]


def _copied(way: str, lanes: int) -> list[str]:
    """Copy all bytes into shared memory, or back: 16 bytes per lane at a time."""
    four = ptx.vector("v", 4)
    move = {
        "in": (f"ld.global.v4.b32 {four}, [%p];", f"st.shared.v4.b32 [%at], {four};"),
        "out": (f"ld.shared.v4.b32 {four}, [%at];", f"st.global.v4.b32 [%p], {four};"),
    }[way]
    return [
        "bar.sync 0;",
        "mul.wide.u32 %q, %lane, 16;",
        f"copy_{way}:",
        "setp.ge.u64 %more, %q, %size;",
        f"@%more bra copied_{way};",
        "add.u64 %p, %base, %q;",
        "cvt.u32.u64 %at, %q;",
        f"mov.u32 %v0, {ptx.SHARED};",
        "add.u32 %at, %at, %v0;",
        *move,
        f"add.u64 %q, %q, {16 * lanes};",
        f"bra copy_{way};",
        f"copied_{way}:",
        "bar.sync 0;",
    ]


# ---------------------------------------------------------------------------------------------------- operands


def _moved(verb: str, operand: Operand, name: str) -> list[str]:
    """Load the registers of lane %place from parameter `name`, or store them there."""
    fragment = operand.fragment
    assert fragment is not None  # noqa: S101 - registers have one
    size, type_ = fragment.container.register_bits // 8, ptx.register_type(fragment)
    lines = ptx.parameter(name, f"mad.wide.u32 %p, %place, {size * fragment.registers}, %p;")
    for number in range(fragment.registers):
        where, register = f"[%p+{size * number}]", f"%{operand.role}{number}"
        order = f"{register}, {where}" if verb == "ld" else f"{where}, {register}"
        lines.append(f"{verb}.global.{type_} {order};")
    return lines


def _registers(kernel: Kernel, operand: Operand) -> list[str]:
    return _moved("ld", operand, operand.role)


def _addresses(kernel: Kernel, operand: Operand) -> list[str]:
    """An address from a 32-bit offset for each lane."""
    load = ptx.parameter(operand.role, "mad.wide.u32 %p, %place, 4, %p;")
    return [*load, "ld.global.u32 %v0, [%p];", "cvt.u64.u32 %q, %v0;", *_address(kernel, operand)]


def _pointer(kernel: Kernel, operand: Operand) -> list[str]:
    """An address from a 64-bit offset for each group."""
    load = ptx.parameter(operand.role, "mad.wide.u32 %p, %group, 8, %p;")
    return [*load, "ld.global.u64 %q, [%p];", *_address(kernel, operand)]


def _address(kernel: Kernel, operand: Operand) -> list[str]:
    """From an offset in the bytes (%q) to the address that the instruction takes."""
    register, generic = f"%{operand.role}", not kernel.instruction.words.get("ss")
    if kernel.space == "memory":
        to_generic = [f"cvta.global.u64 {register}, {register};"] if generic else []
        return [f"add.u64 {register}, %base, %q;", *to_generic]
    to_generic = [f"cvta.shared.u64 {register}, {register};"] if generic else []
    return [
        f"mov.u32 %v0, {ptx.SHARED};",
        f"cvt.u64.u32 {register}, %v0;",
        f"add.u64 {register}, {register}, %q;",
        *to_generic,
    ]


def _number(kernel: Kernel, operand: Operand) -> list[str]:
    return [*ptx.parameter(operand.role, "mad.wide.u32 %p, %group, 4, %p;"), f"ld.global.u32 %{operand.role}, [%p];"]


def _descriptor(kernel: Kernel, operand: Operand) -> list[str]:
    """A descriptor, whose start address is moved by the start of the bytes, in units of 16 bytes."""
    register = f"%desc_{operand.role}"
    return [
        *ptx.parameter(operand.role, "mad.wide.u32 %p, %group, 8, %p;"),
        f"ld.global.u64 {register}, [%p];",
        f"mov.u32 %at, {ptx.SHARED};",
        "shr.u32 %at, %at, 4;",
        "cvt.u64.u32 %q, %at;",
        f"add.u64 {register}, {register}, %q;",
    ]


def _predicate(kernel: Kernel, operand: Operand) -> list[str]:
    load = ptx.parameter(operand.role, "mad.wide.u32 %p, %group, 4, %p;")
    return [*load, "ld.global.u32 %v0, [%p];", f"setp.ne.u32 %{operand.role}, %v0, 0;"]


def _in_braces(kernel: Kernel, operand: Operand) -> str:
    assert operand.fragment is not None  # noqa: S101 - registers have one
    return ptx.vector(operand.role, operand.fragment.registers) if kernel.manner.braces else f"%{operand.role}0"


@dataclass(frozen=True)
class _How:
    """How a kind of operand is written in a kernel; "{}" stands for its role."""

    load: Callable[[Kernel, Operand], list[str]]
    written: str | Callable[[Kernel, Operand], str]
    #: Declares its registers, if it has no fragment.
    declare: str = ""

    def text(self, kernel: Kernel, operand: Operand) -> str:
        """The text of the operand in the instruction."""
        return self.written.format(operand.role) if isinstance(self.written, str) else self.written(kernel, operand)


_HOW: dict[Kind, _How] = {
    "registers": _How(_registers, _in_braces),
    "metadata": _How(_registers, "%{}0"),
    "scale": _How(_registers, "%{}0"),
    "address": _How(_addresses, "[%{}]", ".reg .b64 %{};"),
    "pointer": _How(_pointer, "[%{}]", ".reg .b64 %{};"),
    "stride": _How(_number, "%{}", ".reg .b32 %{};"),
    "descriptor": _How(_descriptor, "%desc_{}", ".reg .b64 %desc_{};"),
    "predicate": _How(_predicate, "%{}", ".reg .pred %{};"),
}

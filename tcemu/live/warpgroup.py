"""wgmma on the GPU: a kernel in which a block of 128 lanes executes one on its own registers and its own shared memory.

The bytes are copied into shared memory; a descriptor's start address counts from where they begin there. The emulator
does the call first, because only it knows every byte that a descriptor reaches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tcemu.formats import Format
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.multiply import broadcast
from tcemu.layouts.canonical import Major
from tcemu.layouts.descriptor import FIELDS, Descriptor
from tcemu.live import inputs, ptx
from tcemu.live.job import Argument, Array, Job, given, wanted
from tcemu.live.makers import Ask, Call, padded, spread, too_large

LANES = 128


@dataclass(frozen=True)
class Form:
    """What one kernel is made for."""

    instruction: Instruction
    #: Whether A is in shared memory; else it is in registers.
    described: bool
    #: The selector of a sparse A.
    selector: str
    #: What follows scale_d.
    immediates: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the kernel's parameters in order."""
        metadata = ("e",) if self.selector else ()
        return ("which", "bytes", "size", "d", "a", "b", *metadata, "scale_d", "out")


def run(call: Call, ask: Ask) -> Any:
    """The new D."""
    instruction = call.instruction
    expected = call.emulate()
    operands = dict(zip(_names(instruction), call.operands, strict=False))
    a = np.asarray(operands["a"])
    described = a.dtype != np.uint32
    parts = {"d": _held(np.asarray(operands["d"])), "a": _described(a) if described else _held(a)}
    parts["b"] = _described(np.asarray(operands["b"]))
    if "e" in operands:
        metadata = np.asarray(operands["e"])
        parts["e"] = metadata, metadata.shape[:-1]
    scale = np.asarray(operands["scale_d"]).astype(np.uint32)
    parts["scale_d"] = scale, scale.shape
    bytes_: Array = call.memories["shared"]
    own = bytes_.shape[:-1]
    groups = broadcast(instruction, {**{name: shape for name, (_, shape) in parts.items()}, "shared": own})
    if not prod(groups):
        return expected
    held = padded(bytes_.reshape(prod(own), bytes_.shape[-1]))
    too_large(call, held)
    last = call.operands[len(operands) :]
    form = Form(instruction, described, str(operands.get("f", "")), tuple(str(int(value)) for value in last))
    arguments = {name: given(name, spread(array, shape, groups)) for name, (array, shape) in parts.items()}
    which = np.broadcast_to(np.arange(prod(own), dtype=np.uint32).reshape(own), groups).reshape(-1)
    arguments["which"] = given("which", which)
    arguments["bytes"] = given("bytes", held)
    arguments["size"] = Argument("size", "scalar", np.uint64(held.shape[-1]))
    fragment = instruction.fragments["d"]
    shape = (prod(groups), fragment.lanes, fragment.registers)
    arguments["out"] = wanted("out", shape, fragment.container.register_dtype)
    code = kernel(form, call.device.target)
    ordered = tuple(arguments[name] for name in form.parameters)
    job = Job("ptx", code, ptx.KERNEL, (prod(groups),), (LANES,), ordered, held.shape[-1])
    return ask(job).arrays["out"].reshape(*groups, *shape[1:])


def _names(instruction: Instruction) -> tuple[str, ...]:
    """The operands up to scale_d; immediates follow."""
    return ("d", "a", "b", *(("e", "f") if "e" in instruction.fragments else ()), "scale_d")


def _held(registers: Array) -> tuple[Array, tuple[int, ...]]:
    return registers, registers.shape[:-2]


def _described(descriptors: Array) -> tuple[Array, tuple[int, ...]]:
    return descriptors.astype(np.uint64), descriptors.shape


# ---------------------------------------------------------------------------------------------------- the kernel


@lru_cache(maxsize=1024)
def kernel(form: Form, target: str) -> str:
    """A module with the kernel."""
    instruction, fragments = form.instruction, form.instruction.fragments
    roles = {"d": fragments["d"], **({} if form.described else {"a": fragments["a"]})}
    lines = [
        ".reg .pred %more, %add;",
        ".reg .b32 %lane, %block, %at, %place, %scale, %e, %v<4>;",
        ".reg .b64 %p, %q, %base, %size, %offset, %here, %desc_a, %desc_b;",
        *(f".reg .{ptx.register_type(each)} %{role}<{each.registers}>;" for role, each in roles.items()),
        "mov.u32 %lane, %tid.x;",
        "mov.u32 %block, %ctaid.x;",
        f"mad.lo.u32 %place, %block, {LANES}, %lane;",
        *ptx.own_bytes(),
        *ptx.copied("in", LANES),
        "fence.proxy.async;",
        "bar.sync 0;",
        # a descriptor has addresses in units of 16 bytes
        "mov.u32 %at, bytes;",
        "shr.u32 %at, %at, 4;",
        "cvt.u64.u32 %here, %at;",
        *(line for role, fragment in roles.items() for line in ptx.moved("ld", role, fragment)),
        *(_descriptor("a") if form.described else []),
        *_descriptor("b"),
        *ptx.parameter("scale_d", "mad.wide.u32 %p, %block, 4, %p;"),
        "ld.global.u32 %scale, [%p];",
        "setp.ne.u32 %add, %scale, 0;",
    ]
    if form.selector:
        lines += [*ptx.parameter("e", "mad.wide.u32 %p, %place, 4, %p;"), "ld.global.u32 %e, [%p];"]
    lines += [
        "wgmma.fence.sync.aligned;",
        _spell(form),
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
        *ptx.moved("st", "d", fragments["d"], "out"),
        "ret;",
    ]
    head = f".version {ptx.version(instruction, target)}\n.target {target}\n.address_size 64"
    given_ = ", ".join(f".param .u64 p_{name}" for name in form.parameters)
    body = "\n".join(f"    {line}" for line in lines)
    shared = ".extern .shared .align 1024 .b8 bytes[];"
    return f"{head}\n{shared}\n.visible .entry {ptx.KERNEL}({given_})\n{{\n{body}\n}}\n"


def _descriptor(role: str) -> list[str]:
    register = f"%desc_{role}"
    where = ptx.parameter(role, "mad.wide.u32 %p, %block, 8, %p;")
    return [*where, f"ld.global.u64 {register}, [%p];", f"add.u64 {register}, {register}, %here;"]


def _spell(form: Form) -> str:
    """The instruction itself."""

    def registers(role: str) -> str:
        return "{" + ", ".join(f"%{role}{r}" for r in range(form.instruction.fragments[role].registers)) + "}"

    a = "%desc_a" if form.described else registers("a")
    sparse = ["%e", form.selector] if form.selector else []
    return f"{form.instruction} {', '.join([registers('d'), a, '%desc_b', *sparse, '%add', *form.immediates])};"


# ---------------------------------------------------------------------------------------------------- inputs

#: Where A and B begin in shared memory; 64 rows of at most 128 bytes, and 256 of them.
_A, _B, _SIZE = 0, 8192, 8192 + 32768
_BASE = next(field for field in FIELDS if field.attribute == "base_offset")


#: Up to which n tiles are also laid off the boundary of their pattern: what a descriptor means does not depend on n.
_NARROW = 16


def cases(instruction: Instruction, kind: str, warps: int, series: str) -> Iterator[tuple[str, tuple[Any, ...], Array]]:
    """A in registers and in shared memory, each with a layout that the key draws: name, operands, shared memory.

    Narrow ones also "off the boundary": each warpgroup has starts and base offsets of its own.
    """
    yield _case(instruction, kind, "registers", max(warps // 64, 1), series)
    yield _case(instruction, kind, "shared", max(warps // 64, 1), series)
    if instruction.shape.n <= _NARROW:
        yield _case(instruction, kind, "off the boundary", max(warps // 4, 1), series)


def _case(
    instruction: Instruction, kind: str, where: str, groups: int, series: str
) -> tuple[str, tuple[Any, ...], Array]:
    key, facts = f"{series}|{instruction}|{kind}|{where}", instruction.facts
    drawn = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "little")
    m, n, k = instruction.shape
    stored = facts.stored or k
    trans = (drawn & 1, drawn >> 1 & 1) if facts.transposes else (0, 0)
    swizzles = [(0, 32, 64, 128)[drawn >> shift & 3] for shift in (2, 4)]
    described, moved = where != "registers", where == "off the boundary"
    bytes_ = np.concatenate(
        [_bytes(instruction.types["a"], kind, f"{key}|a", groups, _B, 0),
         _bytes(instruction.types["b"], kind, f"{key}|b", groups, _SIZE - _B, 1)], axis=-1
    )  # fmt: skip
    a: Any = inputs.registers(instruction.fragments["a"], kind, f"{key}|a", groups)
    if described:
        a = _tile(instruction.types["a"], m, stored, trans[0], swizzles[0], _A, groups)
    b = _tile(instruction.types["b"], n, k, trans[1], swizzles[1], _B, groups)
    if moved:
        a, b = (tile | _off(f"{key}|{role} off", groups) for role, tile in (("a", a), ("b", b)))
    d = _accumulator(instruction, kind, f"{key}|d", groups)
    signs = [1 - 2 * (drawn >> 6 & 1), 1 - 2 * (drawn >> 7 & 1)] if facts.negates else []
    majors = [*([trans[0]] if described else []), trans[1]] if facts.transposes else []
    scale_d = inputs.words(f"{key}|scale_d", groups) % np.uint64(4) > 0
    return where, (d, a, b, *_sparsity(instruction, key, groups, drawn >> 8), scale_d, *signs, *majors), bytes_


def _off(key: str, groups: int) -> Array:
    """Bits (groups) that move a descriptor on by 0 to 1008 bytes and give it a base offset of 0 to 7."""
    words = inputs.words(key, groups)
    return words % np.uint64(64) | (words >> np.uint64(6) & np.uint64(7)) << np.uint64(_BASE.low)


def _sparsity(instruction: Instruction, key: str, groups: int, drawn: int) -> tuple[Any, ...]:
    """Metadata and a selector, where A is sparse."""
    if "e" not in instruction.fragments:
        return ()
    metadata = inputs.metadata(instruction, f"{key}|e", groups * LANES // 32).reshape(groups, LANES)
    return metadata, drawn % instruction.fragments["e"].shape[0]


def _tile(form: Format, mn: int, k: int, trans: int, swizzle: int, start: int, groups: int) -> Array:
    major: Major = "MN" if trans else "K"
    return np.full(groups, int(Descriptor.for_tile(form, mn, k, major=major, swizzle=swizzle, start=start)), np.uint64)


def _accumulator(instruction: Instruction, kind: str, key: str, groups: int) -> Array:
    fragment = instruction.fragments["d"]
    count = groups * fragment.lanes * fragment.layout.slots
    patterns = inputs.elements(fragment.format, kind, key, count, accumulator=True)
    return fragment.container.pack(patterns.reshape(groups, fragment.lanes, fragment.layout.slots))


def _bytes(form: Format, kind: str, key: str, groups: int, size: int, negated: int) -> Array:
    """Bytes (groups, size) full of elements; where neighbours cancel, those of A repeat and those of B change sign."""
    bits = form.container
    if bits < 8:
        return inputs.words(key, groups * size // 8).view(np.uint8).reshape(groups, size)
    patterns = inputs.elements(form, kind, key, groups * size * 8 // bits)
    if kind == "cancel":
        patterns[1::2] = patterns[::2] ^ np.uint64(form.sign_bit * negated)
    return patterns.astype(f"<u{bits // 8}").view(np.uint8).reshape(groups, size)

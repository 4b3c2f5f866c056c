"""PTX kernels in which every warp executes one instruction on its own operands."""

from __future__ import annotations

from tcemu.instructions import Instruction
from tcemu.layouts import Fragment

_REGISTER = {"f64": "f64", "f32": "f32"}


def _kind(fragment: Fragment) -> str:
    return _REGISTER.get(fragment.format.name, "b32")


def _registers(name: str, fragment: Fragment) -> str:
    return "{" + ", ".join(f"%{name}{r}" for r in range(fragment.registers)) + "}"


def _move(verb: str, name: str, fragment: Fragment, index: int) -> list[str]:
    """Load the registers `name` of every lane from parameter `index`, or store them there."""
    size, kind = fragment.container.register_bits // 8, _kind(fragment)
    lines = [f"ld.param.u64 %p{index}, [p{index}]; mad.wide.u32 %p{index}, %t2, {size * fragment.registers}, %p{index};"]
    for r in range(fragment.registers):
        where = f"[%p{index}+{size * r}]"
        lines.append(f"ld.global.{kind} %{name}{r}, {where};" if verb == "ld" else f"st.global.{kind} {where}, %{name}{r};")
    return lines


def _entry(name: str, parameters: int, fragments: dict[str, Fragment], body: list[str]) -> str:
    given = ", ".join(f".param .u64 p{index}" for index in range(parameters))
    declared = [f".reg .{_kind(fragment)} %{role}<{fragment.registers}>;" for role, fragment in fragments.items()]
    head = [".reg .b32 %t<9>; .reg .b32 %v<4>; .reg .b64 %p<9>;", *declared]
    head.append("mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mad.lo.u32 %t2, %t1, 32, %t0;")
    return "\n".join([f".visible .entry {name}({given}) {{", *head, *body, "ret; }"])


def product(name: str, instruction: Instruction, selector: int) -> str:
    """D of A, B, C and, where A is sparse, metadata: parameters a, b, c, d, metadata."""
    fragments = {role: instruction.fragments[role] for role in "abcd"}
    body = [line for index, role in enumerate("abc") for line in _move("ld", role, fragments[role], index)]
    extra = ""
    if "e" in instruction.fragments:
        body.append("ld.param.u64 %p4, [p4]; mad.wide.u32 %p4, %t2, 4, %p4; ld.global.b32 %t8, [%p4];")
        extra = f", %t8, {selector}"
    body.append(f"{instruction} {', '.join(_registers(role, fragments[role]) for role in 'dabc')}{extra};")
    return _entry(name, 5, fragments, body + _move("st", "d", fragments["d"], 3))


def move(name: str, instruction: Instruction, size: int) -> str:
    """movmatrix, ldmatrix, stmatrix: parameters addresses, registers in, registers out, shared memory in and out."""
    fragments = dict(instruction.fragments)
    if instruction.family == "movmatrix":
        body = [*_move("ld", "a", fragments["a"], 1), f"{instruction} %d0, %a0;", *_move("st", "d", fragments["d"], 2)]
        return _entry(name, 4, fragments, body)
    lanes = [f"ld.global.v4.b32 {{%v0,%v1,%v2,%v3}}, [%p3+{i}]; st.shared.v4.b32 [%t4+{i}], {{%v0,%v1,%v2,%v3}};" for i in range(0, size, 512)]
    back = [f"ld.shared.v4.b32 {{%v0,%v1,%v2,%v3}}, [%t4+{i}]; st.global.v4.b32 [%p3+{i}], {{%v0,%v1,%v2,%v3}};" for i in range(0, size, 512)]
    body = [
        f".shared .align 1024 .b8 bytes_{name}[{size}];",
        f"mov.u32 %t3, bytes_{name}; shl.b32 %t4, %t0, 4; add.u32 %t4, %t4, %t3;",
        f"ld.param.u64 %p3, [p3]; mul.wide.u32 %p4, %t1, {size}; add.u64 %p3, %p3, %p4; mul.wide.u32 %p4, %t0, 16; add.u64 %p3, %p3, %p4;",
        *lanes,
        "bar.sync 0; ld.param.u64 %p0, [p0]; mad.wide.u32 %p0, %t2, 4, %p0; ld.global.u32 %t5, [%p0]; add.u32 %t5, %t5, %t3;",
    ]
    if instruction.family == "ldmatrix":
        body += [f"{instruction} {_registers('d', fragments['d'])}, [%t5];", *_move("st", "d", fragments["d"], 2)]
    else:
        body += [*_move("ld", "a", fragments["a"], 1), f"{instruction} [%t5], {_registers('a', fragments['a'])};", "bar.sync 0;", *back]
    return _entry(name, 4, fragments, body)


def access(name: str, instruction: Instruction, size: int) -> str:
    """wmma.load and wmma.store in global memory: parameters pointers, registers in, registers out, memory, strides."""
    ((role, fragment),) = instruction.fragments.items()
    body = [
        f"ld.param.u64 %p3, [p3]; mul.wide.u32 %p5, %t1, {size}; add.u64 %p3, %p3, %p5;",
        "ld.param.u64 %p0, [p0]; mul.wide.u32 %p5, %t1, 4; add.u64 %p0, %p0, %p5; ld.global.u32 %t5, [%p0];",
        "cvt.u64.u32 %p6, %t5; add.u64 %p3, %p3, %p6;",
        "ld.param.u64 %p4, [p4]; add.u64 %p4, %p4, %p5; ld.global.u32 %t6, [%p4];",
    ]
    registers = _registers(role, fragment)
    if role == "d":
        body += [*_move("ld", role, fragment, 1), f"{instruction} [%p3], {registers}, %t6;"]
    else:
        body += [f"{instruction} {registers}, [%p3], %t6;", *_move("st", role, fragment, 2)]
    return _entry(name, 5, {role: fragment}, body)

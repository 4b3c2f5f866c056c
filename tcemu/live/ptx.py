"""PTX as text: the pieces that kernels of one instruction and the probes of ``tcemu measure`` are written with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcemu.instructions.instruction import Instruction
from tcemu.instructions.targets import ptx_version
from tcemu.layouts import Fragment
from tcemu.vectors.operands import operands

#: The first PTX version that knows a target (PTX ISA, Release Notes); later chips are newer than the last one here.
SINCE = {
    "sm_70": "6.0", "sm_72": "6.1", "sm_75": "6.3", "sm_80": "7.0", "sm_86": "7.1", "sm_87": "7.4", "sm_89": "7.8",
    "sm_90": "7.8", "sm_90a": "8.0", "sm_100": "8.6", "sm_100a": "8.6", "sm_100f": "8.8", "sm_103a": "8.8",
    "sm_107a": "9.4", "sm_110a": "9.0", "sm_120a": "8.7", "sm_121a": "8.8",
}  # fmt: skip
_NEWEST = "9.0"

#: The bytes of shared memory, as far as the launch makes them.
SHARED = "bytes"

#: The order of wgmma: registers before it, groups, and what waits for them.
WGMMA_FENCE, WGMMA_COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"


def wgmma_wait(pending: int) -> str:
    """Waits until at most so many groups of wgmma are under way."""
    return f"wgmma.wait_group.sync.aligned {pending};"


def version(instruction: Instruction, target: str) -> str:
    """The oldest PTX version that has the instruction and the target, so that old drivers take it too."""
    return max(instruction.gate.ptx, SINCE.get(target, _NEWEST), key=ptx_version)


def module(
    ptx: str,
    target: str,
    entry: str,
    parameters: Mapping[str, str],
    lines: Iterable[str],
    shared: bool,
    tuning: str = "",
) -> str:
    """A module with one kernel: its name, the types of its parameters by name, its body.

    `shared` gives it the launch's dynamic shared memory; `tuning` are performance directives (.maxntid).
    """
    head = f".version {ptx}\n.target {target}\n.address_size 64"
    memory = f".extern .shared .align 1024 .b8 {SHARED}[];" if shared else ""
    given = ", ".join(f".param .{type_} {name}" for name, type_ in parameters.items())
    body = "\n".join(f"    {line}" for line in lines if line)
    return f"{head}\n{memory}\n.visible .entry {entry}({given}) {tuning}\n{{\n{body}\n}}\n"


def register_type(fragment: Fragment) -> str:
    """The PTX type of the fragment's registers: plain bits, which go with every type of their size."""
    return f"b{fragment.container.register_bits}"


def declared(name: str, fragment: Fragment) -> str:
    """Declares a fragment's registers: name0, name1 ..."""
    return f".reg .{register_type(fragment)} %{name}<{fragment.registers}>;"


def vector(name: str, count: int) -> str:
    """The registers name0, name1 ... as one operand."""
    return braced(f"%{name}{register}" for register in range(count))


def braced(registers: Iterable[str]) -> str:
    """Registers as one operand."""
    return "{" + ", ".join(registers) + "}"


def issue(instruction: Instruction, texts: Mapping[str, str], described: bool = False) -> str:
    """The instruction, given the text of each operand by role; `described`: A is in shared memory, as wgmma allows."""
    return f"{instruction} {', '.join(texts[operand.role] for operand in operands(instruction, described))};"


def parameter(name: str, then: str) -> list[str]:
    """Parameter `name`, a pointer to global memory, in %p; `then` goes on with it."""
    return [f"ld.param.u64 %p, [p_{name}];", "cvta.to.global.u64 %p, %p;", then]


def try_wait(tag: str, barrier: str, phase: str) -> str:
    """Waits for a phase of an mbarrier to end; `tag` makes the label unique. Declares no predicate: it is %done."""
    wait = f"mbarrier.try_wait.parity.shared.b64 %done, [{barrier}], {phase};"
    return f"WAIT{tag}: {wait} @!%done bra WAIT{tag};"

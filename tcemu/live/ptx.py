"""PTX as text: pieces of the kernels of one instruction and of the probes of ``tcemu measure``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tcemu.instructions.instruction import Instruction
from tcemu.instructions.targets import ptx_version
from tcemu.layouts import Fragment
from tcemu.vectors.operands import operands

#: The first PTX version that has a target (PTX ISA, Release Notes); other chips are newer.
SINCE = {
    "sm_70": "6.0", "sm_72": "6.1", "sm_75": "6.3", "sm_80": "7.0", "sm_86": "7.1", "sm_87": "7.4", "sm_89": "7.8",
    "sm_90": "7.8", "sm_90a": "8.0", "sm_100": "8.6", "sm_100a": "8.6", "sm_100f": "8.8", "sm_103a": "8.8",
    "sm_107a": "9.4", "sm_110a": "9.0", "sm_120a": "8.7", "sm_121a": "8.8",
}  # fmt: skip
_NEWEST = "9.0"

#: The name of the shared memory that the launch allocates.
SHARED = "bytes"

#: Ordering of wgmma: its fence, and its groups.
WGMMA_FENCE, WGMMA_COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"


def wgmma_wait(pending: int) -> str:
    """PTX that waits until at most that many groups of wgmma are pending."""
    return f"wgmma.wait_group.sync.aligned {pending};"


def version(instruction: Instruction, target: str) -> str:
    """The oldest PTX version that has the instruction and the target, so that old drivers accept it too."""
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
    """A module with one kernel: `entry` is its name, `parameters` their types by name, `lines` its PTX.

    `shared` gives it the launch's dynamic shared memory; `tuning` are performance directives (.maxntid).
    """
    head = f".version {ptx}\n.target {target}\n.address_size 64"
    memory = f".extern .shared .align 1024 .b8 {SHARED}[];" if shared else ""
    declared = ", ".join(f".param .{type_} {name}" for name, type_ in parameters.items())
    body = "\n".join(f"    {line}" for line in lines if line)
    return f"{head}\n{memory}\n.visible .entry {entry}({declared}) {tuning}\n{{\n{body}\n}}\n"


def register_type(fragment: Fragment) -> str:
    """The PTX type of the fragment's registers: plain bits, which fit every type of the same size."""
    return f"b{fragment.container.register_bits}"


def declared(name: str, fragment: Fragment) -> str:
    """PTX that declares a fragment's registers: name0, name1 ..."""
    return f".reg .{register_type(fragment)} %{name}<{fragment.registers}>;"


def vector(name: str, count: int) -> str:
    """The registers name0, name1 ... as one operand."""
    return braced(f"%{name}{register}" for register in range(count))


def braced(registers: Iterable[str]) -> str:
    """Registers as one operand."""
    return "{" + ", ".join(registers) + "}"


def issue(instruction: Instruction, texts: Mapping[str, str], described: bool = False) -> str:
    """The instruction with the text of each operand by role; `described`: A is in shared memory, as wgmma allows."""
    return f"{instruction} {', '.join(texts[operand.role] for operand in operands(instruction, described))};"


def parameter(name: str, then: str) -> list[str]:
    """PTX that loads parameter `name`, a pointer to global memory, into %p; `then` uses it."""
    return [f"ld.param.u64 %p, [p_{name}];", "cvta.to.global.u64 %p, %p;", then]


def try_wait(tag: str, barrier: str, phase: str) -> str:
    """PTX that waits until a phase of an mbarrier is complete; `tag` makes the label unique. It uses %done."""
    wait = f"mbarrier.try_wait.parity.shared.b64 %done, [{barrier}], {phase};"
    return f"WAIT{tag}: {wait} @!%done bra WAIT{tag};"

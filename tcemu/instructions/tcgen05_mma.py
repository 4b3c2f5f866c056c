"""tcgen05.mma: D = A B + D by one thread, in Tensor Memory (PTX ISA 9.1, 9.7.16.10), dense, sparse, block-scaled, .ws.

    tcgen05.mma.cta_group::1.kind::f16                                      [d], a, b, idesc, enable_input_d
    tcgen05.mma.sp.cta_group::2.kind::mxf4nvf4.block_scale.block16          [d], a, b, [sp_meta], idesc, [scales] ...
    tcgen05.mma.ws.cta_group::1.kind::tf32                                  [d], a, b, idesc, enable_input_d

B is described by a shared memory descriptor, A by one or by an address in Tensor Memory. Shape and types are in the
instruction descriptor (tcemu.layouts.instruction_descriptor), so the opcode has only the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from tcemu.arithmetic import find
from tcemu.arithmetic.words import in_words
from tcemu.errors import ArithmeticUnknown, listing
from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family, Refusal
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.operand import Operand
from tcemu.instructions.plain import THREAD, family
from tcemu.instructions.rows import Rows
from tcemu.instructions.targets import Target, target_named
from tcemu.instructions.tcgen05 import ALL, GROUPS, ONLY_RUBIN, RUBIN, SECTION, SPECIFIC, tells_places
from tcemu.instructions.tcgen05_product import family_of_sums
from tcemu.layouts.instruction_descriptor import KINDS

_ALL_F = "8.8", ALL[1]
#: Integers exist on architecture-specific targets of two chips.
_INTEGERS = "8.6", "sm_100a sm_110a"
_VERBS = ("fill", "use", "lastuse", "discard")
_COLLECTOR_A = ("", *(f"collector::a::{verb}" for verb in _VERBS))
_COLLECTOR_B = tuple(f"collector::b::{verb}" for verb in _VERBS)
#: Of .ws: four buffers for B.
_BUFFERS = ("", *(f"collector::b{number}::{verb}" for number in range(4) for verb in _VERBS))
#: Shifted rows are not those that a collector has kept.
_SHIFTED = ("", "collector::a::lastuse", "collector::a::discard")

# fmt: off
ROLES = {
    "d_tensor": Operand("d", "tensor address", uniform=True, about="address of D in Tensor Memory"),
    "a_matrix": Operand(
        "a", "descriptor", bits=64, described=True, uniform=True,
        about="descriptor of A in shared memory, or its address in Tensor Memory",
    ),
    "b_matrix": Operand("b", "descriptor", bits=64, uniform=True, about="descriptor of B in shared memory"),
    "sp_meta": Operand(
        "sp_meta", "tensor address", uniform=True,
        about="address of a sparse A's metadata in Tensor Memory",
    ),
    "lut": Operand("lut", "tensor address", uniform=True, about="address of the table in Tensor Memory"),
    "idesc": Operand("idesc", "value", registers=1, uniform=True, about="instruction descriptor: shape, types, signs"),
    "scale_a": Operand("scale_a", "tensor address", uniform=True, about="address of A's scales in Tensor Memory"),
    "scale_b": Operand("scale_b", "tensor address", uniform=True, about="address of B's scales in Tensor Memory"),
    "disable_output_lane": Operand(
        "disable_output_lane", "lane mask", registers=4, uniform=True,
        about="lanes of Tensor Memory that stay as they are, one bit each",
    ),
    "enable_input_d": Operand(
        "enable_input_d", "predicate", bits=1, uniform=True,
        about="whether D is added; otherwise sums start from 0",
    ),
    "scale_input_d": Operand(
        "scale_input_d", "immediate", choices=tuple(range(16)), uniform=True,
        about="D is multiplied by 2 to the power of minus this number",
    ),
    "zero_column_mask": Operand(
        "zero_column_mask", "value", registers=1, bits=64, uniform=True,
        about="which columns of B count as zero",
    ),
}
# fmt: on

# ---------------------------------------------------------------------------------------------------- the table

_MASKED = replace(THREAD, masks=True)
#: Kinds without scales: their PTX version and targets, and the facts that they share.
_KINDS: tuple[tuple[Sequence[str], tuple[str, str], Facts], ...] = (
    (("kind::f16 - -", "kind::tf32 - -"), ALL, replace(_MASKED, scales_d=True)),
    (("kind::f8f6f4 - -",), ALL, _MASKED),
    (("kind::i8 - -",), _INTEGERS, replace(_MASKED, scales_d=True)),
    (("kind::ti16 - -",), RUBIN, replace(_MASKED, scales_d=True, unsupported=ONLY_RUBIN)),
)
#: Kinds with scales: kind and size of the blocks, the gate of dense forms, that of sparse ones.
_SCALED = (
    ("kind::mxf8f6f4 block_scale -", ALL, ALL),
    ("kind::mxf8f6f4 block_scale scale_vec::1X", ("8.6", SPECIFIC), ("8.6", SPECIFIC)),
    ("kind::mxf8f6f4 block_scale block32", _ALL_F, _ALL_F),
    ("kind::mxf4 block_scale -", ALL, ("8.6", SPECIFIC)),
    ("kind::mxf4 block_scale scale_vec::2X", ("8.6", SPECIFIC), ("8.6", SPECIFIC)),
    ("kind::mxf4 block_scale block32", _ALL_F, ("8.8", SPECIFIC)),
    ("kind::mxf4nvf4 block_scale scale_vec::2X", ("8.7", SPECIFIC), ("8.7", SPECIFIC)),
    ("kind::mxf4nvf4 block_scale scale_vec::4X", ("8.7", SPECIFIC), ("8.7", SPECIFIC)),
    ("kind::mxf4nvf4 block_scale block16", _ALL_F, ("8.8", SPECIFIC)),
    ("kind::mxf4nvf4 block_scale block32", _ALL_F, ("8.8", SPECIFIC)),
)
_SPARSE = ("", "sp")
_Slots = dict[str, Iterable[str]]


def _plain() -> Iterator[Rows]:
    """Forms of the kinds without scales."""
    for kinds, gate, facts in _KINDS:
        slots: _Slots = {"sp": _SPARSE, "cta_group": GROUPS, "kind block_scale scale_vectorsize": kinds}
        yield Rows({**slots, "collector_a": _COLLECTOR_A}, *gate, facts)
        yield Rows({**slots, "ashift": ("ashift",), "collector_a": _SHIFTED}, *gate, replace(facts, shifts=True))


def _scaled() -> Iterator[Rows]:
    """Forms of the kinds with scales."""
    for kind, dense, sparse in _SCALED:
        for sp, gate in zip(_SPARSE, (dense, sparse), strict=True):
            slots: _Slots = {"sp": (sp,), "cta_group": GROUPS, "kind block_scale scale_vectorsize": (kind,)}
            yield Rows({**slots, "collector_a": _COLLECTOR_A}, *gate, THREAD)


def _on_rubin(rows: Sequence[Rows]) -> Iterator[Rows]:
    """What sm_107 adds to the forms that it has: a collector for B, and B's elements looked up in a table."""
    for row in rows:
        if not row.gate.admits(target_named("sm_107a")):
            continue
        since = "sm_107f" if row.gate.admits(target_named("sm_107f")) else "sm_107a"
        facts = replace(row.facts, unsupported=ONLY_RUBIN)
        yield Rows({**row.slots, "collector_b": _COLLECTOR_B}, "9.4", since, facts)
        kind, dense = row.words_of("kind")[0], "" in row.words_of("sp")
        if kind in ("kind::f8f6f4", "kind::mxf8f6f4") and dense and not facts.shifts:
            looked_up = {"sp": ("",), "decompress": ("decompress::lut::b",), "collector_b": ("", *_COLLECTOR_B)}
            yield Rows({**row.slots, **looked_up}, "9.4", since, replace(facts, masks=False))


_COMMITTED = "It is asynchronous: D may be read when an mbarrier says so for which tcgen05.commit was executed."
_RULES = (
    _COMMITTED,
    "Every active lane executes it: one lane, elected, must.",
    "Shape, types, transposition and signs are in the instruction descriptor; it must agree with the opcode.",
    "tcgen05.mma of one thread with the same D and shape add to D in the order of the program.",
    "Shared memory that a thread wrote with st is visible to it only after that thread's fence.proxy.async.",
    ".cta_group::2: the even block of the pair issues it for both; each has half of A's rows and of B's columns.",
    ".ashift: A is in Tensor Memory, and its rows are shifted one lane down.",
)


def _tells(instruction: Instruction, target: Target) -> Iterator[str]:
    """What its sums are for each types that the instruction descriptor can have, and how each is known."""
    kind = KINDS.get(instruction.words["kind"].removeprefix("kind::"))
    if kind is None:
        return
    family, depth = family_of_sums(instruction), kind.k
    groups: dict[tuple[str, str, str], list[str]] = {}
    for d, a in product(kind.d, kind.types):
        try:
            row = find(target.number, family, "", a, a, d, d)
        except ArithmeticUnknown:
            continue
        groups.setdefault((d, in_words(row.model, depth), f"{row.known}: {row.note}"), []).append(a)
    for (d, sums, known), types in groups.items():
        yield f"{d} from {listing(types, 'and')}: {sums} ({known})."
    yield from tells_places(instruction, target)


def _family(name: str, rest: str, section: str, rows: list[Rows], **fields: Any) -> Family:
    return family(name, name + rest, f"{SECTION}.10.9.{section}", rows, roles=ROLES, tells=_tells, **fields)


_BETWEEN = "[.decompress: lut] [.sp: sp_meta] idesc [.block_scale: scale_a scale_b]"
_FORMS = [*_plain(), *_scaled()]
MMA = _family(
    "tcgen05.mma",
    "[.{sp}].{cta_group}.{kind}[.{block_scale}][.{scale_vectorsize}][.{ashift}][.{decompress}]"
    "[.{collector_a}][.{collector_b}]",
    "1",
    [*_FORMS, *_on_rubin(_FORMS)],
    signature=f"= d_tensor a_matrix/tensor b_matrix {_BETWEEN} [masks: disable_output_lane?] enable_input_d "
    "[scales_d: scale_input_d?]",
    refusals=(
        Refusal(
            {"kind": ("kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"), "block_scale": ("",)},
            "This kind multiplies with scales: it needs .block_scale.",
        ),
        Refusal(
            {"kind": ("kind::mxf4nvf4",), "scale_vectorsize": ("",)},
            "kind::mxf4nvf4 has blocks of 16 and of 32 elements: the opcode must say which.",
        ),
    ),
    about="multiplies matrices of shared or Tensor Memory, and adds to Tensor Memory",
    rules=_RULES,
)
_WS = [
    Rows(
        {"sp": _SPARSE, "cta_group": GROUPS[:1], "kind": [each.split()[0] for each in kinds], "collector_b": _BUFFERS},
        *gate,
        replace(THREAD, unsupported=facts.unsupported),
    )
    for kinds, gate, facts in _KINDS
]
MMA_WS = _family(
    "tcgen05.mma.ws",
    "[.{sp}].{cta_group}.{kind}[.{collector_b}]",
    "3",
    _WS,
    signature="= d_tensor a_matrix/tensor b_matrix [.sp: sp_meta] idesc enable_input_d zero_column_mask?",
    about="multiplies matrices as tcgen05.mma does, with B kept in place (weight stationary)",
    rules=_RULES[:5],
)
FAMILIES = (MMA, MMA_WS)

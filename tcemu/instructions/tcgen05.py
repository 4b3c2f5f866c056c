"""Tensor Memory and what moves it: everything of tcgen05 but the products (PTX ISA 9.1, 9.7.16.7 to 9.7.16.12).

    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32         columns of Tensor Memory for the block
    tcgen05.ld.sync.aligned.32x32b.x8.b32   tcgen05.wait::ld.sync.aligned        Tensor Memory to registers
    tcgen05.cp.cta_group::1.128x256b                                             shared memory to Tensor Memory
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64        an mbarrier for what is asynchronous

tcgen05_mma.py has the products. Rows are legal where ptxas 13.5 takes them. What only sm_107 has is named and refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.operand import Operand
from tcemu.instructions.plain import THREAD, WARP, family
from tcemu.instructions.rows import Rows
from tcemu.instructions.targets import Target
from tcemu.layouts.evidence import evidence

SECTION = "9.7.16"
#: PTX version and targets: of all chips with Tensor Memory, of their architecture-specific targets, and of single ones.
ALL = "8.6", "sm_100f sm_110f"
SPECIFIC = "sm_100a sm_103a sm_107a sm_110a"
LATER = "9.4", ALL[1]
RUBIN = "9.4", "sm_107f"
ONLY_RUBIN = "only sm_107 has it, and how it works there has not been published"
GROUPS = ("cta_group::1", "cta_group::2")

#: Operands that only these families have.
ROLES = {
    "taddr": Operand("taddr", "tensor address", uniform=True, about="address in Tensor Memory"),
    # PTX writes it without brackets
    "allocated": Operand(
        "taddr",
        "value",
        registers=1,
        uniform=True,
        about="address in Tensor Memory that an allocation gave",
    ),
    "n_columns": Operand("n_columns", "value", registers=1, uniform=True, about="number of columns"),
    "half_split": Operand(
        "half_split",
        "immediate",
        uniform=True,
        about="columns from the first half of the lanes to the second",
    ),
    "s_desc": Operand("s_desc", "descriptor", bits=64, uniform=True, about="descriptor of the matrix in shared memory"),
    "result_address": Operand(
        "destination",
        "pointer",
        bits=64,
        uniform=True,
        about="where in shared memory the address of the columns is written",
    ),
    "reduced": Operand("reduced", "value", "out", registers=1, about="the smallest or largest of the registers"),
    "cta_mask_32": Operand(
        "cta_mask",
        "value",
        registers=1,
        uniform=True,
        about="which blocks of the cluster get an arrival, one bit each",
    ),
}


def tells_places(instruction: Instruction, target: Target) -> Iterator[str]:
    """How it is known where it has its elements in Tensor Memory."""
    known = evidence(instruction.family, "", target.number, "")
    yield f"Places in Tensor Memory: {known.known} ({known.note})."


def _family(name: str, rest: str, section: str, rows: list[Rows], **fields: Any) -> Family:
    return family(name, name + rest, f"{SECTION}.{section}", rows, roles=ROLES, **fields)


# ---------------------------------------------------------------------------------------------------- allocation

_ONE_WARP = "One warp allocates, and one warp frees; it need not be the same. All its lanes execute it together."
_SAME_GROUP = "All tcgen05 instructions of a kernel must have the same .cta_group."
_PAIR = ".cta_group::2: one warp of each block of the pair executes it, and both blocks must be running."


def _exclusive(slots: Mapping[str, Iterable[str]]) -> list[Rows]:
    """The forms without and with .exclusive, which came with PTX 9.4."""
    return [Rows({"exclusive": (word,), **slots}, *gate, WARP) for word, gate in (("", ALL), ("exclusive", LATER))]


ALLOC = _family(
    "tcgen05.alloc",
    "[.{exclusive}].{cta_group}.sync.aligned[.{ss}].b32",
    "7.1",
    _exclusive({"cta_group": GROUPS, "ss": ("", "shared::cta")}),
    signature="= result_address n_columns",
    about="allocates columns of Tensor Memory, and writes the address of the first to shared memory",
    rules=(
        "The number of columns is a power of two from 32 to 512, and never more than in the block's last allocation.",
        "It waits until so many columns are free. All are freed before the block ends.",
        _ONE_WARP,
        _PAIR,
        _SAME_GROUP,
    ),
)
DEALLOC = _family(
    "tcgen05.dealloc",
    "[.{exclusive}].{cta_group}.sync.aligned.b32",
    "7.1",
    _exclusive({"cta_group": GROUPS}),
    signature="= allocated n_columns",
    about="frees columns of Tensor Memory",
    rules=("The address and the number are those of an allocation.", _ONE_WARP, _PAIR, _SAME_GROUP),
)
RELINQUISH = _family(
    "tcgen05.relinquish_alloc_permit",
    ".{cta_group}.sync.aligned",
    "7.1",
    [Rows({"cta_group": GROUPS}, *ALL, WARP)],
    signature="=",
    about="gives up the block's right to allocate, so that other blocks do not wait for it",
    rules=("After it, the block allocates no more.", _SAME_GROUP),
)

# ---------------------------------------------------------------------------------------------------- registers

#: The .num of each shape for which a lane has at most 128 registers, and those of a reduction, which starts at 2.
_NUMBERS = [f"x{1 << power}" for power in range(8)]
_LD_ST = [f"{shape} {num}" for shape, most in (("32x32b", 8), ("16x64b", 8), ("16x128b", 7), ("16x256b", 6))
          for num in _NUMBERS[:most]]  # fmt: skip
_HALVES = [f"16x32bx2 {num}" for num in _NUMBERS]
_SPLIT = replace(WARP, halves=True)
_QUARTER = "A warp reaches the 32 lanes of its own quarter: those from 32 times its number modulo 4 on."
_WAIT_FOR = "It is asynchronous: {what} only after tcgen05.wait::{of}."


def _ld_st(option: str) -> list[Rows]:
    """ld or st of every shape, with and without packing."""
    packed = {option: ("", f"{option}::16b")}
    return [Rows({"shape num": words, **packed}, *ALL, facts) for words, facts in ((_LD_ST, WARP), (_HALVES, _SPLIT))]


LOAD = _family(
    "tcgen05.ld",
    ".sync.aligned.{shape}.{num}[.{pack}].b32",
    "8.3",
    _ld_st("pack"),
    signature="d_num = taddr [halves: half_split]",
    changes=False,
    tells=tells_places,
    about="loads a warp's registers from Tensor Memory",
    rules=(
        _QUARTER,
        _WAIT_FOR.format(what="its registers hold the values", of="ld"),
        ".pack::16b: each register gets the low halves of two neighbouring columns.",
        ".16x32bx2: the immediate is how many columns the second half of the lanes is further on.",
    ),
)
_REDUCED = [f"{shape} {num}" for shape in ("32x32b",) for num in _NUMBERS[1:]]
_REDUCED_HALVES = _HALVES[1:]
_OPERATIONS = {"op": ("min", "max"), "abs NaN type": ["- - f32", "abs - f32", "- NaN f32", "abs NaN f32",
                                                      "- - u32", "- - s32"]}  # fmt: skip
_REDUCED_TOGETHER = replace(
    _SPLIT, unsupported="whether the two halves of a lane's columns are reduced together has not been published"
)
LOAD_REDUCE = _family(
    "tcgen05.ld.red",
    ".sync.aligned.{shape}.{num}.{op}[.{abs}][.{NaN}].{type}",
    "8.3",
    [
        Rows({"shape num": words, **_OPERATIONS}, "8.8", "sm_103f sm_110f", facts)
        for words, facts in ((_REDUCED, WARP), (_REDUCED_HALVES, _REDUCED_TOGETHER))
    ],
    signature="d_num reduced = taddr [halves: half_split]",
    changes=False,
    tells=tells_places,
    about="loads a warp's registers from Tensor Memory, and reduces those of each lane",
    rules=(
        _QUARTER,
        _WAIT_FOR.format(what="its registers hold the values", of="ld"),
        "The second result is the smallest or largest register of the lane.",
        "Which of NaNs, and of zeros with both signs, has not been published.",
    ),
)
STORE = _family(
    "tcgen05.st",
    ".sync.aligned.{shape}.{num}[.{unpack}].b32",
    "8.4",
    _ld_st("unpack"),
    signature="= taddr [halves: half_split] a_num",
    tells=tells_places,
    about="stores a warp's registers to Tensor Memory",
    rules=(
        _QUARTER,
        _WAIT_FOR.format(what="Tensor Memory holds the values", of="st"),
        ".unpack::16b: the halves of each register go to two neighbouring columns.",
        ".16x32bx2: the immediate is how many columns the second half of the lanes is further on.",
    ),
)
WAIT = family(
    "tcgen05.wait",
    "tcgen05.{wait}.sync.aligned",
    f"{SECTION}.8.5",
    [Rows({"wait": ("wait::ld", "wait::st")}, *ALL, WARP)],
    stems=("tcgen05.wait::ld", "tcgen05.wait::st"),
    signature="=",
    about="waits until all tcgen05.ld, or all tcgen05.st, of the thread are complete",
)

# ---------------------------------------------------------------------------------------------------- Tensor Memory

_COMMITTED = "It is asynchronous: it is complete when an mbarrier says so for which tcgen05.commit was executed."
_ONE_THREAD = "Every active lane executes it: one lane, elected, must."
_COPIED = ("128x256b -", "4x256b -", "128x128b -", "64x128b warpx2::02_13", "64x128b warpx2::01_23", "32x128b warpx4")
_PADDED = replace(THREAD, unsupported="which bits .b8x16 puts where in Tensor Memory has not been published")


def _copies(formats: Sequence[str], facts: Facts) -> Rows:
    return Rows({"cta_group": GROUPS, "shape multicast": _COPIED, "dst_fmt src_fmt": formats}, *ALL, facts)


COPY = _family(
    "tcgen05.cp",
    ".{cta_group}.{shape}[.{multicast}][.{dst_fmt}][.{src_fmt}]",
    "9.2",
    [_copies([""], THREAD), _copies(["b8x16 b6x16_p32", "b8x16 b4x16_p64"], _PADDED)],
    sequence=("dst_fmt", "src_fmt"),
    signature="= taddr s_desc",
    tells=tells_places,
    about="copies a matrix from shared memory to Tensor Memory",
    rules=(
        _COMMITTED,
        _ONE_THREAD,
        ".warpx2::02_13 .warpx2::01_23: two quarters of the lanes get the same; .warpx4: all four do.",
        ".b8x16: elements of 6 or 4 bits become elements of 8 bits.",
        _SAME_GROUP,
    ),
)  # fmt: skip
SHIFT = _family(
    "tcgen05.shift",
    ".{cta_group}.down",
    "9.3",
    [Rows({"cta_group": GROUPS}, "8.6", SPECIFIC, THREAD)],
    signature="= taddr",
    unsupported="which rows it moves has not been published: the manual says all but the last, and 31 (9.7.16.2.3)",
    tells=tells_places,
    about="moves rows of 32 bytes one lane down in Tensor Memory",
    rules=("The lane of the address is a multiple of 32.", _COMMITTED, _ONE_THREAD, _SAME_GROUP),
)

# ---------------------------------------------------------------------------------------------------- order


def _commits(many: Mapping[str, Iterable[str]], gate: tuple[str, str], restricted: bool = False) -> Rows:
    words = {"sync_restrict": ("sync_restrict::shared::read::mma::a",)} if restricted else {}
    slots = {"cta_group": GROUPS, "ss": ("", "shared::cluster"), **many}
    return Rows({**slots, **words}, *gate, replace(THREAD, unsupported=ONLY_RUBIN) if gate == RUBIN else THREAD)


_ONE, _SOME = {"multicast": ("", "multicast::cluster")}, {"multicast": ("multicast::cluster::16b",)}
_WIDE = {"wide": ("multicast::cluster::32b",)}
COMMIT = _family(
    "tcgen05.commit",
    ".{cta_group}.mbarrier::arrive::one[.{sync_restrict}][.{ss}][.{multicast}][.{wide}].b64",
    "12.1",
    [
        _commits(_ONE, ALL),
        _commits(_SOME, LATER),
        _commits(_WIDE, RUBIN),
        *(_commits(many, RUBIN, restricted=True) for many in (_ONE, _SOME, _WIDE)),
    ],
    signature="= mbarrier [.multicast: cta_mask] [.wide: cta_mask_32]",
    about="makes an mbarrier arrive when all asynchronous tcgen05 instructions of the thread so far are complete",
    rules=(
        "It covers tcgen05.mma, .cp and .shift of this thread that have its .cta_group.",
        "It implies tcgen05.fence::before_thread_sync.",
        _ONE_THREAD + " 32 lanes are 32 arrivals.",
        ".multicast::cluster: the mbarrier at the same offset of every block in the mask gets one arrival.",
    ),
)
_FENCES = ("fence::before_thread_sync", "fence::after_thread_sync")
FENCE = family(
    "tcgen05.fence",
    "tcgen05.{fence}",
    f"{SECTION}.11.1",
    [Rows({"fence": _FENCES}, *ALL, THREAD)],
    stems=tuple(f"tcgen05.{word}" for word in _FENCES),
    signature="=",
    about="orders a thread's asynchronous tcgen05 instructions with those of other threads",
    rules=(
        ".fence::before_thread_sync stands before the barrier or the arrival that tells another thread.",
        ".fence::after_thread_sync stands after the wait in the thread that was told.",
    ),
)
FAMILIES = (ALLOC, DEALLOC, RELINQUISH, LOAD, LOAD_REDUCE, STORE, WAIT, COPY, SHIFT, COMMIT, FENCE)

"""Copies that run while the warps continue (PTX ISA 9.1, 9.7.9.25 to 9.7.9.27).

    cp.async.cg.shared.global                                                   a few bytes per lane, in groups
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes           a run of bytes, counted by an mbarrier
    cp.async.bulk.global.shared::cta.bulk_group                                 in the other direction, in groups
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes     a box of a tensor
    cp.reduce.async.bulk...   cp.async.bulk.prefetch...

An address in .shared::cluster below 2^24 is one in the block's own shared memory; mapa makes the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcemu.instructions.facts import Facts
from tcemu.instructions.plain import THREAD, family, one, single
from tcemu.instructions.rows import UNFLUSHED, Hints, Rows, typed

_ASYNC, _BULK, _TENSOR, _GROUPS = "9.7.9.25.3", "9.7.9.25.4", "9.7.9.27.1", "9.7.9.27.2"
_BYTES = "mbarrier::complete_tx::bytes"
#: Chips with the instructions that came with the data-centre Blackwell.
_BLACKWELL = "sm_100f sm_110f"
_CACHE_HINT: Hints = {"cache_hint": {"L2::cache_hint": ""}}
_CACHED = "[.cache_hint: cache_policy]"


#: Slots with their words.
_Slots = Mapping[str, tuple[str, ...]]


def _only(why: str) -> Facts:
    return replace(THREAD, unsupported=why)


# ---------------------------------------------------------------------------------------------------- cp.async

_PIECES = "Each lane copies 4, 8 or 16 bytes, with .cg only 16. Both addresses must be multiples of that size."
COPY = family(
    "cp.async",
    "cp.async.{cache}.{ss}.global[.{cache_hint}][.{prefetch}]",
    f"{_ASYNC}.1",
    [
        Rows(
            {"cache": ("ca", "cg"), "ss": ("shared", "shared::cta")},
            "7.0",
            "sm_80",
            THREAD,
            {
                "cache_hint": {"L2::cache_hint": "7.4 sm_80"},
                "prefetch": dict.fromkeys(("L2::64B", "L2::128B", "L2::256B"), "7.4 sm_80"),
            },
        )
    ],
    signature=f"= destination source size src_size? {_CACHED}",
    about="copies a few bytes per lane from global to shared memory, asynchronously",
    rules=(
        _PIECES,
        "Only src-size bytes of the source are read; the rest of the destination is filled with zeros.",
        "It is pending until a cp.async.wait_group or cp.async.wait_all of its thread covers it.",
    ),
)
COMMIT = single(
    "cp.async.commit_group",
    f"{_ASYNC}.2",
    one("7.0", "sm_80"),
    signature="=",
    about="commits a thread's cp.async since its last group as a new group",
    rules=("A group may be empty.",),
)
WAIT = single(
    "cp.async.wait_group",
    f"{_ASYNC}.3",
    one("7.0", "sm_80"),
    signature="= N",
    about="waits until at most N groups of a thread's cp.async are pending",
    rules=("The latest N groups may still be pending. Other threads see the copied bytes only after a barrier.",),
)
WAIT_ALL = single(
    "cp.async.wait_all",
    f"{_ASYNC}.3",
    one("7.0", "sm_80"),
    signature="=",
    about="waits until all cp.async of a thread are complete, in a group or not",
)
ARRIVE = family(
    "cp.async.mbarrier.arrive",
    "cp.async.mbarrier.arrive[.{noinc}][.{ss}].b64",
    "9.7.13.15.15",
    [
        one("7.0", "sm_80", noinc=" noinc", ss=" shared"),
        one("7.8", "sm_80", noinc=" noinc", ss="shared::cta"),
    ],
    signature="= mbarrier",
    about="arrives at an mbarrier when a thread's cp.async so far are complete",
    rules=("Without .noinc, the phase expects one more arrival for it; with .noinc, the count of init includes it.",),
)

# ---------------------------------------------------------------------------------------------------- bulk copies

_UNITS = "Size and addresses must be multiples of 16 bytes."
_COUNTED = "The mbarrier counts the bytes when they arrive; an expect_tx announces them."
_PROXY = "It sees what a thread wrote with st only after that thread's fence.proxy.async."
_FROM_GLOBAL = {"dst": ("shared::cluster",), "src": ("global",)}, {"dst": ("shared::cta",), "src": ("global",)}
_OUT = {"dst": ("global",), "src": ("shared::cta",)}
_ACROSS = {"dst": ("shared::cluster",), "src": ("shared::cta",)}
_MANY = {**_FROM_GLOBAL[0], "multicast": ("multicast::cluster",)}
BULK_LOAD = family(
    "cp.async.bulk.load",
    f"cp.async.bulk.{{dst}}.{{src}}.{_BYTES}[.{{multicast}}][.{{cache_hint}}]",
    f"{_BULK}.1",
    [
        Rows(_FROM_GLOBAL[0], "8.0", "sm_90", THREAD, _CACHE_HINT),
        Rows(_FROM_GLOBAL[1], "8.6", "sm_90", THREAD, _CACHE_HINT),
        Rows(_MANY, "8.0", "sm_90", THREAD, _CACHE_HINT),
        one("8.0", "sm_90", dst="shared::cluster", src="shared::cta"),
    ],
    stems=("cp.async.bulk",),
    signature=f"= destination source size mbarrier [.multicast: cta_mask] {_CACHED}",
    about="copies a run of bytes into shared memory; an mbarrier counts them",
    rules=(_UNITS, _COUNTED, _PROXY),
)
_LATER = "It is pending until a cp.async.bulk.wait_group of its thread covers it; for its source, .read is enough."
_MASKED = "the machine has no copy that leaves bytes out"
BULK_STORE = family(
    "cp.async.bulk.store",
    "cp.async.bulk.{dst}.{src}.bulk_group[.{cache_hint}][.{cp_mask}]",
    f"{_BULK}.1",
    [
        Rows(_OUT, "8.0", "sm_90", THREAD, _CACHE_HINT),
        Rows({**_OUT, "cp_mask": ("cp_mask",)}, "8.6", "sm_100", _only(_MASKED), _CACHE_HINT),
    ],
    stems=("cp.async.bulk",),
    distinguishing=frozenset({"bulk_group"}),
    signature=f"= destination source size {_CACHED} [.cp_mask: byte_mask]",
    about="copies a run of bytes from shared to global memory, in a group",
    rules=(_UNITS, _PROXY, _LATER),
)
BULK_COMMIT = single(
    "cp.async.bulk.commit_group",
    f"{_GROUPS}.1",
    one("8.0", "sm_90"),
    signature="=",
    about="commits a thread's bulk copies out of shared memory since its last group as a new group",
    rules=("A group may be empty. Copies whose bytes an mbarrier counts belong to no group.",),
)
BULK_WAIT = family(
    "cp.async.bulk.wait_group",
    "cp.async.bulk.wait_group[.{read}]",
    f"{_GROUPS}.2",
    [one("8.0", "sm_90", read=" read")],
    signature="= N",
    about="waits until at most N groups of a thread's bulk copies are pending",
    rules=(".read waits only until the sources have been read and may be changed.",),
)
BULK_PREFETCH = family(
    "cp.async.bulk.prefetch",
    "cp.async.bulk.prefetch.L2.{src}[.{cache_hint}]",
    f"{_BULK}.3",
    [Rows({"src": ("global",)}, "8.0", "sm_90", THREAD, _CACHE_HINT)],
    signature=f"= source size {_CACHED}",
    changes=False,
    about="brings a run of bytes into the L2 cache",
    rules=(_UNITS, "It changes no result; it only makes a later copy faster."),
)

# ---------------------------------------------------------------------------------------------------- reductions


#: "op type" for global memory, the same with .noftz, and those for another block's shared memory.
_INTO_GLOBAL = {
    "op type": [
        *typed("and or xor", "b32 b64"),
        *typed("add", "u32 s32 u64 f32 f64"),
        *typed("inc dec", "u32"),
        *typed("min max", "u32 s32 u64 s64 f16 bf16"),
    ]
}
_HALVES = {"op noftz type": ["add noftz f16", "add noftz bf16"]}
_UNFLUSHED = {"op noftz type": ["add noftz f32"]}
_INTO_SHARED = {
    "op type": [
        *typed("and or xor", "b32"),
        *typed("add min max", "u32 s32"),
        *typed("add", "u64"),
        *typed("inc dec", "u32"),
    ]
}
_ALONE = "Each element is combined atomically, with .relaxed order and .gpu scope; the copy as a whole is not atomic."
REDUCE = family(
    "cp.reduce.async.bulk",
    "cp.reduce.async.bulk.{dst}.{src}.{done}[.{cache_hint}].{op}[.{noftz}].{type}",
    f"{_BULK}.2",
    [
        Rows({**_OUT, "done": ("bulk_group",), **_INTO_GLOBAL}, "8.0", "sm_90", THREAD, _CACHE_HINT),
        Rows({**_OUT, "done": ("bulk_group",), **_HALVES}, "8.0", "sm_90", THREAD, _CACHE_HINT),
        Rows({**_OUT, "done": ("bulk_group",), **_UNFLUSHED}, "9.4", "sm_90", _only(UNFLUSHED), _CACHE_HINT),
        Rows({**_ACROSS, "done": (_BYTES,), **_INTO_SHARED}, "8.0", "sm_90", replace(THREAD, completes=True)),
    ],
    signature=f"= destination source size [completes: mbarrier] {_CACHED}",
    about="combines a run of elements in shared memory with a run in global memory, in a group",
    rules=(_UNITS, _PROXY, _ALONE, _LATER),
)

# ---------------------------------------------------------------------------------------------------- tensor copies

_DIMS = ("1d", "2d", "3d", "4d", "5d")
_DEEP, _FLAT = ("3d", "4d", "5d"), ("2d",)
_TILES, _GATHER, _SCATTER = ("", "tile"), ("tile::gather4",), ("tile::scatter4",)
_WINDOW, _WIDE, _WIDEST, _STORED = ("im2col",), ("im2col::w",), ("im2col::w::128",), ("im2col_no_offs",)
_ALONG_W = "the machine has no windows along W alone (im2col::w), which came with sm_100; with im2col they span lines"
_WINDOWS = replace(THREAD, windows=True)
_LINES = replace(_WINDOWS, unsupported=_ALONG_W)
_ROWS = "the machine has no copies of four rows at once (gather4, scatter4): copy each as a box"


def _tensor(dims: tuple[str, ...], ends: _Slots, **slots: tuple[str, ...]) -> _Slots:
    return {"dim": dims, **ends, **slots}


def _tensor_loads() -> list[Rows]:
    """Rows of copies into the cluster's shared memory, of one block or several, and into the block's own."""
    cluster, block = _FROM_GLOBAL
    many, typed = ("", "multicast::cluster"), ("cta_group::1", "cta_group::2")
    hopper, later, blackwell = ("8.6", "sm_90"), ("8.6", "sm_100"), ("8.6", _BLACKWELL)
    return [
        Rows(_tensor(dims, ends, mode=modes, **more), *since, facts, _CACHE_HINT)
        for dims, ends, modes, more, since, facts in (
            (_DIMS, cluster, _TILES, {}, ("8.0", "sm_90"), THREAD),
            (_DIMS, cluster, _TILES, {"multicast": many[1:]}, ("8.0", "sm_90"), THREAD),
            (_DEEP, cluster, _WINDOW, {"multicast": many}, ("8.0", "sm_90"), _WINDOWS),
            (_DIMS, block, _TILES, {}, hopper, THREAD),
            (_DEEP, block, _WINDOW, {}, hopper, _WINDOWS),
            (_FLAT, block, _GATHER, {}, later, _only(_ROWS)),
            (_DEEP, block, _WIDE, {}, later, _LINES),
            (_DIMS, cluster, _TILES, {"multicast": many, "group": typed}, blackwell, THREAD),
            (_DIMS, block, _TILES, {"group": typed}, blackwell, THREAD),
            (_FLAT, cluster, _GATHER, {"multicast": many, "group": ("", *typed)}, blackwell, _only(_ROWS)),
            (_FLAT, block, _GATHER, {"group": typed}, blackwell, _only(_ROWS)),
            (_DEEP, cluster, _WINDOW, {"multicast": many, "group": typed}, blackwell, _WINDOWS),
            (_DEEP, cluster, (*_WIDE, *_WIDEST), {"multicast": many, "group": ("", *typed)}, blackwell, _LINES),
            (_DEEP, block, (*_WINDOW, *_WIDE), {"group": typed}, blackwell, _WINDOWS),
            (_DEEP, block, _WIDEST, {"group": ("", *typed)}, blackwell, _LINES),
        )
    ]


_BOX = "The coordinates are those of the box's first element, innermost first. Elements outside the tensor are zero."
_PIXELS = (
    "With im2col, the copy takes pixels instead of a box, from the coordinates on, through its map's bounding box. "
    "The offsets, innermost first, are the place in the filter."
)
_WHOLE_BOX = "The mbarrier counts the bytes of the whole box, including those outside the tensor."
_MAP = "The tensor map says where the tensor is, how large the box is, and how it is swizzled in shared memory."
TENSOR_LOAD = family(
    "cp.async.bulk.tensor.load",
    f"cp.async.bulk.tensor.{{dim}}.{{dst}}.{{src}}[.{{mode}}].{_BYTES}[.{{multicast}}][.{{group}}][.{{cache_hint}}]",
    f"{_TENSOR}.2",
    _tensor_loads(),
    stems=("cp.async.bulk.tensor",),
    signature=f"= destination tensor_map coordinates mbarrier [windows: offsets] [.multicast: cta_mask] {_CACHED}",
    about="copies a box of a tensor into shared memory; an mbarrier counts the bytes",
    rules=(_MAP, _BOX, _PIXELS, _WHOLE_BOX, "The destination must be a multiple of 128 bytes."),
)
TENSOR_STORE = family(
    "cp.async.bulk.tensor.store",
    "cp.async.bulk.tensor.{dim}.{dst}.{src}[.{mode}].bulk_group[.{cache_hint}]",
    f"{_TENSOR}.2",
    [
        Rows(_tensor(_DIMS, _OUT, mode=_TILES), "8.0", "sm_90", THREAD, _CACHE_HINT),
        Rows(_tensor(_DEEP, _OUT, mode=_STORED), "8.0", "sm_90", THREAD, _CACHE_HINT),
        Rows(_tensor(_FLAT, _OUT, mode=_SCATTER), "8.6", _BLACKWELL, _only(_ROWS), _CACHE_HINT),
    ],
    stems=("cp.async.bulk.tensor",),
    distinguishing=frozenset({"bulk_group"}),
    signature=f"= tensor_map coordinates source {_CACHED}",
    about="copies a box of a tensor from shared to global memory, in a group",
    rules=(_MAP, _BOX.replace("are zero", "are not written"), _PROXY, _LATER),
)
_TYPES = (
    "The tensor map says which elements: u32, s32, u64, f32, f16 or bf16 for .add; u32, s32, u64, s64, f16 or bf16 for "
    ".min and .max; u32 for .inc and .dec; u32, s32 or u64 for .and, .or and .xor."
)
_OPERATIONS = "add", "min", "max", "inc", "dec", "and", "or", "xor"
TENSOR_REDUCE = family(
    "cp.reduce.async.bulk.tensor",
    "cp.reduce.async.bulk.tensor.{dim}.{dst}.{src}.{op}[.{mode}].bulk_group[.{cache_hint}]",
    f"{_TENSOR}.3",
    [
        Rows(_tensor(_DIMS, _OUT, op=_OPERATIONS, mode=_TILES), "8.0", "sm_90", THREAD, _CACHE_HINT),
        Rows(_tensor(_DEEP, _OUT, op=_OPERATIONS, mode=_STORED), "8.0", "sm_90", THREAD, _CACHE_HINT),
    ],
    signature=f"= tensor_map coordinates source {_CACHED}",
    about="combines a box in shared memory with a box of a tensor, in a group",
    rules=(_MAP, _TYPES, _BOX.replace("are zero", "are left alone"), _PROXY, _ALONE, _LATER),
)
TENSOR_PREFETCH = family(
    "cp.async.bulk.prefetch.tensor",
    "cp.async.bulk.prefetch.tensor.{dim}.L2.{src}[.{mode}][.{cache_hint}]",
    f"{_TENSOR}.4",
    [
        Rows(_tensor(dims, {"src": ("global",)}, mode=modes), ptx, since, facts, _CACHE_HINT)
        for dims, modes, ptx, since, facts in (
            (_DIMS, _TILES, "8.0", "sm_90", THREAD),
            (_DEEP, _WINDOW, "8.0", "sm_90", _WINDOWS),
            (_DEEP, (*_WIDE, *_WIDEST), "8.6", _BLACKWELL, _LINES),
            (_FLAT, _GATHER, "8.6", _BLACKWELL, _only(_ROWS)),
        )
    ],
    signature=f"= tensor_map coordinates [windows: offsets] {_CACHED}",
    changes=False,
    about="brings a box of a tensor into the L2 cache",
    rules=(_MAP, "It changes no result; it only makes a later copy faster."),
)
FAMILIES = (
    COPY, COMMIT, WAIT, WAIT_ALL, ARRIVE,
    BULK_LOAD, BULK_STORE, BULK_COMMIT, BULK_WAIT, BULK_PREFETCH, REDUCE,
    TENSOR_LOAD, TENSOR_STORE, TENSOR_REDUCE, TENSOR_PREFETCH,
)  # fmt: skip

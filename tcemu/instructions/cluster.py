"""Instructions for clusters, several GPUs or changing tensor maps (PTX ISA 9.1, 9.7.9).

    st.async   red.async   st.bulk   multimem.ld_reduce   multimem.st   multimem.red   tensormap.replace

The machine executes st.async and red.async in the shared memory of a cluster, and tensormap.replace. The rows of the
others say why it does not execute them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.plain import THREAD, WARP, family, one
from tcemu.instructions.rows import Hints, Rows, typed

_BYTES = "mbarrier::complete_tx::bytes"
_SEVERAL = "it needs multimem addresses, which stand for memory of several GPUs; this machine has one"


# ---------------------------------------------------------------------------------------------------- asynchronous

_WORDS, _LONGS = "b32 u32 s32 f32", "b64 u64 s64 f64"
_COMPLETES = {"ss": ("", "shared::cluster"), "done": (_BYTES,)}
_RELEASES: tuple[dict[str, Iterable[str]], ...] = (
    {"order scope": ("release gpu",)},
    {"order scope": ("release sys",), "mmio": ("", "mmio")},
)
_REMOTE = Facts(lanes=1, order="relaxed", scope="cluster", completes=True)
_FAR = Facts(lanes=1, unsupported="the machine executes it in the shared memory of a cluster only")
STORE = family(
    "st.async",
    "st.async[.{mmio}][.{order}][.{scope}][.{ss}][.{done}][.{vec}].{type}",
    "9.7.9.12",
    [
        Rows(
            {**_COMPLETES, "vec type": [*typed("- v2", f"{_WORDS} {_LONGS}"), *typed("v4", _WORDS)]},
            "8.1",
            "sm_90",
            _REMOTE,
            {"order": {"weak": ""}},
        ),
        *(
            Rows({**slots, "ss": ("", "global"), "type": f"b16 u16 {_WORDS} {_LONGS}".split()}, "8.7", "sm_100", _FAR)
            for slots in _RELEASES
        ),
    ],
    signature="= address b_value [completes: mbarrier]",
    about="stores registers in a cluster's shared memory asynchronously; an mbarrier counts the bytes",
)
_REDUCTIONS = [
    *typed("add min max", "u32 s32"),
    *typed("add", "u64 s64"),
    *typed("inc dec", "u32"),
    *typed("and or xor", "b32"),
]
REDUCE = family(
    "red.async",
    "red.async[.{mmio}].{order}.{scope}[.{ss}][.{done}].{op}.{type}",
    "9.7.13.7",
    [
        Rows({"order scope": ("relaxed cluster",), **_COMPLETES, "op type": _REDUCTIONS}, "8.1", "sm_90", _REMOTE),
        *(Rows({**slots, "ss": ("", "global"), "op type": _REDUCTIONS}, "8.7", "sm_100", _FAR) for slots in _RELEASES),
    ],
    signature="= address b_value [completes: mbarrier]",
    about="changes a cluster's shared memory atomically and asynchronously; an mbarrier counts the bytes",
)
FILL = family(
    "st.bulk",
    "st.bulk[.{order}][.{ss}]",
    "9.7.9.13",
    [Rows({"ss": ("", "shared::cta")}, "8.6", "sm_100", THREAD, {"order": {"weak": ""}})],
    signature="= address size",
    unsupported="the machine has no bulk store",
    about="fills a run of shared memory with zeros",
)

# ---------------------------------------------------------------------------------------------------- multimem

_PACKED = "f16x2 bf16x2"
_FP8 = [*typed("- v2 v4", "e4m3x4 e5m2x4"), *typed("v4 v8", "e4m3 e5m2")]
_FP8_SINCE = "8.6", "sm_100f sm_110f sm_120a sm_121a"
#: "vec type"
_HALVES = [*typed("v2 v4 v8", "f16 bf16"), *typed("v2 v4", _PACKED)]
_WORDS_AND_LONGS = typed("-", "b32 b64 u32 s32 u64 s64 f64")
_SINGLE_HALVES, _FLOATS = typed("-", _PACKED), typed("- v2 v4", "f32")


def _ops(operations: str, forms: Iterable[str]) -> list[str]:
    return [f"{operation} {form}" for operation in operations.split() for form in forms]


#: "op vec type"
_NUMBERS = [
    *_ops("and or xor", typed("-", "b32 b64")),
    *_ops("add min max", typed("-", "u32 s32 u64")),
    *_ops("min max", ["- s64"]),
    *_ops("add", ["- f64", *_FLOATS]),
    *_ops("add min max", _HALVES),
]


def _multimem(
    name: str,
    ordered: str,
    template: str,
    forms: Iterable[tuple[dict[str, list[str]], str, str]],
    *,
    weak: bool,
    **fields: Any,
) -> Family:
    """Forms without an order, and forms with an order and a scope."""
    orders: list[dict[str, list[str]]] = [
        {"order": [""]},
        {"order scope": typed(f"relaxed {ordered}", "cta cluster gpu sys")},
    ]
    spelt: Hints = {"order": {"weak": ""}} if weak else {}
    rows = [
        Rows({**order, "ss": ("", "global"), **slots}, ptx, since, THREAD, spelt if "order" in order else {})
        for order in orders
        for slots, ptx, since in forms
    ]
    start = f"{name}[.{{order}}][.{{scope}}][.{{ss}}]"
    return family(name, f"{start}{template}", "9.7.9.14", rows, unsupported=_SEVERAL, **fields)


LOAD_REDUCE = _multimem(
    "multimem.ld_reduce",
    "acquire",
    ".{op}[.{acc}][.{vec}].{type}",
    [
        ({"op vec type": [*_NUMBERS, *_ops("add min max", _SINGLE_HALVES)]}, "8.1", "sm_90"),
        ({"op acc vec type": [f"add acc::f32 {form}" for form in (*_HALVES, *_SINGLE_HALVES)]}, "8.2", "sm_90"),
        ({"op vec type": _ops("add min max", _FP8)}, *_FP8_SINCE),
        ({"op acc vec type": [f"add acc::f16 {form}" for form in _FP8]}, *_FP8_SINCE),
    ],
    weak=True,
    signature="d_value = address",
    changes=False,
    about="loads from the memory of several GPUs and combines the values",
)
STORE_ALL = _multimem(
    "multimem.st",
    "release",
    "[.{vec}].{type}",
    [
        ({"vec type": [*_WORDS_AND_LONGS, *_FLOATS, *_HALVES, *_SINGLE_HALVES]}, "8.1", "sm_90"),
        ({"vec type": _FP8}, *_FP8_SINCE),
    ],
    weak=True,
    signature="= address b_value",
    about="stores registers in the memory of several GPUs",
)
REDUCE_ALL = _multimem(
    "multimem.red",
    "release",
    ".{op}[.{vec}].{type}",
    [({"op vec type": [*_NUMBERS, *_ops("add", _SINGLE_HALVES)]}, "8.1", "sm_90")],
    weak=False,
    signature="= address b_value",
    about="changes the memory of several GPUs atomically",
)
COPY_ALL = family(
    "multimem.cp.async.bulk",
    "multimem.cp.async.bulk.global.shared::cta.{done}[.{cp_mask}]",
    "9.7.9.26",
    [one("9.1", "sm_90", done="bulk_group"), one("9.1", "sm_100", done="bulk_group", cp_mask="cp_mask")],
    signature="= destination source size [.cp_mask: byte_mask]",
    unsupported=_SEVERAL,
    about="copies a run of bytes from shared memory to that of several GPUs",
)
COPY_REDUCE_ALL = family(
    "multimem.cp.reduce.async.bulk",
    "multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}[.{noftz}].{type}",
    "9.7.9.26",
    [
        Rows(
            {
                "op type": [
                    *typed("and or xor", "b32 b64"),
                    *typed("add", "u32 s32 u64 f32 f64"),
                    *typed("inc dec", "u32"),
                    *typed("min max", "u32 s32 u64 s64 f16 bf16"),
                ]
            },
            "9.1",
            "sm_90",
            THREAD,
        ),
        Rows({"op noftz type": ["add noftz f16", "add noftz bf16"]}, "9.1", "sm_90", THREAD),
        Rows({"op noftz type": ["add noftz f32"]}, "9.4", "sm_90", THREAD),
    ],
    signature="= destination source size",
    unsupported=_SEVERAL,
    about="combines a run of elements in shared memory with those of several GPUs",
)

# ---------------------------------------------------------------------------------------------------- tensor maps

_SCALARS = "rank elemtype interleave_layout swizzle_mode fill_mode"
_LISTS = "box_dim global_dim element_stride"
_SPACES = {"mode": ("tile",), "ss": ("", "global", "shared::cta")}
_FROM_90A = "8.3", "sm_90a sm_100f sm_110f sm_120f"
_NUMBERED = Facts(lanes=1, numbered=True)
REPLACE = family(
    "tensormap.replace",
    "tensormap.replace.{mode}.{field}[.{ss}].b1024.{type}",
    "9.7.9.28",
    [
        Rows({**_SPACES, "field type": ["global_address b64", *typed(_SCALARS, "b32")]}, *_FROM_90A, THREAD),
        Rows({**_SPACES, "field type": ["global_stride b64", *typed(_LISTS, "b32")]}, *_FROM_90A, _NUMBERED),
        Rows({**_SPACES, "field type": ["swizzle_atomicity b32"]}, "8.6", "sm_100f sm_110f sm_120f", THREAD),
    ],
    signature="= tensor_map [numbered: ordinal] new_value",
    about="changes one field of a tensor map in memory",
    rules=(
        "The rank is given as the number of dimensions minus 1, a stride in bytes, and an element type by its number.",
        "It is a weak write of all 128 bytes. Tensor copies use maps in global memory only.",
    ),
)
FENCE_PROXY = family(
    "tensormap.cp_fenceproxy",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.{order}.{scope}.sync.aligned",
    "9.7.13.16",
    [one("8.3", "sm_90", WARP, order="release", scope="cta cluster gpu sys")],
    signature="= destination source size",
    about="copies a tensor map from shared to global memory and makes it visible to tensor copies",
    rules=("The size is 128. The thread that uses the map executes fence.proxy.tensormap::generic.acquire first.",),
)
FAMILIES = (
    STORE, REDUCE, FILL, LOAD_REDUCE, STORE_ALL, REDUCE_ALL, COPY_ALL, COPY_REDUCE_ALL, REPLACE, FENCE_PROXY,
)  # fmt: skip

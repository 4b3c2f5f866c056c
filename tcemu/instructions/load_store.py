"""ld and st, prefetches, and queries about addresses (PTX ISA 9.1, 9.7.9.8 to 9.7.9.24).

    ld.shared.v4.b32   ld.acquire.gpu.global.u32   ld.global.nc.L1::no_allocate.v4.f32   st.release.cta.shared.b64

The rows include what ptxas accepts beyond the manual: .v8 of 8- and 16-bit elements, everywhere.
"""

from __future__ import annotations

from dataclasses import replace

from tcemu.instructions.facts import Facts
from tcemu.instructions.plain import THREAD, Part, combined, family, one
from tcemu.instructions.rows import Hints, Rows

LOAD_SECTION, STORE_SECTION = "9.7.9.8", "9.7.9.11"

# ---------------------------------------------------------------------------------------------------- elements

_NARROW = [f"{kind}{bits}" for bits in (16, 8) for kind in "bus"]
_WORDS, _LONGS = ["b32", "u32", "s32", "f32"], ["b64", "u64", "s64", "f64"]
_SINGLE = [*_WORDS, *_LONGS, *_NARROW]
#: "vec type" of at most 16 bytes, of 128 bits in one, and of 32 bytes.
_VALUES = Part(
    {
        "vec type": [
            *(f"{vec} {type_}" for vec in ("-", "v2") for type_ in _SINGLE),
            *(f"v4 {type_}" for type_ in (*_WORDS, *_NARROW)),
            *(f"v8 {type_}" for type_ in _NARROW),
        ]
    }
)
_WIDE = Part(
    {"vec type": [*(f"v4 {type_}" for type_ in _LONGS), *(f"v8 {type_}" for type_ in _WORDS)]}, "8.8", "sm_100"
)
_B128 = Part({"vec type": ["- b128"]}, "8.3")
_B128_SYS = Part({"vec type": ["- b128"]}, "8.4")

# ---------------------------------------------------------------------------------------------------- where

_NEAR = [Part({"ss": ["", "global"]})]
_SHARED = [
    Part({"ss": ["shared"]}),
    Part({"ss": ["shared::cta"]}, "7.8"),
    Part({"ss": ["shared::cluster"]}, "7.8", "sm_90"),
]
_LOCAL = [Part({"ss": ["local"]})]
_NOT_HERE = "the machine has no {} memory: a kernel's variables are Python's"
_WEAKLY = Facts(lanes=1, order="weak")
_UNSUPPORTED = {
    space: replace(_WEAKLY, unsupported=_NOT_HERE.format(f".{space}")) for space in ("local", "const", "param")
}

# ---------------------------------------------------------------------------------------------------- hints

_EVICTIONS = dict.fromkeys(
    (f"L1::{how}" for how in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")),
    "7.4 sm_70",
)
_CACHE_HINT = {"L2::cache_hint": "7.4 sm_80"}
_SIZES: Hints = {"prefetch": {"L2::64B": "7.4 sm_75", "L2::128B": "7.4 sm_75", "L2::256B": "7.4 sm_80"}}
_L2 = dict.fromkeys(("L2::evict_normal", "L2::evict_first", "L2::evict_last"), "8.8 sm_100")
#: The spelt-out default.
_WEAK = {"order": {"weak": ""}}


def _cop(words: str) -> dict[str, str]:
    return dict.fromkeys(words.split(), "")


def _hints(cop: str, sizes: Hints, *, near: bool) -> Hints:
    """Hints of a weak access: cache operators anywhere, the rest for generic and global addresses."""
    if not near:
        return _WEAK | {"cache": _cop(cop)}
    return {**_WEAK, "cache": _cop(cop) | _EVICTIONS, "cache_hint": _CACHE_HINT, **sizes}


def _strong(sizes: Hints, *, near: bool) -> Hints:
    """Those of a relaxed, acquire or release access."""
    return {"cache": _EVICTIONS, "cache_hint": _CACHE_HINT, **sizes} if near else {}


# ---------------------------------------------------------------------------------------------------- ld and st


def _accesses(ordered: str, cop: str, sizes: Hints) -> list[Rows]:
    """Weak, volatile, and strong accesses with a scope: relaxed, and `ordered`."""
    weak, volatile = [Part({"order": [""]})], [Part({"order": ["volatile"]})]
    scoped, system, cluster = (
        Part({"order scope": [f"{order} {scope}" for scope in scopes for order in ("relaxed", ordered)]}, *since)
        for scopes, *since in ((("cta", "gpu"),), (("sys",),), (("cluster",), "7.8", "sm_90"))
    )
    rows = []
    for spaces, near in ((_NEAR, True), (_SHARED, False)):
        hints, strong = _hints(cop, sizes, near=near), _strong(sizes, near=near)
        values = [_VALUES, _B128]
        rows += combined(weak, spaces, values, facts=_WEAKLY, hints=hints)
        rows += combined(volatile, spaces, values, hints=sizes if near else {})
        rows += combined([scoped, cluster], spaces, values, hints=strong)
        rows += combined([system], spaces, [_VALUES, _B128_SYS], hints=strong)
        if near:
            rows += combined(weak, spaces, [_WIDE], facts=_WEAKLY, hints={**hints, "l2": _L2})
            rows += combined(volatile, spaces, [_WIDE], hints={**sizes, "l2": _L2})
            rows += combined([scoped, system, cluster], spaces, [_WIDE], hints={**strong, "l2": _L2})
    local, values = _UNSUPPORTED["local"], [_VALUES, _B128]
    rows += combined(weak, _LOCAL, values, facts=local, hints=_hints(cop, sizes, near=False))
    rows += combined([Part({"order": ["volatile"]}, "9.1")], _LOCAL, values, facts=local)
    single = [Part({"type": _SINGLE}), Part({"type": ["b128"]}, "8.4")]
    since = {"relaxed": "8.2", ordered: "9.3"}
    mmio = [Part({"mmio": ["mmio"], "order scope": [f"{order} sys"]}, ptx) for order, ptx in since.items()]
    return [*rows, *combined(mmio, _NEAR, single)]


def _read_only() -> list[Rows]:
    """ld.global.nc, ld.const, ld.param."""
    hints = {"cache": _cop("ca cg cs") | _EVICTIONS, "cache_hint": _CACHE_HINT, **_SIZES}
    texture = [Part({"ss": ["global"], "nc": ["nc"]})]
    rows = combined(texture, [_VALUES, _B128], facts=_WEAKLY, hints=hints)
    rows += combined(texture, [_WIDE], facts=_WEAKLY, hints={**hints, "l2": _L2})
    any_cache = _WEAK | {"cache": _cop("ca cg cs lu cv")}
    for space, *since in (("const",), ("param",), ("param::entry", "8.3")):
        facts = _UNSUPPORTED[space.partition("::")[0]]
        rows += combined([Part({"ss": [space]}, *since)], [_VALUES, _B128], facts=facts, hints=any_cache)
    return rows


_CACHED = "[.cache_hint: cache_policy]"
_ALIGNED = "An address must be a multiple of the number of bytes that a lane moves."
_WINDOWS = "Without a state space the address is generic: its value says which memory it points to."
_STRONG = (
    "Without an order the access is weak: a barrier or a fence must separate it from other threads' accesses there.",
    ".relaxed and .{} are strong and name the scope of the threads that may race with them; .volatile is .relaxed.sys.",
)
LOAD = family(
    "ld",
    "ld[.{mmio}][.{order}][.{scope}][.{ss}][.{nc}][.{cache}][.{l2}][.{cache_hint}][.{prefetch}][.{vec}].{type}",
    LOAD_SECTION,
    [*_accesses("acquire", "ca cg cs lu cv", _SIZES), *_read_only()],
    signature=f"d_value = address {_CACHED}",
    changes=False,
    about="loads registers from memory, each lane from its own address",
    rules=(
        _ALIGNED,
        _WINDOWS,
        "An element narrower than 32 bits is extended to a register: .s8 and .s16 with their sign, others with zeros.",
        _STRONG[0],
        _STRONG[1].format("acquire"),
        ".nc may read through a cache that does not see what the kernel writes: the data must be constant.",
    ),
)
STORE = family(
    "st",
    "st[.{mmio}][.{order}][.{scope}][.{ss}][.{cache}][.{l2}][.{cache_hint}][.{vec}].{type}",
    STORE_SECTION,
    _accesses("release", "cg cs wb wt", {}),
    signature=f"= address b_value {_CACHED}",
    about="stores registers to memory, each lane at its own address",
    rules=(
        _ALIGNED,
        _WINDOWS,
        "The lowest bits of a register are stored, as many as the type has.",
        _STRONG[0],
        _STRONG[1].format("release"),
    ),
)

# ---------------------------------------------------------------------------------------------------- prefetches

_LEVELS = ("L1", "L2")
PREFETCH = family(
    "prefetch",
    "prefetch[.{ss}].{level}",
    "9.7.9.15",
    [
        Rows({"ss": ("", "global"), "level": _LEVELS}, "6.0", "sm_70", THREAD),
        Rows({"ss": ("", "global"), "level": ("L2::evict_last", "L2::evict_normal")}, "7.4", "sm_80", THREAD),
        Rows({"ss": ("local",), "level": _LEVELS}, "6.0", "sm_70", _UNSUPPORTED["local"]),
    ],
    signature="= address",
    changes=False,
    about="brings a line of memory into a cache",
    rules=("It changes no result; it only makes a later access faster.",),
)
PREFETCH_MAP = family(
    "prefetch.tensormap",
    "prefetch[.{ss}].tensormap",
    "9.7.9.15",
    [one("8.0", "sm_90", ss=" const param")],
    stems=("prefetch.tensormap", "prefetch.const.tensormap", "prefetch.param.tensormap"),
    signature="= tensor_map",
    changes=False,
    about="brings a tensor map into the cache from which tensor copies read it",
    rules=("It changes no result; it only makes the first copy with this map start sooner.",),
)
PREFETCH_UNIFORM = family(
    "prefetchu",
    "prefetchu.L1",
    "9.7.9.15",
    [one()],
    signature="= address",
    changes=False,
    about="brings a line of memory into the uniform cache",
)

# ---------------------------------------------------------------------------------------------------- addresses

_POINTERS = "the machine's kernels compute addresses in Python: {}"
_TO_GENERIC = _POINTERS.format("warp.generic makes a generic address from a shared one")
_ANYWHERE = [
    one(ss="global shared local const"),
    one("7.7", ss="param"),
    one("7.8", ss="shared::cta"),
    one("7.8", "sm_90", ss="shared::cluster"),
    one("8.3", ss="param::entry"),
]
CONVERT = family(
    "cvta",
    "cvta[.{to}].{ss}.{type}",
    "9.7.9.20",
    [Rows({"to": ("", "to"), "type": ("u32", "u64"), **row.slots}, row.ptx, row.since, THREAD) for row in _ANYWHERE],
    signature="d_value = a_value",
    changes=False,
    unsupported=_TO_GENERIC,
    about="converts an address in a state space to a generic one or, with .to, the reverse",
)
IS_SPACE = family(
    "isspacep",
    "isspacep.{ss}",
    "9.7.9.19",
    _ANYWHERE,
    signature="predicate_out = address",
    changes=False,
    unsupported=_POINTERS.format("they know which space an address is in"),
    about="tests whether a generic address lies in a state space",
)
MAP_ADDRESS = family(
    "mapa",
    "mapa[.{ss}].{type}",
    "9.7.9.23",
    [one("7.8", "sm_90", ss=" shared::cluster", type="u32 u64")],
    signature="d_value = a_value cta",
    changes=False,
    about="maps an address in shared memory to the same place in another block of the cluster",
)
GET_RANK = family(
    "getctarank",
    "getctarank[.{ss}].{type}",
    "9.7.9.24",
    [one("7.8", "sm_90", Facts(lanes=1, answers="value"), ss=" shared::cluster", type="u32 u64")],
    signature="d_answer = address",
    changes=False,
    about="returns the rank of the block whose shared memory an address is in",
)

FAMILIES = (LOAD, STORE, PREFETCH, PREFETCH_MAP, PREFETCH_UNIFORM, CONVERT, IS_SPACE, MAP_ADDRESS, GET_RANK)

"""atom and red: atomic operations on memory (PTX ISA 9.1, 9.7.13.5 and 9.7.13.6).

    atom.shared.add.u32   atom.acquire.gpu.global.cas.b32   red.release.gpu.global.add.u32   red.global.add.v4.f32

The table has operation, type and bits; the machine knows what an operation computes.
"""

from __future__ import annotations

from dataclasses import replace

from tcemu.instructions.facts import Facts
from tcemu.instructions.plain import Part, combined, family
from tcemu.instructions.rows import UNFLUSHED, Hints, Rows, typed

ATOM_SECTION, RED_SECTION = "9.7.13.5", "9.7.13.6"

#: By default, the order is .relaxed and the scope .gpu.
_FACTS = Facts(lanes=1, order="relaxed", scope="gpu")
_SWAPS = replace(_FACTS, swaps=True)


#: "op type" of the forms that red has too.
_REDUCTIONS = [
    *typed("and or xor", "b32 b64"),
    *typed("add", "u32 s32 u64 f32 f64"),
    *typed("inc dec", "u32"),
    *typed("min max", "u32 s32 u64 s64"),
]
#: "op noftz type"
_PAIRS = Part({"op noftz type": ["add noftz f16x2"]}, "6.2")
_HALVES = Part({"op noftz type": ["add noftz f16"]}, "6.3")
_BRAINS = Part({"op noftz type": ["add noftz bf16", "add noftz bf16x2"]}, "7.8", "sm_90")
_EXCHANGES, _SWAP = Part({"op type": typed("exch", "b32 b64")}), Part({"op type": typed("cas", "b32 b64")})
_SWAP_16 = Part({"op type": ["cas b16"]}, "6.3")
#: New in PTX ISA 9.4.
_UNFLUSHED = Part({"op noftz type": ["add noftz f32"]}, "9.4", "sm_90")
_UNFLUSHED_VECTORS = Part({"op noftz vec type": ["add noftz v2 f32", "add noftz v4 f32"]}, "9.4", "sm_90")
_NOT_YET = replace(_FACTS, unsupported=UNFLUSHED)
#: "op noftz vec type"
_VECTORS = Part(
    {
        "op noftz vec type": [
            "add - v2 f32",
            "add - v4 f32",
            *(f"{op} noftz {vec} {type_}" for op in ("add", "min", "max") for vec, types in (
                ("v2", "f16 bf16 f16x2 bf16x2"), ("v4", "f16 bf16 f16x2 bf16x2"), ("v8", "f16 bf16")
            ) for type_ in types.split()),
        ]
    },
    "8.1",
    "sm_90",
)  # fmt: skip
_NEAR = [Part({"ss": ["", "global"]})]
_SHARED = [
    Part({"ss": ["shared"]}),
    Part({"ss": ["shared::cta"]}, "7.8"),
    Part({"ss": ["shared::cluster"]}, "7.8", "sm_90"),
]
#: Not for shared memory, nor for .cas, for which ptxas rejects it.
_CACHE_HINT: Hints = {"cache_hint": {"L2::cache_hint": "7.4 sm_80"}}


def _rows(orders: str, swaps: bool) -> list[Rows]:
    order = [Part({"order": ["", *orders.split()]})]
    system, cluster = Part({"scope": ["sys"]}), Part({"scope": ["cluster"]}, "7.8", "sm_90")
    scopes = [Part({"scope": ["", "cta", "gpu"]}), system, cluster]
    scalars = [Part({"op type": _REDUCTIONS}), _PAIRS, _HALVES, _BRAINS]
    scalars += [_EXCHANGES] if swaps else []
    rows = []
    for spaces, hints in ((_NEAR, _CACHE_HINT), (_SHARED, {})):
        rows += combined(order, scopes, spaces, scalars, facts=_FACTS, hints=hints)
        rows += combined(order, scopes, spaces, [_UNFLUSHED], facts=_NOT_YET, hints=hints)
        if swaps:
            rows += combined(order, scopes, spaces, [_SWAP, _SWAP_16], facts=_SWAPS)
            for facts, operation, hinted in ((_FACTS, "exch b128", hints), (_SWAPS, "cas b128", {})):
                wide, widest = (Part({"op type": [operation]}, ptx, "sm_90") for ptx in ("8.3", "8.4"))
                rows += combined(order, [scopes[0], cluster], spaces, [wide], facts=facts, hints=hinted)
                rows += combined(order, [system], spaces, [widest], facts=facts, hints=hinted)
    rows += combined(order, scopes, _NEAR, [_VECTORS], facts=_FACTS, hints=_CACHE_HINT)
    return [*rows, *combined(order, scopes, _NEAR, [_UNFLUSHED_VECTORS], facts=_NOT_YET, hints=_CACHE_HINT)]


_TEMPLATE = "[.{order}][.{scope}][.{ss}].{op}[.{noftz}][.{cache_hint}][.{vec}].{type}"
_RULES = (
    "An address must be a multiple of the size of the type in bytes.",
    "Lanes with the same address take turns, in no particular order.",
    "The default order is .relaxed, the default scope .gpu: it is atomic only for the threads of its scope.",
    "Float sums are rounded to nearest even; .add.f32 flushes subnormals to zero in global but not in shared memory.",
)
ATOM = family(
    "atom",
    f"atom{_TEMPLATE}",
    ATOM_SECTION,
    _rows("relaxed acquire release acq_rel", swaps=True),
    signature="d_value = address b_value [swaps: c_value] [.cache_hint: cache_policy]",
    changes=False,  # the machine itself reports whether memory changed
    about="changes memory atomically and returns the old value",
    rules=(*_RULES, ".cas stores c where memory equals b; .exch stores b."),
)
RED = family(
    "red",
    f"red{_TEMPLATE}",
    RED_SECTION,
    _rows("relaxed release", swaps=False),
    signature="= address b_value [.cache_hint: cache_policy]",
    about="changes memory atomically and returns nothing",
    rules=_RULES,
)
FAMILIES = (ATOM, RED)

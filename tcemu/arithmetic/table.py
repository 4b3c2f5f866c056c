"""THE TABLE of arithmetic: for each architecture, family, shape and operand types, the model and how it is known.

`known` is one of
    silicon             read off hardware by this project's recordings, all classes of inputs, 0 differences
    published silicon   equal to GPU outputs that others published (values near 1: they prove sums and roundings, not
    edges)
    paper               what a published model or measurement says; not compared with outputs of hardware here
    inferred            concluded from a related chip; not measured by anybody, as far as we know

Published outputs come from Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv 2512.07004). For f16,
bf16 and tf32 they were made with wmma, which the assembler turns into the HMMA instructions of mma.sync. The papers are
that one, Fasi et al. 2021 (PeerJ CS 7:e330) and MMA-Sim 2.1.1 (Microsoft; arXiv 2511.10909), whose authors compare
their models with GPUs on random bits. tests/arithmetic/peers/ has the answers of such models; the table agrees bit for
bit. "SASS" in a note means that we read what ptxas 12.9 emits.

`unseen` names the parts of a model that no recorded output confirms: if such a part were slightly different, the tests
that replay recordings would still pass. tests/arithmetic/mutants.py checks this against all recordings. An inferred
row has no recordings, and names no parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any, Literal, get_args

from tcemu.arithmetic.model import ADDEND, BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.errors import ArithmeticUnknown, TableError, listing

Known = Literal["silicon", "published silicon", "paper", "inferred"]

#: The parts of a model that may rest on a row's statement alone, by field (and rounding, which is not a field).
UNSEEN = {
    "fraction": "the fraction bits", "block": "the number of products in a sum", "order": "the order of k",
    "rounding": "the rounding of sums", "floor": "the floor", "through": "the conversion of fp8 subnormals",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One row: where it holds (sets of words), the model, and how it is known.

    >>> from tcemu.arithmetic import find
    >>> row = find(90, "mma", "m16n8k16", "f16", "f16", "f32", "f32")
    >>> row.covers(90, "mma", "f16", "f16", "f32", "f32"), row.overlaps(row), row.known
    (True, True, 'silicon')
    """

    architectures: frozenset[int]
    families: frozenset[str]
    a: frozenset[str]
    b: frozenset[str]
    d: frozenset[str]
    model: Model
    known: Known
    #: Shapes such as "m8n8k4"; empty: every shape that no other row of these types claims by name.
    shapes: frozenset[str] = frozenset()
    #: What was compared, or who says it.
    statement: str = ""
    #: Types of C; empty: whatever the instruction takes.
    c: frozenset[str] = frozenset()
    #: What no recorded output confirms, so that it rests on the statement alone: keys of UNSEEN.
    unseen: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.known not in get_args(Known):
            raise TableError(f"how is {self} known? It must be {listing(get_args(Known))}")
        if not self.unseen <= set(UNSEEN) or (self.unseen and not self.statement):
            raise TableError(f"what does no recording of {self} confirm ({listing(UNSEEN)}), and who says so?")

    @property
    def note(self) -> str:
        """The statement, and what rests on it alone."""
        unseen = [words for name, words in UNSEEN.items() if name in self.unseen]
        alone = f". No recorded output confirms {listing(unseen)}: that rests on the statement alone" if unseen else ""
        return f"{self.statement}{alone}"

    def covers(self, architecture: int, family: str, a: str, b: str, c: str, d: str) -> bool:
        """Whether the row covers these words, whatever the shape."""
        where = architecture in self.architectures and family in self.families
        return where and a in self.a and b in self.b and d in self.d and (not self.c or c in self.c)

    def overlaps(self, other: Row) -> bool:
        """Whether one instruction could fall under both rows."""
        if self.architectures.isdisjoint(other.architectures) or self.families.isdisjoint(other.families):
            return False
        shapes = bool(self.shapes & other.shapes) if self.shapes and other.shapes else self.shapes == other.shapes
        addends = not self.c or not other.c or bool(self.c & other.c)
        return shapes and addends and bool(self.a & other.a and self.b & other.b and self.d & other.d)


VOLTA, TURING, AMPERE, ADA, HOPPER = (70, 72), (75,), (80, 86, 87), (89,), (90,)
BLACKWELL, RTX_BLACKWELL = (100, 103, 107, 110), (120, 121)
ALL = VOLTA + TURING + AMPERE + ADA + HOPPER + BLACKWELL + RTX_BLACKWELL

FP8 = "e4m3 e5m2"
FP8_TO_FP4 = "e4m3 e5m2 e3m2 e2m3 e2m1"


def _row(
    architectures: tuple[int, ...],
    a: str,
    d: str,
    model: Model,
    known: Known,
    shapes: str = "",
    note: str = "",
    b: str = "",
    c: str = "",
    unseen: str = "",
) -> Row:
    left, right, result, addend = (frozenset(text.split()) for text in (a, b or a, d, c))
    chips, named = frozenset(architectures), frozenset(shapes.split())
    missing = frozenset(unseen.split())
    return Row(chips, frozenset({"mma"}), left, right, result, model, known, named, note, addend, missing)


def _floating(
    architectures: tuple[int, ...], a: str, fraction: int, block: int | None, known: Known, **more: str
) -> list[Row]:
    """Rows of ordinary fused sums into f32 and, for f16, into f16: their floors keep fraction + floor constant."""
    wide = FusedSums(fraction, block, None if fraction == 23 else -108 - fraction)
    rows = [_row(architectures, a, "f32", wide, known, **more)]
    if "f16" in a.split():
        rows.append(_row(architectures, "f16", "f16", FusedSums(fraction, block, 4 - fraction), known, **more))
    return rows


def _volta(architectures: tuple[int, ...], known: Known, shapes: str, note: str, floor: str) -> list[Row]:
    """Rows of HMMA.884, which is m8n8k4 on sm_70 and sm_75. It takes an f16 c for an f32 d without widening it."""
    wide, half = FusedSums(23, 4, None), FusedSums(23, 4, -19)
    as_it_is = "MMA-Sim 2.1.1: an f16 c is not widened. SASS: HMMA.884.F32.F16 and no conversion"
    return [
        _row(architectures, "f16", "f32", wide, known, shapes, note, c="f32"),
        _row(architectures, "f16", "f32", replace(wide, widen=False), "paper", shapes, as_it_is, c="f16"),
        _row(architectures, "f16", "f16", half, known, shapes, f"{note}. {floor}"),
    ]


# m8n8k4 of f16 is a routine of ordinary f32 operations from sm_80 on, and another one when D is f16.
_M8N8K4_F32 = FmaGroups(groups=((0, 1, 2, 3),), order=(0, ADDEND), from_zero=True)
_M8N8K4_F16 = FmaGroups(groups=((0, 1), (2, 3)), order=(0, ADDEND, 1), from_zero=False)


def _lowered(architectures: tuple[int, ...], known: Known, note: str, unseen: dict[str, str]) -> list[Row]:
    """fp8 mma.sync as two f16 multiplies chained from zero, c added last; `unseen` by the type of D."""
    return [
        _row(
            architectures,
            FP8,
            d,
            FusedSums(25, None, floor, order="pairs", addend="last", through="f16"),
            known,
            note=note,
            unseen=unseen[d],
        )
        for d, floor in (("f32", -133), ("f16", -21))
    ]


_LIKE_HOPPER = "SASS: the FFMA, FMUL and FADD of sm_90's routine, in its order; outputs not compared"
_FLOORS = "Floors and chains of sums: MMA-Sim 2.1.1, Khattak and Mikaitis"
_OTHER_NAN = "MMA-Sim 2.1.1; NaN payloads as on sm_90, inferred and not compared"
_QMMA = "MMA-Sim 2.1.1, every pair of types"
_F2FP = "H200; two f16 multiplies from zero, then c. SASS: F2FP, HMMA"
_TWO_HMMA = "B200; other chips and kind::f8f6f4 inferred. SASS: the instructions of sm_90, one by one"
_EXACT = "exact: the manual leaves no choice"
_NOT_HOPPER = tuple(x for x in ALL if x not in HOPPER)

_MMA: tuple[Row, ...] = (
    # ---- f16, bf16, tf32
    *_volta(VOLTA, "published silicon", "", "V100", _FLOORS),
    *_floating(TURING, "f16", 24, 8, "paper", note="MMA-Sim 2.1.1; Fasi et al. read sums of 4 off a T4"),
    *_volta(TURING, "paper", "m8n8k4", "MMA-Sim 2.1.1: as on sm_70. SASS: HMMA.884", "Floor likewise"),
    *_floating(AMPERE, "f16 bf16", 24, 8, "published silicon", note=f"A100, A2. {_FLOORS}"),
    *_floating(AMPERE, "tf32", 24, 4, "published silicon", note=f"A100, A2. {_FLOORS}"),
    *_floating(ADA, "f16 bf16", 24, 8, "published silicon", note=f"RTX 1000 Ada, L40S. {_FLOORS}"),
    *_floating(ADA, "tf32", 24, 4, "published silicon", note=f"RTX 1000 Ada, L40S. {_FLOORS}"),
    *_floating(HOPPER, "f16 bf16", 25, 16, "silicon", note="H200"),
    *_floating(HOPPER, "tf32", 25, 8, "silicon", note="H200"),
    *_floating(BLACKWELL, "f16 bf16", 25, 16, "published silicon", note=f"B200; other chips inferred. {_FLOORS}"),
    *_floating(
        BLACKWELL, "tf32", 25, 8, "published silicon", note=f"B200, 4 products; other chips inferred. {_FLOORS}"
    ),
    *_floating(RTX_BLACKWELL, "f16 bf16", 25, 16, "paper", note="MMA-Sim 2.1.1, floors too"),
    *_floating(RTX_BLACKWELL, "tf32", 25, 8, "paper", note="MMA-Sim 2.1.1, floor too"),
    _row(HOPPER, "f16", "f32", _M8N8K4_F32, "silicon", "m8n8k4", "H200; four chained f32 operations, then c"),
    _row(HOPPER, "f16", "f16", _M8N8K4_F16, "silicon", "m8n8k4", "H200; ((k0 + k1) + c) + (k2 + k3) in f32"),
    _row(AMPERE + ADA + BLACKWELL + RTX_BLACKWELL, "f16", "f32", _M8N8K4_F32, "inferred", "m8n8k4", _LIKE_HOPPER),
    _row(AMPERE + ADA + BLACKWELL + RTX_BLACKWELL, "f16", "f16", _M8N8K4_F16, "inferred", "m8n8k4", _LIKE_HOPPER),
    # ---- fp8, fp6, fp4
    _row(ADA, FP8, "f32", FusedSums(13, 16, None, keep=13), "published silicon", note="RTX 1000 Ada, L40S; 13 bits"),
    _row(ADA, FP8, "f16", FusedSums(13, 16, None), "published silicon", note="RTX 1000 Ada, L40S; 13 bits"),
    *_lowered(HOPPER, "silicon", _F2FP, {"f32": "", "f16": "through"}),
    *_lowered(
        BLACKWELL,
        "published silicon",
        _TWO_HMMA,
        {"f32": "fraction block order rounding through", "f16": "fraction through"},
    ),
    _row(RTX_BLACKWELL, FP8_TO_FP4, "f32", FusedSums(25, 32, -133), "paper", note=_QMMA),
    _row(RTX_BLACKWELL, FP8_TO_FP4, "f16", FusedSums(25, 32, -21), "paper", note=_QMMA),
    # ---- f64, integers, bits
    _row(HOPPER, "f64", "f64", FmaChain(), "silicon", note="H200"),
    _row(AMPERE + ADA + BLACKWELL + RTX_BLACKWELL, "f64", "f64", FmaChain(), "paper", note=_OTHER_NAN),
    _row(HOPPER, "s8 u8 s4 u4", "s32", IntegerDot(), "silicon", note="H200"),
    _row(_NOT_HOPPER, "s8 u8 s4 u4", "s32", IntegerDot(), "inferred", note=_EXACT),
    _row(HOPPER, "b1", "s32", BitDot(), "silicon", note="H200"),
    _row(_NOT_HOPPER, "b1", "s32", BitDot(), "inferred", note=_EXACT),
)


def _as(family: str, row: Row, **changes: Any) -> Row:
    """The row for another family; what was not recorded there is inferred from mma.sync."""
    if row.known != "silicon":
        statement = f"as mma.sync: {row.statement}" if row.statement else "as mma.sync"
        row = replace(row, known="inferred", statement=statement, unseen=frozenset())
    return replace(row, families=frozenset({family}), **changes)


def _wmma(rows: tuple[Row, ...]) -> Iterator[Row]:
    """wmma is mma in disguise, except for tf32 from sm_90 on and for an f16 result of an f32 addend."""
    for row in rows:
        if row.shapes or not row.a <= {"f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "b1"}:
            continue
        model = row.model
        if isinstance(model, FusedSums) and row.a == {"tf32"}:
            pairs = row if model.block == 4 else replace(row, statement=f"SASS: two sums of 4. {row.statement}")
            yield _as("wmma.mma", pairs, **_published(pairs, 4), model=replace(model, block=4))
        elif isinstance(model, FusedSums) and row.d == {"f16"}:
            yield _as("wmma.mma", row, c=frozenset({"f16"}), **_published(row, model.block))
        else:
            yield _as("wmma.mma", row, **_published(row, getattr(model, "block", None)))
        if isinstance(model, FusedSums) and "f16" in row.a and row.d == {"f32"} and model.widen:
            yield _as("wmma.mma", row, **_F16, model=replace(model, via="f32"))


def _published(row: Row, block: int | None) -> dict[str, Any]:
    """Published outputs of f16, bf16 and tf32 come from wmma itself.

    They are single sums of values near 1. They show neither floors nor how sums are chained nor, if rounded to f16, the
    fraction bits.
    """
    if row.known != "published silicon" or not isinstance(row.model, FusedSums):
        return {}
    hidden = {"floor": row.model.floor is not None, "block": block != 16, "fraction": row.d == {"f16"}}
    unseen = frozenset(name for name, missing in hidden.items() if missing)
    return {"known": row.known, "statement": f"{row.statement}. SASS: the HMMA of mma.sync", "unseen": unseen}


_F16: dict[str, Any] = {
    "a": frozenset({"f16"}),
    "b": frozenset({"f16"}),
    "d": frozenset({"f16"}),
    "c": frozenset({"f32"}),
}


def _sparse(rows: tuple[Row, ...]) -> Iterator[Row]:
    """mma.sp sums the products of the stored elements as mma.sync sums all of them; pruned elements take no part.

    sm_80 is the first to have it. Only kind::f8f6f4 has f16 results of fp8.
    """
    for row in rows:
        lowered = isinstance(row.model, FusedSums) and row.model.through is not None
        halved = row.a == set(FP8.split()) and row.d == {"f16"}
        if not row.shapes and not row.a & {"f64", "b1"} and not halved and max(row.architectures) >= AMPERE[0]:
            unseen = {"unseen": frozenset({"through"})} if lowered and row.known == "silicon" else {}
            yield _as("mma.sp", row, **unseen)


def _block_scaled() -> Iterator[Row]:
    """Blackwell's scaled forms, dense and sparse; no recording of them exists."""
    by_product = ScaledSums(25, 32, 1, -133)
    by_group = ScaledSums(35, 64, 16, -139)
    dense, sparse, stored = "mma.block_scale", "mma.block_scale.sp", "as the dense form, over the stored products"
    table: tuple[tuple[str, str, str, ScaledSums, Known, str], ...] = (
        (dense, "m16n8k32", FP8_TO_FP4, by_product, "paper", "MMA-Sim 2.1.1, every pair of types, the floor too"),
        (dense, "m16n8k64", "e2m1", by_group, "paper", "MMA-Sim 2.1.1, groups that cancel, the floor, infinite c too"),
        (sparse, "m16n8k64", FP8_TO_FP4, by_product, "inferred", stored),
        (sparse, "m16n8k128", "e2m1", by_group, "inferred", stored),
    )
    for family, shapes, types, model, known, note in table:
        yield replace(_row(RTX_BLACKWELL, types, "f32", model, known, shapes, note), families=frozenset({family}))


def _wgmma() -> Iterator[Row]:
    """wgmma on Hopper, dense and sparse; its fp8 is native and keeps 13 bits."""
    for row in (
        *_floating(HOPPER, "f16 bf16", 25, 16, "silicon", note="H200"),
        *_floating(HOPPER, "tf32", 25, 8, "silicon", note="H200"),
        _row(HOPPER, FP8, "f32", FusedSums(13, 32, None, keep=13), "silicon", note="H200; 13 bits"),
        _row(HOPPER, FP8, "f16", FusedSums(13, 32, None), "silicon", note="H200; 13 bits"),
        _row(HOPPER, "s8 u8", "s32", IntegerDot(), "silicon", note="H200"),
        _row(HOPPER, "b1", "s32", BitDot(), "silicon", note="H200"),
    ):
        yield replace(row, families=frozenset({"wgmma"}))


def _tcgen05() -> Iterator[Row]:
    """tcgen05.mma: one instruction is one sum, whose model is that of MMA-Sim for kinds with and without scales.

    No outputs of a B200 are published, so nothing here is better than a paper. sm_103 and sm_110 are inferred from
    sm_100, forms with .sp and .ws from the dense ones; K = 96 is longer than a sum of mxf4, and is inferred too.
    """
    dense, pair = "MMA-Sim 2.1.1, whose authors compared it with a B200, floors too", "a pair of blocks inferred"
    said = f"{dense}; {pair}"
    plain: tuple[tuple[str, str, Model], ...] = (
        ("f16", "f32", FusedSums(25, 16, -133)),
        ("bf16", "f32", FusedSums(25, 16, -133)),
        ("f16", "f16", FusedSums(25, 16, -21)),
        ("tf32", "f32", FusedSums(25, 8, -133)),
        (FP8_TO_FP4, "f32", FusedSums(25, 32, -133)),
        (FP8_TO_FP4, "f16", FusedSums(25, 32, -21)),
        ("s8 u8", "s32", IntegerDot()),
    )
    scaled: tuple[tuple[str, str, Model], ...] = (
        ("tcgen05.mma.mxf8f6f4", FP8_TO_FP4, ScaledSums(25, 32, 1, -133)),
        ("tcgen05.mma.mxf4", "e2m1", ScaledSums(35, 64, 16, -139)),
    )
    forms = [("tcgen05.mma", types, d, model) for types, d, model in plain]
    forms += [(name, types, "f32", model) for name, types, model in scaled]
    for name, types, d, model in forms:
        exact = isinstance(model, IntegerDot)
        own: tuple[str, Known] = (_EXACT, "inferred") if exact else (said, "paper")
        others = _EXACT if exact else f"as sm_100: {said}"
        row = _row(BLACKWELL[:1], types, d, model, own[1], note=own[0])
        yield replace(row, families=frozenset({name}))
        for chips, suffixes in ((BLACKWELL[:1], (".sp", ".ws", ".ws.sp")), ((103, 110), ("", ".sp", ".ws", ".ws.sp"))):
            families = frozenset(f"{name}{suffix}" for suffix in suffixes)
            note = f"as the dense form: {said}" if chips == BLACKWELL[:1] and not exact else others
            yield replace(_row(chips, types, d, model, "inferred", note=note), families=families)


ROWS: tuple[Row, ...] = (*_MMA, *_wmma(_MMA), *_sparse(_MMA), *_block_scaled(), *_wgmma(), *_tcgen05())

_CLASHES = [(one, two) for one, two in combinations(ROWS, 2) if one.overlaps(two)]
if _CLASHES:
    raise TableError(f"two rows cover the same instruction: {_CLASHES[0]}")


@cache
def find(architecture: int, family: str, shape: str, a: str, b: str, c: str, d: str) -> Row:
    """The row for an instruction; one that names the shape wins.

    For example (90, "mma", "m16n8k16", "f16", "f16", "f32", "f32"). Raises ArithmeticUnknown if no row covers it.

    >>> from tcemu.arithmetic import find
    >>> find(80, "mma", "m16n8k16", "f16", "f16", "f32", "f32").model.fraction  # bits kept behind the binary point
    24
    >>> find(90, "mma", "m16n8k16", "f16", "f16", "f32", "f32").model.fraction
    25
    """
    rows = [row for row in ROWS if row.covers(architecture, family, a, b, c, d)]
    named = [row for row in rows if shape in row.shapes] or [row for row in rows if not row.shapes]
    if named:
        return named[0]
    elsewhere = sorted({arch for row in ROWS if a in row.a and b in row.b and d in row.d for arch in row.architectures})
    where = (
        f"it is known for {listing([f'sm_{arch}' for arch in elsewhere], 'and')}"
        if elsewhere
        else "nor is it known for any other target"
    )
    raise ArithmeticUnknown(
        f"it is not known how sm_{architecture} computes {family} {shape} {a} x {b} into {d}; {where}"
    )

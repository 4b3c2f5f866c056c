"""How fast the forms of a tensor-core instruction are: multiply-adds a clock of one SM, from the measured costs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod

from tcemu.arguments import explained
from tcemu.errors import TargetError, briefly
from tcemu.instructions import Instruction, parse
from tcemu.show.table import Table
from tcemu.timing.costs import CostTable, costs

#: What is shown unless it is asked otherwise: the same types from the slowest form to the fastest, and fp8.
_FORMS = (
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3",
)


@explained
def speed_table(instructions: Iterable[Instruction | str] = _FORMS, target: str = "sm_90a") -> Table:
    """One row for each form: its multiply-adds, its cycles, how many a clock, and the share of what wgmma does.

    The cycles are the measured interval of one warp (of wgmma: one warpgroup), and that of the SM when sixteen warps
    execute the form. The share refers to the largest wgmma with the same type of A, which reaches the peak.

    >>> table = tcemu.show.speed_table(["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"])
    >>> table.rows[0][1:]
    ('2048', '6', '1339', '65 %')
    """
    if isinstance(instructions, str | Instruction) or not isinstance(instructions, Iterable):
        raise TargetError(f"instructions must be a list of opcodes; got {briefly(instructions)}")
    table = costs(target)
    forms = [parse(each) for each in instructions]
    peaks = _peaks(table)
    columns = ("instruction", "multiply-adds", "cycles, one warp", "multiply-adds a clock", "share of wgmma's")
    rows = tuple(_row(table, form, peaks) for form in forms)
    return Table(f"Speed on one SM of {target}, measured on an {table.provenance['gpu']}", columns, rows)


def _row(table: CostTable, form: Instruction, peaks: Mapping[str, float]) -> tuple[str, ...]:
    rate = _rate(table, form)
    alone = {"a": "shared"} if _asynchronous(form) else {"warps": 1}
    interval = table.find(str(form), "interval", alone).median
    peak = peaks.get(form.fragments["a"].type)
    share = f"{100 * rate / peak:.0f} %" if peak else "no wgmma of this type"
    return (str(form), f"{_products(form)}", f"{interval:.0f}", f"{rate:.0f}", share)


def _peaks(table: CostTable) -> dict[str, float]:
    """The rate of the largest dense wgmma, by the type of A."""
    largest = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n256k")
    names = {row.instruction for row in table if largest.match(row.instruction)}
    found: dict[str, float] = {}
    for form in map(parse, sorted(names)):
        kind = form.fragments["a"].type
        found[kind] = max(found.get(kind, 0), _rate(table, form))
    return found


def _rate(table: CostTable, form: Instruction) -> float:
    """Multiply-adds a clock of one SM."""
    what, how = ("interval", {"a": "shared"}) if _asynchronous(form) else ("SM interval", {"warps": 16})
    return _products(form) / table.find(str(form), what, how).median


def _products(form: Instruction) -> int:
    """Multiply-adds of one instruction: of m8n8k4 those of its four products."""
    return prod(form.fragments["d"].shape) * form.shape.k


def _asynchronous(form: Instruction) -> bool:
    return form.opcode.startswith("wgmma")

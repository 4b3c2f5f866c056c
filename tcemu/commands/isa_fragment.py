"""The answers of ``tcemu isa INSTRUCTION --operand ROLE``: an element's lanes, a lane's elements, the whole table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from tcemu.commands.report import PLAIN_WIDTH, Part, Report
from tcemu.errors import LayoutError, counted, listing, span
from tcemu.instructions import Instruction, target_named
from tcemu.instructions.explain import default_target
from tcemu.instructions.parse import parse
from tcemu.layouts import Fragment
from tcemu.layouts.formulas import axes, digits, formulas
from tcemu.layouts.questions import Holding, held_by, who_holds
from tcemu.show import Picture, fragment_map

_ROOM = PLAIN_WIDTH - 4
#: More layouts than this are too many to answer at once.
_MOST = 8


def fragment(
    opcode: str,
    target: str | None,
    ptx: str | None,
    role: str,
    position: tuple[int, ...] | None,
    lane: int | None,
    register: int | None,
) -> Report:
    """Which lanes hold `position`; or what `lane` holds in `register`; or, without either, the whole table."""
    instruction = parse(opcode, ptx=ptx)
    name = default_target(instruction.gate) if target is None else str(target_named(target))
    instruction = parse(instruction, name)
    try:
        asked = instruction.fragments[role]
    except KeyError:
        raise LayoutError(
            f"{instruction} has no fragment {role!r}; it has {listing(instruction.fragments, 'and')}"
        ) from None
    head = _head(instruction, asked, name)
    if position is not None:
        held = who_holds(asked, position)
        parts = (head, *_at(asked, held))
    else:
        held = held_by(asked, lane, register)
        whole = lane is None and register is None
        parts = (head, *(_whole(asked, held) if whole else _lane(asked, held)))
    names = axes(asked)
    columns = ("operand", *names, "lane", "register", "element", "high bit", "low bit")
    rows = tuple((role, *each.position, each.lane, each.register, each.element, each.high, each.low) for each in held)
    data = {
        "opcode": instruction.opcode,
        "target": name,
        "operand": role,
        "shape": asked.shape,
        "layout": str(asked.layout),
        "holdings": [dict(zip(columns[1:], row[1:], strict=True)) for row in rows],
    }
    return Report(instruction.opcode, parts, columns, rows, data, lambda: _draw(asked, held, position, lane, register))


def several(
    instructions: Sequence[Instruction], selection: str, target: str | None, role: str, *question: Any
) -> Report:
    """The same question to several instructions: one answer for all that hold the operand in the same layout.

    `selection` names them, `question` is what `fragment` takes after the role. Raises LayoutError if none has one.
    """
    held: dict[tuple[object, ...], list[Instruction]] = {}
    roles: dict[str, None] = {}
    for each in (parse(each, default_target(each.gate) if target is None else target) for each in instructions):
        roles |= dict.fromkeys(each.fragments)
        if role in each.fragments:
            held.setdefault(_same(each.fragments[role]), []).append(each)
    if not held:
        raise LayoutError(f"no instruction of {selection} has a fragment {role!r}; they have {listing(roles, 'and')}")
    if len(held) > _MOST:
        raise LayoutError(f"{selection}: operand {role} has {len(held)} layouts; say also which shape, type or family")
    answers, refused = [], []
    for alike in held.values():
        try:
            answers.append((alike, fragment(alike[0].opcode, target, None, role, *question)))
        except LayoutError as error:  # some matrices have the element, others are smaller
            refused.append(error)
    if not answers:
        raise refused[0]
    parts = [part for alike, report in answers for part in _titled(report.parts, alike)]
    columns = tuple(dict.fromkeys(name for _, report in answers for name in report.columns))
    lines = (dict(zip(report.columns, row, strict=True)) | {"opcode": alike[0].opcode}
             for alike, report in answers for row in _made(report.rows))  # fmt: skip
    rows = tuple(tuple(line.get(name, "") for name in ("opcode", *columns)) for line in lines)
    heading = f"Operand {role} of {counted(sum(len(alike) for alike, _ in answers), 'form')} ({selection})"
    return Report(heading, tuple(parts), ("opcode", *columns), rows, [report.data for _, report in answers])


def _same(fragment: Fragment) -> tuple[object, ...]:
    return str(fragment.layout), fragment.shape, str(fragment.type), fragment.elements_per_register


def _titled(parts: tuple[Part, ...], alike: list[Instruction]) -> tuple[Part, ...]:
    """An answer under the names of the instructions that it holds for."""
    more = f", and {len(alike) - 1} more with this layout" if len(alike) > 1 else ""
    return replace(parts[0], title=f"{alike[0]}{more}"), *parts[1:]


def _made(rows: tuple[tuple[object, ...], ...] | Callable[[], tuple[tuple[object, ...], ...]]) -> Any:
    return rows() if callable(rows) else rows


def label(role: str, position: Sequence[object]) -> str:
    """The name of an element of an operand: A[3][5], e[0][3][1]."""
    return (role.upper() if len(role) == 1 and role in "abcd" else role) + "".join(f"[{index}]" for index in position)


def where(places: Sequence[tuple[int, int, int]]) -> str:
    """Every holder: "lane 0 registers 0 and 4 element 1"."""
    registers: dict[tuple[int, int], list[int]] = {}
    for lane, register, element in places:
        registers.setdefault((lane, element), []).append(register)
    return "; ".join(
        f"lane {lane} register{'s' * (len(numbers) > 1)} {listing(numbers, 'and')} element {element}"
        for (lane, element), numbers in registers.items()
    )


def _head(instruction: Instruction, asked: Fragment, target: str) -> Part:
    size = " x ".join(str(length) for length in asked.shape)
    shared = f", {asked.elements_per_register} elements in each" if asked.elements_per_register > 1 else ""
    sums = formulas(asked)
    registers = f"{counted(asked.registers, 'register')} a lane{shared}"
    what = f"{size} {asked.type} ({', '.join(axes(asked))})"
    lines = (
        f"Operand {asked.role} on {target}: {what}, {registers}.",
        f"{asked.layout.pattern}   {digits(asked)}",
        ", ".join(f"{name} = {text}" for name, text in sums.items()),
    )
    return Part("", lines)


# ---------------------------------------------------------------------------------------------------- questions


def _at(asked: Fragment, held: list[Holding]) -> list[Part]:
    """Every holder of one element."""
    rows = tuple((label(asked.role, each.position), *_place(each)) for each in held)
    return [Part("Held by", (), ("element", "lane", "register", "bits"), rows)]


def _place(held: Holding) -> tuple[str, str, str]:
    return str(held.lane), str(held.register), span(held.high, held.low, ":")


def _lane(asked: Fragment, held: list[Holding]) -> list[Part]:
    """What lanes hold: one line for each run of neighbouring elements in a register."""
    rows = []
    for (lane, register), inside in groupby(held, key=lambda each: (each.lane, each.register)):
        runs = _runs(list(inside))
        held_there = ((f"{run[-1].high}:{run[0].low}", label(asked.role, _spans(run))) for run in runs)
        rows += [(str(lane), str(register), *each) for each in held_there]
    return [Part("Contents", (), ("lane", "register", "bits", "elements"), tuple(rows))]


def _runs(inside: list[Holding]) -> list[list[Holding]]:
    """The elements of a register in runs along one axis of the matrix."""
    runs: list[list[Holding]] = []
    for each in inside:
        if runs and _axis([*runs[-1], each]) is not None:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _axis(run: list[Holding]) -> int | None:
    """The axis along which the elements are consecutive, or None."""
    first, second = run[0].position, run[1].position
    steps = [axis for axis, (one, two) in enumerate(zip(first, second, strict=True)) if one != two]
    if len(steps) != 1:
        return None
    axis = steps[0]
    expected = [(*first[:axis], first[axis] + number, *first[axis + 1 :]) for number in range(len(run))]
    return axis if [each.position for each in run] == expected else None


def _spans(run: list[Holding]) -> list[str]:
    """The indices of a run: ["3", "4-5"]."""
    return [span(first, last, "-") for first, last in zip(run[0].position, run[-1].position, strict=True)]


# ---------------------------------------------------------------------------------------------------- whole tables


def _whole(asked: Fragment, held: list[Holding]) -> list[Part]:
    """The matrix with lane.register in every cell, followed by the registers of every lane."""
    return [*_matrices(asked, held), *_registers(asked, held)]


def _matrices(asked: Fragment, held: list[Holding]) -> list[Part]:
    names, front = axes(asked), asked.shape[:-2]
    owners: dict[tuple[int, ...], str] = {}
    for each in held:
        owners.setdefault(each.position, f"{each.lane}.{each.register}")
    copies = f", the lowest lane of the {asked.layout.copies} that hold it" if asked.layout.copies > 1 else ""
    parts = []
    for batch in sorted({position[:-2] for position in owners}):
        which = "".join(f", {name} {number}" for name, number in zip(names, batch, strict=False) if max(front) > 1)
        title = f"Where each element is{which}: lane.register{copies}"
        parts += _panels(title, f"{names[-2]} \\ {names[-1]}", *_grid(asked, owners, batch))
    return parts


def _grid(
    asked: Fragment, owners: dict[tuple[int, ...], str], batch: tuple[int, ...]
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of cells; identical neighbouring rows or columns are merged into one."""
    rows, columns = asked.shape[-2:]
    cells = [[owners[(*batch, row, column)] for column in range(columns)] for row in range(rows)]
    across = _merged([[line[column] for line in cells] for column in range(columns)])
    down = _merged(cells)
    header = [_from_to(column) for column in across]
    return header, [[_from_to(row), *(cells[row[0]][column[0]] for column in across)] for row in down]


def _merged(lines: list[list[str]]) -> list[tuple[int, int]]:
    """Half-open ranges of consecutive lines that are equal."""
    ranges: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if ranges and lines[ranges[-1][0]] == line:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return ranges


def _from_to(ends: tuple[int, int]) -> str:
    return span(ends[0], ends[1] - 1, "-")


def _registers(asked: Fragment, held: list[Holding]) -> list[Part]:
    lines: dict[int, list[str]] = {}
    for (lane, _), inside in groupby(held, key=lambda each: (each.lane, each.register)):
        contents = ";".join(",".join(_spans(run)) for run in _runs(list(inside)))
        lines.setdefault(lane, [str(lane)]).append(contents)
    title = f"What each lane holds: {','.join(axes(asked))} in register"
    return _panels(title, "lane", [str(number) for number in range(asked.registers)], list(lines.values()))


def _panels(title: str, corner: str, header: list[str], rows: list[list[str]]) -> list[Part]:
    """A table, split into as many tables as the width requires."""
    first = max(len(corner), *(len(row[0]) for row in rows)) + 2
    widest = max(len(cell) for line in [header, *(row[1:] for row in rows)] for cell in line) + 2
    fit = max(1, (_ROOM - first) // widest)
    panels = -(-len(header) // fit)
    each, parts = -(-len(header) // panels), []
    for start in range(0, len(header), each):
        part = slice(start, start + each)
        cut = tuple((row[0], *row[1:][part]) for row in rows)
        parts.append(Part(title if not start else "", (), (corner, *header[part]), cut))
    return parts


def _draw(
    asked: Fragment, held: list[Holding], position: tuple[int, ...] | None, lane: int | None, register: int | None
) -> Picture:
    """The fragment's map, with the answer marked."""
    if position is None:
        return fragment_map(asked, lane, register)
    first = held[0]
    return fragment_map(asked, first.lane, first.register, first.position[0] if len(asked.shape) == 3 else None)

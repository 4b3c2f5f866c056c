"""The answers of ``tcemu isa`` about instructions: lists, the explanation of one, and the comparison of two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict

from tcemu.commands.isa_fragment import label, where
from tcemu.commands.report import Part, Report
from tcemu.errors import CostUnknown, IllegalInstruction, counted, listing
from tcemu.instructions import FAMILIES, Instruction, parse
from tcemu.instructions.catalogue import Line, catalogue, lines, types
from tcemu.instructions.compare import Differences, Fact, compare
from tcemu.instructions.explain import Arithmetic, Explanation, LayoutLine, explain
from tcemu.instructions.family import Family
from tcemu.manual import named
from tcemu.show import Picture, fragment_map, mma_map
from tcemu.timing.costs import costs

#: More shapes than this are shown as a series.
_SERIES = 6
#: The longest line with a layout and its digits.
_LAYOUT = 68
#: Elements of a comparison that are shown for each operand if no operand is selected.
_SHOWN = 4
#: More instructions of a family are summed up: by their types and shapes, or by their qualifiers.
_MOST = 24
#: Measured costs that are shown of one instruction.
_COSTS = 8

# ---------------------------------------------------------------------------------------------------- lists

_COLUMNS = ("opcode", "family", "shape", "d", "a", "b", "c", "types", "ptx", "targets", "section")


def families() -> Report:
    """The families, what they do and how many forms they have; as data, every instruction."""
    heading = f"Instructions: {counted(sum(family.size for family in FAMILIES), 'form')}"
    return Report(heading, _families(), _COLUMNS, lambda: tuple(map(_line, catalogue())), lambda: _as_data(catalogue()))


def instructions(every: list[Instruction], selection: str) -> Report:
    """A list of instructions that fit some filters, which `selection` names."""
    columns = _COLUMNS
    heading = f"Instructions: {counted(len(every), 'form')} ({selection})"
    return Report(heading, _lists(every), columns, tuple(map(_line, every)), _as_data(every))


#: The parts of the list of families: a title, and whether a family belongs there.
_PARTS: tuple[tuple[str, Callable[[Family], bool]], ...] = (
    ("Tensor cores, and matrices to and from them", lambda family: not family.plain),
    ("Other instructions of kernels", lambda family: family.plain and not family.unsupported),
    ("Explained here, but not executed", lambda family: bool(family.unsupported)),
)


def _families() -> tuple[Part, ...]:
    columns = ("family", "what it does", "forms", "PTX section")
    hint = (
        "Next: tcemu isa mma lists the forms of a family, tcemu isa m16n8k16 f16 those that fit, tcemu isa OPCODE "
        "explains one, tcemu isa --help shows the other options."
    )
    parts = ((title, [family for family in FAMILIES if belongs(family)]) for title, belongs in _PARTS)
    tables = (
        Part(title, (), columns, tuple((each.name, each.about, f"{each.size:,}", each.section) for each in families))
        for title, families in parts
    )
    return Part("", (hint,)), *tables


def _by_family(instructions: Iterable[Instruction]) -> dict[str, list[Instruction]]:
    by_name: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        by_name.setdefault(instruction.family, []).append(instruction)
    return by_name


def _lists(instructions: list[Instruction]) -> tuple[Part, ...]:
    by_family = _by_family(instructions)
    return tuple(_list(family, by_family[family.name]) for family in FAMILIES if family.name in by_family)


def _list(family: Family, instructions: list[Instruction]) -> Part:
    title = f"{family.name}: {counted(len(instructions), 'form')} ({named(family.section)})"
    about = [_sentence(family.about)] if family.about else []
    if len(instructions) <= _MOST:
        forms = (f"{each.gate.ptx:<4}  {each}" for each in instructions)
        return Part(title, tuple(about), lines=("", "PTX   instruction", *forms))
    if any(any(each.shape) for each in instructions):
        summed = lines(instructions)
        columns, rows = _summed(family, summed)
        examples = ("", "One of each line:", *(each.example for each in summed))
    else:
        about += [f"{re.sub('[{}]', '', family.spelling.template)}, where"]
        columns, rows = _syntax(family, instructions)
        examples = ("", "For example:", *(str(each) for each in instructions[:: -(-len(instructions) // 3)]))
    return Part(title, tuple(about), columns, rows, examples)


def _syntax(family: Family, instructions: list[Instruction]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The words of each slot of many instructions without a matrix."""
    hints = {slot: words for row in family.rows for slot, words in row.hints.items()}
    used = {
        slot: {each.words.get(slot) for each in instructions} | set(hints.get(slot, ()))
        for slot in family.spelling.slots
    }
    words = ((slot, [word for word in family.spelling.vocabulary[slot] if word in used[slot]]) for slot in used)
    return ("", "is"), tuple((f".{slot}", " ".join(f".{word}" for word in some)) for slot, some in words if some)


def _summed(family: Family, every: list[Line]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Instructions with matrices, by types and shapes."""
    moved = not family.computes
    columns = ("moves" if moved else "A and B", "which" if moved else "D", "shapes", "PTX", "forms")
    rows = tuple(
        (
            f"{line.types} ({line.kind})" if line.kind else line.types,
            line.into,
            _shapes(line.shapes),
            line.ptx,
            str(line.forms),
        )
        for line in every
    )
    return columns, rows


def _shapes(shapes: tuple[str, ...]) -> str:
    """The shapes; of a long series in n, only the ends."""
    if len(shapes) <= _SERIES:
        return " ".join(shapes)
    series: dict[tuple[str, str], list[str]] = {}
    for shape in shapes:
        m, n, k = re.split("[nk]", shape)
        series.setdefault((m, k), []).append(n)
    return " ".join(f"{m}nNk{k}, {len(ns)} N from {ns[0]} to {ns[-1]}" for (m, k), ns in series.items())


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _line(instruction: Instruction) -> tuple[object, ...]:
    roles = [instruction.types[role].name if role in instruction.types else "" for role in "dabc"]
    first = instruction.opcode, instruction.family, str(instruction.shape)
    gate = instruction.gate
    return (*first, *roles, " ".join(types(instruction)), gate.ptx, gate.targets, instruction.section)


def _as_data(instructions: list[Instruction]) -> list[dict[str, object]]:
    by_family = _by_family(instructions)
    return [
        {
            "family": each.name,
            "about": each.about,
            "section": each.section,
            "forms": len(by_family[each.name]),
            "instructions": [_entry(instruction) for instruction in by_family[each.name]],
        }
        for each in FAMILIES
        if each.name in by_family
    ]


def _entry(instruction: Instruction) -> dict[str, object]:
    return {
        "opcode": instruction.opcode,
        "shape": str(instruction.shape),
        "types": {role: form.name for role, form in instruction.types.items()} or list(types(instruction)),
        "ptx": instruction.gate.ptx,
        "targets": instruction.gate.targets,
    }


# ---------------------------------------------------------------------------------------------------- one explained


def explanation(opcode: str, target: str | None, ptx: str | None) -> Report:
    """One instruction: operands, layouts, requirements, arithmetic, rules and an example."""
    explained = explain(opcode, target, ptx)
    parts = [_head(explained, target), _operands(explained)]
    parts += [Part("Rules", explained.rules)] if explained.rules else []
    parts += [_layouts(explained)] if explained.layouts or explained.unknown else []
    parts += _arithmetic(explained, explained.arithmetic) if explained.arithmetic else []
    measured, cost = _measured(explained)
    parts += [cost] if measured else []
    parts += [Part("Example", lines=explained.example)] if explained.example else []
    columns = ("operand", "direction", "what", "registers", "elements in each", "array", "layout", "known")
    draw = (lambda: _draw(explained)) if explained.layouts or explained.unknown else None
    return Report(
        explained.opcode, tuple(parts), columns, tuple(_csv(explained)), {**asdict(explained), "costs": measured}, draw
    )


def _measured(explained: Explanation) -> tuple[list[dict[str, object]], Part]:
    """What the instruction costs on the target's GPU, if that has been measured."""
    plain = explained.opcode.replace(".satfinite", "")
    try:
        table = costs(explained.target)
    except CostUnknown:
        return [], Part()
    rows = table.of(explained.opcode) or table.of(plain)
    without = "" if table.of(explained.opcode) else f" They are those of {plain}."
    about = (
        f"In clock cycles of one SM, measured on an {table.provenance['gpu']} while nothing else ran, so a kernel "
        f"takes at least as long. latency: from one to the next that needs its result. interval: to the next that does "
        f"not, by one warp or warpgroup. SM interval: of all warps together.{without}"
    )
    shown = [
        (row.what, ", ".join(f"{name} {value}" for name, value in row.how.items()), f"{row.median:g}")
        for row in rows[:_COSTS]
    ]
    more = (f"{len(rows) - _COSTS} more: tcemu.timing.costs.costs({explained.target!r}).of(opcode)",)
    part = Part("Cost", (about,), ("what", "with", "cycles"), tuple(shown), more if len(rows) > _COSTS else ())
    gpu = table.provenance["gpu"]
    return [{"what": row.what, "how": dict(row.how), "cycles": row.median, "gpu": gpu} for row in rows], part


def _head(explained: Explanation, target: str | None) -> Part:
    default = "" if target else " (--target selects another)"
    return Part(
        "",
        (
            f"{_sentence(explained.about)} {_size(explained.shape)}".strip(),
            f"Needs PTX {explained.ptx} and {explained.targets}. Manual: {named(explained.section)}.",
            f"What follows is for {explained.target}{default}.",
            *([f"The machine does not execute it: {explained.unsupported}."] if explained.unsupported else []),
        ),
    )


def _size(shape: tuple[int, ...]) -> str:
    """The shape in words; empty if there is no matrix."""
    if not shape:
        return ""
    m, n, *k = shape
    return f"Shape: m = {m}, n = {n}, k = {k[0]}." if k else f"Shape: {m} x {n}."


def _operands(explained: Explanation) -> Part:
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            each.name,
            each.direction,
            each.what,
            "" if each.registers is None else str(each.registers),
            "" if each.sharing is None else str(each.sharing),
            each.array,
        )
        for each in explained.operands
    )
    columns: tuple[str, ...] = ("operand", "", "what", "registers", "elements each", "for tcemu.run")
    if not (explained.layouts or explained.unknown or explained.example):  # it makes sense only in a kernel
        columns, rows = (*columns[:4], "in a kernel"), tuple((*row[:4], row[5]) for row in rows)
    hint = "In PTX's order, with the registers of one lane." if rows else "None."
    return Part("Operands", (explained.unknown or hint,), columns if rows else (), rows)


def _layouts(explained: Explanation) -> Part:
    if not explained.layouts:
        return Part("Layouts", ("The fragment layouts of this chip are not known.",))
    same: dict[str, list[str]] = {}
    evidence: dict[str, list[str]] = {}
    for line in explained.layouts:
        same.setdefault(f"{_pattern(line)}\n{_sums(line)}", []).append(line.role)
        evidence.setdefault(f"({line.known}): {line.note}.", []).append(line.role)
    rows = [(", ".join(roles), f"{text}\n") for text, roles in same.items()]
    rows[-1] = (rows[-1][0], rows[-1][1].rstrip())
    reading = (
        "Row and column are left of the arrow, lane and slot (register and element in it) right of it, each as a "
        "number in named digits, most significant first."
    )
    which = {text: f" {listing(roles, 'and')}" if len(evidence) > 1 else "" for text, roles in evidence.items()}
    known = [f"How we know{roles} {text}" for text, roles in which.items()]
    return Part("Layouts", (reading, *known), ("", ""), tuple(rows))


def _pattern(line: LayoutLine) -> str:
    gap = "   " if len(line.pattern) + len(line.digits) + 3 <= _LAYOUT else "\n"
    return f"{line.pattern}{gap}{line.digits}"


def _sums(line: LayoutLine) -> str:
    names = list(line.formulas)
    split = names.index("lane")
    matrix, held = ([f"{name} = {line.formulas[name]}" for name in part] for part in (names[:split], names[split:]))
    times = {2: "twice"}.get(line.copies, f"{line.copies} times")
    copies = f"\nevery element is held {times}" if line.copies > 1 else ""
    return f"{', '.join(matrix)}\n{', '.join(held)}{copies}"


def _arithmetic(explained: Explanation, arithmetic: Arithmetic) -> list[Part]:
    if not arithmetic.known:
        here = Part(f"Arithmetic on {explained.target}", (f"{arithmetic.sentences}.",))
    else:
        note = f", {arithmetic.note}" if arithmetic.note else ""
        evidence = f"How we know ({arithmetic.known}{note}): {arithmetic.evidence}."
        here = Part(f"Arithmetic on {explained.target}", (arithmetic.sentences, evidence))
    rows = tuple((", ".join(each.targets), each.line, each.known) for each in explained.elsewhere)
    others = Part("Arithmetic on other chips", (), ("chips", "computes", "how we know"), rows)
    return [here, others] if rows else [here]


def _csv(explained: Explanation) -> Iterable[tuple[object, ...]]:
    lines = {line.role: line for line in explained.layouts}
    for each in explained.operands:
        line = lines.get(each.name)
        layout, known = (f"{line.pattern}  {line.digits}", line.known) if line else ("", "")
        yield each.name, each.direction, each.what, each.registers, each.sharing, each.array, layout, known


def _draw(explained: Explanation) -> Picture:
    """A map of a product's matrices, or of the matrix that is moved."""
    instruction = parse(explained.opcode, explained.target)
    if instruction.shape.k and {"a", "d"} <= set(instruction.fragments):
        return mma_map(instruction)
    role = next((line.role for line in explained.layouts), "a")
    return fragment_map(instruction.fragments[role])


# ---------------------------------------------------------------------------------------------------- two compared


def differences(one: str, other: str, target: str | None, operand: str | None) -> Report:
    """How two instructions differ; with `operand`, every element of it that is held elsewhere."""
    differences = compare(one, other, target)
    if operand is not None and operand not in differences.common:
        both = f"in both: {listing(differences.common, 'and')}" if differences.common else "they have none in common"
        raise IllegalInstruction(f"operand {operand!r} is not in both instructions; {both}")
    first, second = differences.opcodes
    heading = f"1  {first}\n2  {second}"
    parts = [*_facts(differences), *([_moved(differences, operand)] if differences.common else [])]
    rows = [("fact", fact.what, fact.first, fact.second, "yes" if fact.differs else "no") for fact in differences.facts]
    moved = [each for each in differences.moved if operand in (None, each.role)]
    places = ((label(each.role, each.position), where(each.first), where(each.second)) for each in moved)
    rows += [("element", *place, "yes") for place in places]
    columns = ("kind", "what", "first", "second", "differs")
    data = asdict(differences) | {"moved": [asdict(each) for each in moved]}
    return Report(heading, tuple(parts), columns, tuple(rows), data)


def _facts(differences: Differences) -> list[Part]:
    first, second = differences.targets
    on = f"Both on {first}." if first == second else f"1 on {first}, 2 on {second}."
    facts = _joined(differences.facts)
    apart = tuple((fact.what, fact.first or "none", fact.second or "none") for fact in facts if fact.differs)
    if not apart:
        return [Part("", (f"{on} They are the same.",))]
    same = "; ".join(fact.what for fact in facts if not fact.differs)
    return [Part("Different", (on,), ("", "1", "2"), apart), *([Part("Same", (f"{same}.",))] if same else [])]


def _joined(facts: Iterable[Fact]) -> list[Fact]:
    """Join the facts of several operands that say the same: "d, c: layout"."""
    roles: dict[tuple[str, str, str], list[str]] = {}
    for fact in facts:
        role, colon, what = fact.what.rpartition(": ")
        roles.setdefault((f"{colon}{what}", fact.first, fact.second), []).append(role)
    return [Fact(f"{', '.join(names)}{what}", first, second) for (what, first, second), names in roles.items()]


def _moved(differences: Differences, operand: str | None) -> Part:
    paragraphs, rows = [], []
    for role, common in differences.common.items():
        if operand not in (None, role):
            continue
        places = [each for each in differences.moved if each.role == role]
        if not common:
            paragraphs.append(f"{role}: the matrices have no elements in common.")
            continue
        moved = f"{len(places)} are held elsewhere" if places else "all are in the same place"
        paragraphs.append(f"{role}: of the {common} elements that both have, {moved}.")
        shown = places if operand else places[:_SHOWN]
        rows += [(label(role, each.position), where(each.first), where(each.second)) for each in shown]
    more = not operand and any(
        Counter(each.role for each in differences.moved)[role] > _SHOWN for role in differences.common
    )
    paragraphs += ["These are the first; --operand ROLE lists all of one operand."] if more else []
    return Part("Element by element", tuple(paragraphs), ("element", "1", "2"), tuple(rows))

"""Is every number of the arithmetic table held by evidence? Each is changed a little, and the evidence is asked.

    PYTHONPATH=$PWD:tests:tests/arithmetic python tests/arithmetic/mutants.py [--all] [WORD ...]

Evidence is what the recordings in the repository ask (asked.py): where a changed row gives another output for one of
their inputs, a test that replays them fails. The script prints the changes that no recorded input shows, and the rows
that no recording asks about; a row names what it rests on a statement for (`Row.unseen`), and test_mutants.py compares.
"""

import argparse
from dataclasses import dataclass, replace
from functools import singledispatch
from unittest.mock import patch

from asked import recordings

from tcemu.arithmetic import FmaChain, FmaGroups, FusedSums, Operation, ScaledSums, reference
from tcemu.arithmetic.model import ADDEND
from tcemu.formats import lookup

#: The other rounding, by the type of the result of a sum.
OTHER = {"f32": "rn", "f16": "rz"}


@dataclass(frozen=True)
class Mutant:
    """An operation with one thing changed: a field of its model, or the rounding, which no model says."""

    field: str
    how: str
    operation: Operation

    @property
    def name(self):
        return f"{self.field} {self.how}"

    @property
    def slow(self):
        """Whether only the reference can compute it: the kernels round as the table does, and take k upward.

        Of groups with scales they know those that the table has: of so small numbers that their sums are exact.
        """
        scaled = isinstance(self.operation.model, ScaledSums) and self.field in ("group", "block")
        return scaled or self.field == "groups" or (self.field == "rounding" and not self.operation.qualifiers)

    def few(self, asked):
        """Its results for a few of the inputs."""
        rounding = OTHER if self.field == "rounding" else {}
        with patch.dict(reference.ROUNDING, rounding):
            return asked.few(self.operation)


def mutants(operation):
    """The changes of what an instruction computes."""
    for field, how, value in changes(operation.model, operation):
        yield Mutant(field, how, replace(operation, model=replace(operation.model, **{field: value})))
    if isinstance(operation.model, (FusedSums, ScaledSums)):
        yield Mutant("rounding", "changed", operation)
    if isinstance(operation.model, FmaChain):
        others = {"rn": "rz", "rz": "rn", "rm": "rp", "rp": "rm"}
        chosen = dict(operation.qualifiers).get("rounding") or "rn"
        yield Mutant("rounding", "changed", replace(operation, qualifiers=(("rounding", others[chosen]),)))


@singledispatch
def changes(_model, _operation):
    """(field, how, its value) of each small change; of what has no numbers, none."""
    return
    yield


@changes.register
def _(model: FusedSums, operation):
    depth = operation.depth
    yield from _numbers(model, "fraction", "floor", "keep")
    block = len(model.sums(depth)[0])
    yield "block", "halved", block // 2
    if depth > block:
        yield "block", "doubled", block * 2
    if model.widen and model.addend == "first" and operation.c not in (operation.d, model.via):
        yield "widen", "off", False
    if not model.widen:
        yield "widen", "on", True
    if model.order == "pairs":
        yield "order", "ascending", "ascending"
    if model.addend == "last":
        yield "addend", "first", "first"
    if model.through:
        yield "through", "off", None
    if model.via and operation.d != model.via:
        yield "via", "off", None


@changes.register
def _(model: ScaledSums, operation):
    yield from _numbers(model, "fraction", "floor")
    block = min(model.block or operation.depth, operation.depth)
    yield "block", "halved", block // 2
    if operation.depth > block:
        yield "block", "doubled", block * 2
    yield ("group", "halved", model.group // 2) if model.group > 1 else ("group", "of 2", 2)


@changes.register
def _(model: FmaGroups, _operation):
    yield "from_zero", "changed", not model.from_zero
    groups = len(model.groups)
    if groups > 1:
        yield "order", "c last", (*range(groups), ADDEND)
    else:
        yield "groups", "descending", (model.groups[0][::-1],)


def _numbers(model, *fields):
    for field in fields:
        value = getattr(model, field)
        for step in (1, -1) if value is not None else ():
            yield field, f"{step:+}", value + step
    if model.floor is not None:
        yield "floor", "away", None


# --------------------------------------------------------------------------------------------- what no input shows


def idle(operation, mutant):
    """Why no input distinguishes a changed floor from the floor: "" if some may, or if the change is another one."""
    model, changed, forms = operation.model, mutant.operation.model, operation.formats
    if mutant.field != "floor" or isinstance(model, ScaledSums):  # scales reach everywhere
        return ""
    floors = [-(1 << 30) if each.floor is None else each.floor for each in (model, changed)]
    sums = lookup(model.via or operation.d)
    addends = [sums, forms["c"] if not model.widen else sums]
    factors = [forms[role].emin for role in "ab"]
    if model.through:  # what is converted is normal wherever the wider format lets it be
        factors = [max(_unit(forms[role]), lookup(model.through).emin) for role in "ab"]
    lowest = min(sum(factors), *(form.emin for form in addends))
    if max(floors) <= lowest:
        return f"no term has an exponent below {lowest}"
    unit = min(sum(_unit(forms[role]) for role in "ab"), *(_unit(form) for form in addends))
    if max(floors) - model.fraction <= unit:
        return f"every term is a multiple of 2^{unit}, so nothing is cut at the floor"
    return ""


def _unit(form):
    return form.emin - form.mantissa


# --------------------------------------------------------------------------------------------- asking


@dataclass
class Seen:
    """For one row: the recordings that show a change, why none can, and the changes that none shows."""

    shown: dict[str, str]
    idle: dict[str, str]
    unseen: dict[str, str]

    @property
    def fields(self):
        """The parts of the row that rest on a statement."""
        return frozenset(self.unseen.values())


def seen(row):
    """Ask everything that was recorded of a row, until each of its changes is shown."""
    found = Seen({}, {}, {})
    for recording in recordings()[row]:
        operation = recording.operation
        left = {}
        for mutant in mutants(operation):
            reason = idle(operation, mutant)
            if reason and mutant.name not in found.shown:
                found.idle.setdefault(mutant.name, reason)
            if not reason and mutant.name not in found.shown:
                left[mutant.name] = mutant
                found.unseen[mutant.name] = mutant.field
        for name, where in _first(recording, operation, left):
            found.shown[name] = f"{recording.who} {recording.instruction} {where}"
            found.unseen.pop(name)
            found.idle.pop(name, None)
    found.idle = {name: why for name, why in found.idle.items() if name not in found.unseen}
    return found


def _first(recording, operation, left):
    """(name, key) of each mutant in `left` that the recording shows; they leave it."""
    for asked in recording.ask() if left else ():
        known, few = asked.answer(operation), None
        for name, mutant in list(left.items()):
            if mutant.slow:
                few = asked.few(operation) if few is None else few
                shown = (mutant.few(asked) != few).any()
            else:
                shown = (asked.answer(mutant.operation) != known).any()
            if shown:
                del left[name]
                yield name, asked.key
        if not left:
            return


def has_numbers(row):
    """Whether there is something to change."""
    return isinstance(row.model, (FusedSums, ScaledSums, FmaGroups, FmaChain))


def label(row):
    """A row in a few words."""
    chips = ",".join(str(x) for x in sorted(row.architectures))
    types = f"{'/'.join(sorted(row.a))} -> {'/'.join(sorted(row.d))}{' c ' + '/'.join(sorted(row.c)) if row.c else ''}"
    return f"sm_{chips} {'/'.join(sorted(row.families))} {' '.join(sorted(row.shapes))} {types} ({row.known})"


def main():
    """Print every change that nothing shows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--all", action="store_true", help="print who shows each change, too")
    parser.add_argument("words", nargs="*", help="only rows whose line has all of these words")
    chosen = parser.parse_args()
    counts = dict.fromkeys(("shown", "idle", "unseen", "rows without evidence"), 0)
    for row in filter(has_numbers, recordings()):
        if not set(chosen.words) <= set(label(row).replace(",", " ").split()):
            continue
        if not recordings()[row]:
            counts["rows without evidence"] += 1
            print(f"no evidence: {label(row)}: {row.note}", flush=True)
            continue
        found = seen(row)
        for word in ("shown", "idle", "unseen"):
            changes = getattr(found, word)
            counts[word] += len(changes)
            for name, why in changes.items() if chosen.all or word != "shown" else ():
                print(f"{word}: {label(row)}: {name}. {why}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()

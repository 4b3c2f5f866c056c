"""Is every number of the arithmetic table held by evidence? Each is changed a little, and the evidence is asked.

    PYTHONPATH=tests python tests/arithmetic/mutants.py [--all]

Evidence is what the recordings in tests/golden/ and tests/arithmetic/peers/ ask: where a changed model gives another
output for one of their inputs, a test that replays them fails. The script prints, for each row of floats, the changes
that no recorded input shows, and the rows that no recording asks about.
"""

import argparse
import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module
from itertools import islice, zip_longest
from unittest.mock import patch

from dots import dots
from peers import PEERS, RECORDED
from places import GOLDEN

import tcemu
from tcemu.arithmetic import ROWS, FmaGroups, FusedSums, ScaledSums, reference
from tcemu.arithmetic.model import ADDEND
from tcemu.formats import lookup
from tcemu.instructions import target_named
from tcemu.instructions.table import family_of
from tcemu.vectors.cases import cases, emulator
from tcemu.vectors.cases import classes as kinds


@dataclass(frozen=True)
class Mutant:
    """A model with one thing changed; `rounds` changes how results are rounded, which no model says."""

    name: str
    model: object
    rounds: bool = False


def mutants(model, depth, names):
    """The changes of a model for an instruction with `depth` products and the types `names`."""
    if isinstance(model, FmaGroups):
        yield from _groups(model)
    if not isinstance(model, (FusedSums, ScaledSums)):
        return
    for step in (1, -1):
        yield Mutant(f"fraction {step:+}", replace(model, fraction=model.fraction + step))
    block = model.block or (len(model.sums(depth)[0]) if isinstance(model, FusedSums) else depth)
    yield Mutant("block halved", replace(model, block=min(block, depth) // 2))
    if depth > block:
        yield Mutant("block doubled", replace(model, block=block * 2))
    if model.floor is not None:
        for step in (1, -1):
            yield Mutant(f"floor {step:+}", replace(model, floor=model.floor + step))
        yield Mutant("no floor", replace(model, floor=None))
    yield Mutant("rounding", model, rounds=True)
    yield from _fused(model, depth, names) if isinstance(model, FusedSums) else _scaled(model)


def _scaled(model):
    if model.group > 1:
        yield Mutant("group halved", replace(model, group=model.group // 2))
    else:
        yield Mutant("products in pairs", replace(model, group=2))


def _fused(model, depth, names):
    if model.keep is not None:
        for step in (1, -1):
            yield Mutant(f"keep {step:+}", replace(model, keep=model.keep + step))
    if names["c"] != names["d"] and model.via is None:
        yield Mutant("c not widened" if model.widen else "c widened", replace(model, widen=not model.widen))
    if model.order == "pairs":
        yield Mutant("order", replace(model, order="ascending", block=len(model.sums(depth)[0])))
    if model.addend == "last":
        yield Mutant("c first", replace(model, addend="first"))
    if model.through:
        yield Mutant("not converted", replace(model, through=None))


def _groups(model):
    yield Mutant("start", replace(model, from_zero=not model.from_zero))
    if len(model.groups) > 1:
        yield Mutant("order", replace(model, order=(*range(len(model.groups)), ADDEND)))
        yield Mutant("one chain", replace(model, groups=((0, 1, 2, 3),), order=(0, ADDEND)))
    else:
        yield Mutant("two chains", replace(model, groups=((0, 1), (2, 3)), order=(0, 1, ADDEND)))
        yield Mutant("descending", replace(model, groups=(model.groups[0][::-1],)))


def idle(model, changed, names):
    """Why two floors cannot be told apart by any input: "" where they can."""
    floors = [-(1 << 30) if each.floor is None else each.floor for each in (model, changed)]
    if floors[0] == floors[1]:
        return ""
    forms = {role: lookup(names[role]) for role in "abcd"}
    if isinstance(model, ScaledSums):
        return ""  # scales reach everywhere
    sums = lookup(model.via or names["d"])
    addends = [sums, forms["c"] if not model.widen else sums]
    factors = [_lowest(forms[role]) for role in "ab"]
    if model.through:  # what is converted is normal wherever the wider format lets it be
        factors = [max(_unit(forms[role]), _lowest(lookup(model.through))) for role in "ab"]
    lowest = min(sum(factors), *(_lowest(form) for form in addends))
    if max(floors) <= lowest:
        return f"no term has an exponent below {lowest}"
    unit = min(sum(_lowest(forms[role]) - forms[role].mantissa for role in "ab"), *(_unit(f) for f in addends))
    if max(floors) - max(model.fraction, changed.fraction) <= unit:
        return f"every term is a multiple of 2^{unit}, so nothing is cut at the floor"
    return ""


def _lowest(form):
    return 1 - form.bias


def _unit(form):
    return _lowest(form) - form.mantissa


def computed(model, rounds, dot):
    """One output by the reference, with other roundings where `rounds`."""
    a, b, c, scales, formats = dot
    kept = dict(reference.ROUNDING)
    if rounds:
        reference.ROUNDING.update({"f32": "rn", "f16": "rz"})
    try:
        if scales:
            return reference.dot_scaled(model, a, b, c, scales, formats)
        return reference.dot(model, a, b, c, formats, {})
    finally:
        reference.ROUNDING.update(kept)


# ---------------------------------------------------------------------------------------------------- the evidence


@cache
def evidence():
    """Of each row of floats, {(who, opcode, target)}: what the recordings in the repository ask."""
    found = {row: {} for row in ROWS if mentions_floats(row)}
    for path in sorted(RECORDED.glob("*.json")):
        for case in json.loads(path.read_text())["answers"]:
            target, opcode = case.split("|")
            _add(found, opcode, target, path.stem)
    for path in sorted(GOLDEN.glob("sm_*.json")):
        file = json.loads(path.read_text())
        if "sha256" in file:
            for opcode in dict.fromkeys(key.split("|")[0] for key in file["sha256"]):
                _add(found, opcode, file["provenance"]["target"], path.stem)
    return found


def mentions_floats(row):
    """Whether the row has numbers to change."""
    return isinstance(row.model, (FusedSums, ScaledSums, FmaGroups))


def _add(found, opcode, target, who):
    instruction = tcemu.parse(opcode, target=target)
    if not family_of(instruction).computes:
        return
    row = instruction.arithmetic(target_named(target))
    if row in found:
        found[row][who, opcode, target] = instruction


#: Dot products of each class that one instruction is asked, and instructions of each recording.
MOST, INSTRUCTIONS = 400, 10


@lru_cache(maxsize=4)
def recorded(who, instruction, target):
    """[(a, b, c, scales, formats)] of recorded dot products, the classes in turn."""
    ask = _golden if who.startswith("sm_") else _peer
    turns = zip_longest(*ask(who, instruction, target))
    return [dot for turn in turns for dot in turn if dot is not None]


@cache
def real(model, who, instruction, target):
    """What the table's model gives for them, as far as it was asked."""
    return {}


def _peer(who, instruction, target):
    """Of each class, what the peer was asked."""
    file = json.loads((RECORDED / f"{who}.json").read_text())
    provenance, formats = file["provenance"], instruction.operation(target_named(target)).formats
    for kind in file["answers"][f"{target}|{instruction}"]:
        asked = dots(instruction, kind, provenance["series"], provenance["count"])
        a, b, c, *scales = PEERS[who.split("-")[0]].asked(instruction, asked)
        yield [
            (a[i].tolist(), b[i].tolist(), int(c[i]), tuple(x[i].tolist() for x in scales), formats)
            for i in range(len(c))
        ]


def _golden(who, instruction, target):
    """Of each class, what the reference is asked for some warps of the recording."""
    provenance = json.loads((GOLDEN / f"{who}.json").read_text())["provenance"]
    for kind in kinds(instruction):
        asked = []

        def dot(model, a, b, c, formats, qualifiers, asked=asked):
            asked.append((a, b, c, (), formats))
            return 0

        with ExitStack() as patches:
            for module in ("tcemu.arithmetic.compute", "tcemu.layouts.fragment"):
                patches.enter_context(patch.object(import_module(module), "backend", lambda: "reference"))
            patches.enter_context(patch.object(reference, "dot", dot))
            for case in islice(cases(instruction, kind, provenance["warps"]), 1):
                for warp in range(min(6, case.warps) if case.warps > 8 else 1):
                    case.only(warp).answer(emulator(target))
        yield asked[:: max(1, len(asked) // MOST)]


def shown_by(row, name):
    """Who shows the change `name` of the row: "" for nobody, "equivalent: why" where no input could."""
    why, asked = set(), Counter()
    for (who, opcode, target), instruction in evidence()[row].items():
        operation = instruction.operation(target_named(target))
        names = {role: getattr(operation, role) for role in "abcd"}
        changed = {mutant.name: mutant for mutant in mutants(row.model, operation.depth, names)}.get(name)
        if changed is None:
            continue
        reason = idle(row.model, changed.model, names) if "floor" in name else ""
        why.add(reason)
        asked[who] += 1
        if reason or asked[who] > INSTRUCTIONS:
            continue
        known = real(row.model, who, instruction, target)
        for number, dot in enumerate(recorded(who, instruction, target)):
            if number not in known:
                known[number] = computed(row.model, False, dot)
            if computed(changed.model, changed.rounds, dot) != known[number]:
                return f"{who} {opcode}"
    return f"equivalent: {', '.join(sorted(why))}" if why and "" not in why else ""


def names_of(row):
    """The names of all changes of a row, over the instructions that its evidence has."""
    found = {}
    for (_, _, target), instruction in evidence()[row].items():
        operation = instruction.operation(target_named(target))
        types = {role: getattr(operation, role) for role in "abcd"}
        found |= dict.fromkeys(mutant.name for mutant in mutants(row.model, operation.depth, types))
    return list(found)


def label(row):
    """A row in a few words."""
    chips = ",".join(str(x) for x in sorted(row.architectures))
    types = f"{'/'.join(sorted(row.a))} -> {'/'.join(sorted(row.d))}{' c ' + '/'.join(sorted(row.c)) if row.c else ''}"
    return f"sm_{chips} {'/'.join(sorted(row.families))} {' '.join(sorted(row.shapes))} {types} ({row.known})"


def main():
    """Print every change that nothing shows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--all", action="store_true", help="print who shows each change, too")
    chosen = parser.parse_args()
    counts = dict.fromkeys(("shown", "equivalent", "unseen", "rows without evidence"), 0)
    for row, found in evidence().items():
        if not found:
            counts["rows without evidence"] += 1
            print(f"no evidence: {label(row)}: {row.note}", flush=True)
            continue
        for name in names_of(row):
            who = shown_by(row, name)
            result = "equivalent" if who.startswith("equivalent") else "shown" if who else "unseen"
            counts[result] += 1
            if chosen.all or result != "shown":
                print(f"{result}: {label(row)}: {name}. {who}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()

"""The assembler's verdicts and silicon's answers where they are at hand, and the inputs that the families' tests share.

Neither is part of the project: tests that ask for them skip where they are not, and the tests beside them hold alone.
"""

import csv
import hashlib
import importlib.util
import random
import re
import sys

import numpy as np
import pytest
from places import ROOT

import tcemu
from tcemu import IllegalInstruction, TcemuError, parse
from tcemu.vectors import CLASSES, registers

SHARED = ROOT.parent / "shared"
#: Targets for which the assembler was asked, and PTX versions.
ASKED = [
    "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f",
    "sm_103a", "sm_107a", "sm_110a", "sm_120", "sm_120a", "sm_120f", "sm_121a", "sm_121f",
]  # fmt: skip
VERSIONS = [
    "6.0", "6.3", "6.4", "6.5", "7.0", "7.1", "7.8", "8.0", "8.4", "8.5", "8.6", "8.7", "8.8", "9.0", "9.1", "9.4",
]  # fmt: skip


def accepted(instruction, **where):
    """Whether parse takes it there."""
    try:
        return parse(instruction, **where) is not None
    except IllegalInstruction:
        return False


def verdicts(category):
    """Rows of legality.csv, or a skip."""
    path = SHARED / "reference" / "legality.csv"
    if not path.exists():
        pytest.skip(f"the assembler's verdicts are not at {path}")
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["category"] == category]


def table(family):
    """The family's legal opcodes, one a line, with their lowest PTX version and their targets: count and hash."""
    lines = []
    for _, instruction in sorted(family.variants, key=lambda variant: variant[1].opcode):
        lowest = next(version for version in VERSIONS if accepted(instruction, ptx=version))
        lines.append(f"{instruction} {lowest} {' '.join(name for name in ASKED if accepted(instruction, target=name))}")
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def check_legality(family, category):
    """Every verdict of the assembler on a family, and nothing else accepted."""
    lines = {}
    for row in verdicts(category):
        opcode, targets, version = row["instruction"], row["accepted_targets"].split(), row["min_ptx_version"]
        found = parse(opcode)
        assert found.family == family.name
        assert sorted(found.opcode.split(".")) == sorted(opcode.split("."))
        lines[found.opcode] = f"{found} {version} {' '.join(targets)}"
        assert parse(opcode, target=row["at_target"], ptx=version).opcode == found.opcode
        assert [name for name in ASKED if accepted(opcode, target=name)] == targets, opcode
        at = VERSIONS.index(version)
        if at:
            assert not accepted(opcode, ptx=VERSIONS[at - 1]), f"{opcode} is taken with PTX {VERSIONS[at - 1]}"
    assert set(lines) == {instruction.opcode for _, instruction in family.variants}
    text = "\n".join(lines[opcode] for opcode in sorted(lines))
    assert table(family) == (len(lines), hashlib.sha256(text.encode()).hexdigest()[:16])


def check_refusals(family, count):
    """Opcodes a word or two away from legal ones are refused, unless they are legal themselves; every error teaches."""
    legal = {frozenset(words.items()) for words, _ in family.variants}
    rng = random.Random(11)
    slots = list(family.spelling.vocabulary)
    tried = 0
    for words, _ in family.variants:
        for _ in range(count):
            changed = dict(words)
            for slot in rng.sample(slots, rng.choice((1, 1, 2))):
                word = rng.choice(("", *family.spelling.vocabulary[slot]))
                changed.pop(slot, None)
                if word:
                    changed[slot] = word
            opcode = family.spelling.write({slot: changed.get(slot, "") for slot in slots})
            opcode = re.sub(r"\.\.+", ".", opcode).strip(".")
            if frozenset(changed.items()) in legal:
                assert family.spelling.read(parse(opcode).opcode) == changed
                continue
            if set(opcode.split(".")) >= set(family.spelling.fixed) and parse_or_none(opcode) is not None:
                continue  # an optional mark less makes it an instruction of a more general family
            with pytest.raises(IllegalInstruction) as error:
                parse(opcode)
            assert "PTX ISA 9.7.14." in str(error.value) or "is followed by" in str(error.value)
            tried += 1
    assert tried


def parse_or_none(opcode):
    try:
        return parse(opcode)
    except IllegalInstruction:
        return None


def check_order(family, fixed=()):
    """Qualifiers in any order print in the documented one. Words that stand for operands keep their own order."""
    rng = random.Random(5)
    formats = set(tcemu.formats.FORMATS)
    for _, instruction in family.variants:
        mnemonic, *words = instruction.opcode.split(".")
        ordered = {"types": iter([w for w in words if w in formats]), "rest": iter([w for w in words if w in fixed])}
        layouts = iter([w for w in words if w in ("row", "col")])
        rng.shuffle(words)
        words = [
            next(ordered["types"]) if w in formats
            else next(layouts) if w in ("row", "col")
            else next(ordered["rest"]) if w in fixed
            else w
            for w in words
        ]  # fmt: skip
        assert str(parse(".".join([mnemonic, *words]))) == instruction.opcode


def vectors(text):
    """The operands of an assembler line behind its opcode: a count for a vector, text for anything else."""
    opcode, _, rest = text.rstrip(";").partition(" ")
    return (
        opcode,
        [
            part.count(",") + 1 if part.startswith("{") else part
            for part in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
        ],
        re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest),
    )


def operand_verdicts(*starts):
    """(note, line, target, accepted) of legality_operands.csv for opcodes that start so, or a skip."""
    path = SHARED / "reference" / "legality_operands.csv"
    if not path.exists():
        pytest.skip(f"the assembler's verdicts on operands are not at {path}")
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["instruction"].startswith(starts)]
    return [(row["note"], row["instruction"], row["target"], row["accepted"] == "1") for row in rows]


def recording(family, monkeypatch):
    """The cases of a recorded family, or a skip."""
    place = SHARED / "silicon"
    if not (place / "replay.py").exists():
        pytest.skip(f"no recording at {place}")
    monkeypatch.syspath_prepend(str(place))
    spec = importlib.util.spec_from_file_location("replay", place / "replay.py")
    replay = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "replay", replay)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec.loader.exec_module(replay)
    return replay.replay(families={family})


def check_recording(family, monkeypatch, at_least):
    """No register and no byte differs from what an H200 answered."""
    seen = 0
    for case in recording(family, monkeypatch):
        memories = {case.memory[0]: case.memory[1].copy()} if case.memory else {}
        got = tcemu.run(case.instruction, *case.operands, **memories)
        if case.stores:
            assert got is None
            got = memories[case.memory[0]]
        digest = hashlib.sha256(np.ascontiguousarray(got).tobytes()).hexdigest()
        assert digest == case.sha256, case.label
        seen += 1
    assert seen >= at_least


def elements(instruction, kind, key, warps):
    """Registers of A, B and C of a class of inputs."""
    fragments = instruction.fragments
    return [registers(fragments[role], kind, f"{key}|{instruction.opcode}|{kind}|{role}", warps) for role in "abc"]


def kinds(instruction):
    """The classes of inputs that differ for an instruction."""
    return CLASSES if instruction.types["a"].kind == "float" else ("bits",)


def by_reference(monkeypatch):
    """Everything by the plain-Python reference from here on."""
    for module in ("tcemu.arithmetic.compute", "tcemu.layouts.fragment", "tcemu.instructions.memory"):
        monkeypatch.setattr(importlib.import_module(module), "backend", lambda: "reference")


def only_tcemu_errors(call, *arguments, **named):
    """The answer, or None where it was refused in words."""
    try:
        return call(*arguments, **named)
    except TcemuError as error:
        message = str(error)
    assert message
    assert len(message) < 3000
    return None

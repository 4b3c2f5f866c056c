"""What the assembler says (tests/golden/ptxas*.txt), and the checks and inputs that the families' tests share."""

import random
import re

import ask_assembler
import pytest
from quick import some

import tcemu
from tcemu import IllegalInstruction, TcemuError, parse
from tcemu.vectors import CLASSES, registers

#: Targets for which the assembler was asked.
ASKED = ask_assembler.TARGETS


def accepted(instruction, **where):
    """Whether parse takes it there."""
    try:
        return parse(instruction, **where) is not None
    except IllegalInstruction:
        return False


def check_refusals(family, count):
    """Opcodes a word or two away from legal ones are refused, unless they are legal themselves; every error teaches."""
    legal = {frozenset(words.items()) for words, _ in family.variants}
    rng = random.Random(11)
    slots = list(family.spelling.vocabulary)
    tried = 0
    for words, _ in some(family.variants, 100):
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
            assert "PTX ISA 9.1, 9.7.14." in str(error.value) or "is followed by" in str(error.value)
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
    for _, instruction in some(family.variants, 100):
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
    """(line, target, whether the assembler takes it) for opcodes that start so."""
    return [(line, target, taken) for taken, target, line in ask_assembler.operand_lines() if line.startswith(starts)]


def elements(instruction, kind, key, warps):
    """Registers of A, B and C of a class of inputs."""
    fragments = instruction.fragments
    return [registers(fragments[role], kind, f"{key}|{instruction.opcode}|{kind}|{role}", warps) for role in "abc"]


def kinds(instruction):
    """The classes of inputs that differ for an instruction."""
    return CLASSES if instruction.types["a"].kind == "float" else ("bits",)


def by_reference(monkeypatch):
    """Everything by the plain-Python reference from here on."""
    monkeypatch.setattr("tcemu.backend._State.chosen", "reference")


def only_tcemu_errors(call, *arguments, **named):
    """The answer, or None where it was refused in words."""
    try:
        return call(*arguments, **named)
    except TcemuError as error:
        message = str(error)
    assert message
    assert len(message) < 3000
    return None

"""Which opcodes are instructions: the table against the assembler, for every opcode, PTX version and target."""

import ask_assembler
import pytest
from ptxas import VERSIONS

from tcemu import IllegalInstruction, parse
from tcemu.instructions import FAMILIES, target_named

VERDICTS = ask_assembler.read()
ASKED = [family for family in FAMILIES if family.name in ask_assembler.OPERANDS]
RENEW = "ask the assembler with tools/ask_assembler.py"


@pytest.mark.parametrize("family", ASKED, ids=lambda family: family.name)
def test_the_table_is_what_the_assembler_takes(row, family):
    asked = []
    for _, instruction in family.variants:
        assert instruction.opcode in VERDICTS, f"nobody has asked about {instruction}: {RENEW}"
        verdict = VERDICTS[instruction.opcode]
        if not verdict.ptxas:
            continue
        gate = instruction.gate
        targets = tuple(name for name in ask_assembler.TARGETS if gate.admits(target_named(name)))
        if (gate.ptx, targets) != verdict[1:] or verdict not in asked:
            with row(instruction.opcode):
                assert (gate.ptx, targets) == verdict[1:]
                check(instruction, verdict)
            asked.append(verdict)


def check(instruction, verdict):
    """parse agrees with the verdict; one instruction of each verdict is enough, because a gate decides for all."""
    before = VERSIONS[VERSIONS.index(verdict.version) - 1]
    assert parse(instruction.opcode, target=verdict.targets[0], ptx=verdict.version).opcode == instruction.opcode
    with pytest.raises(IllegalInstruction, match=rf"ISA {verdict.version}; \.version {before} is too old"):
        parse(instruction.opcode, ptx=before)
    for name in ask_assembler.TARGETS:
        if name in verdict.targets:
            assert parse(instruction.opcode, target=name).opcode == instruction.opcode
        else:
            with pytest.raises(IllegalInstruction, match=f"does not exist on {name}"):
                parse(instruction.opcode, target=name)


def test_the_table_lacks_nothing_that_the_assembler_took():
    opcodes = {instruction.opcode for family in ASKED for _, instruction in family.variants}
    assert VERDICTS.keys() == opcodes, f"{RENEW}: it drops what is gone"
    assert all(verdict.targets for verdict in VERDICTS.values() if verdict.ptxas), "a row that it takes nowhere"


def test_the_verdicts_say_who_gave_them():
    for verdict in set(VERDICTS.values()):
        assert not verdict.ptxas or verdict.ptxas.count(".") == 2
        assert set(verdict.targets) <= set(ask_assembler.TARGETS)


def test_patterns_hold_what_was_written_and_nothing_else(tmp_path):
    for verdict in set(VERDICTS.values()):
        opcodes = sorted(opcode for opcode, said in VERDICTS.items() if said == verdict)
        found = ask_assembler.patterns(opcodes)
        assert sorted(opcode for pattern in found for opcode in ask_assembler.expand(pattern)) == opcodes
    ask_assembler.write(VERDICTS, tmp_path / "again.txt")
    assert ask_assembler.read(tmp_path / "again.txt") == VERDICTS

"""The families that belong in a kernel: legal is what ptxas takes, spellings go both ways, errors teach.

assembler.txt beside this file has ptxas's verdicts; tools/ask_plain_families.py wrote it and says how to read it.
"""

from collections import defaultdict
from itertools import product
from pathlib import Path

import pytest

from tcemu.instructions import FAMILIES, TARGETS

KERNEL = [family for family in FAMILIES if family.execute is None]


def verdicts():
    """For each family its forms and its hinted forms: (words, lowest PTX version, targets), and the words asked."""
    targets, found = {}, defaultdict(lambda: {"forms": [], "hints": [], "asked": {}})
    for line in (Path(__file__).parent / "assembler.txt").read_text().splitlines():
        if line.startswith("["):
            family = found[line.strip("[]")]
        elif " = " in line:
            mark, _, names = line.partition(" = ")
            targets[mark] = names.split()
        elif line and not line.startswith("#"):
            kind = "hints" if line.startswith("hints ") else "forms"
            head, _, slots = line.removeprefix("hints ").partition(": ")
            words = {slot: chosen.split(",") for slot, _, chosen in (each.partition("=") for each in slots.split())}
            if head == "asked":
                family["asked"][kind] = words
                continue
            version, mark = head.split()
            for chosen in product(*words.values()):
                spelt = {slot: word for slot, word in zip(words, chosen, strict=True) if word != "-"}
                family[kind].append((spelt, version, targets[mark]))
    return found


VERDICTS = verdicts()


def gate(instruction):
    return instruction.gate.ptx, [name for name, target in TARGETS.items() if instruction.gate.admits(target)]


@pytest.mark.parametrize("family", KERNEL, ids=lambda family: family.name)
def test_legal_is_what_the_assembler_takes(family):
    """Every product of words was asked: the forms of the table are those that ptxas takes, there and from then on."""
    told = VERDICTS[family.name]
    spelt = {family.spelling.write(words): (version, targets) for words, version, targets in told["forms"]}
    assert {form.opcode: gate(form) for _, form in family.variants} == spelt
    for slot, words in family.spelling.vocabulary.items():
        asked = {word for kind in told["asked"].values() for word in kind.get(slot, ())}
        assert asked >= set(words), f"ptxas was not asked for all words of .{slot}"


@pytest.mark.parametrize(
    "family", [each for each in KERNEL if any(row.hints for row in each.rows)], ids=lambda family: family.name
)
def test_hints_are_what_the_assembler_takes(family):
    """The first form of each row with every combination of hints."""
    told = VERDICTS[family.name]
    taken = {family.spelling.write(words): (version, targets) for words, version, targets in told["hints"]}
    slots = {slot: {} for row in family.rows for slot in row.hints}
    for slot, words in ((slot, words) for row in family.rows for slot, words in row.hints.items()):
        slots[slot] |= dict.fromkeys(words)
    mine = {}
    for chosen in product(*(["", *words] for words in slots.values())):
        hints = {slot: word for slot, word in zip(slots, chosen, strict=True) if word}
        for words in (row.ends[0] | hints for row in family.rows if hints):
            if any(row.admits(words) for row in family.rows):
                mine[family.spelling.write(words)] = gate(family.find(words))
    assert mine == taken

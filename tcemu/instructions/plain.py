"""Families without fragments: what a kernel executes beside matrix instructions. Here is how they are put together.

None of them means anything alone, so `execute` is None: tcemu.run refuses them, and the machine executes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.rows import Hints, Rows, latest, vocabulary
from tcemu.instructions.spelling import Spelling, Words

#: A target that has every instruction which the table calls old.
OLDEST = "6.0", "sm_70"
#: Facts of an instruction that a thread executes for itself, and of one that a warp executes together.
THREAD, WARP = Facts(lanes=1), Facts(lanes=32)
#: Why the machine does not execute what works between the blocks of a cluster.
CLUSTERS = "it needs thread-block clusters, which this machine does not have yet"


class Part(NamedTuple):
    """Words of some slots, with the PTX version and the targets that they need."""

    slots: Mapping[str, Iterable[str]]
    ptx: str = OLDEST[0]
    since: str = OLDEST[1]


def family(
    name: str, template: str, section: str, rows: Sequence[Rows], *, stems: Iterable[str] = (), **told: Any
) -> Family:
    """The family of `name`, spelt by `template`, whose opcodes begin with `stems`: with `name`, where none is given."""

    def make(words: Words, row: Rows, opcode: str) -> Instruction:
        return Instruction(opcode, name, section, Shape(), row.gate_of(words), {}, {}, words, row.facts)

    mnemonic, _, _ = name.partition(".")
    told |= {"mnemonic": mnemonic, "stems": tuple(stems) or (name,), "plain": True}
    found = vocabulary(rows)
    # the nearest form keeps what an opcode does before how much of it
    words = {slot: found[slot] for slot in sorted(re.findall(r"{(\w+)}", template), key=lambda slot: slot == "vec")}
    ends = ("dst", "src") if {"dst", "src"} <= set(words) else ()
    return Family(name, section, Spelling(template, words, ends), tuple(rows), make, **told)


def combined(*choices: Iterable[Part], facts: Facts = THREAD, hints: Hints | None = None) -> list[Rows]:
    """Rows for every combination of parts, one of each choice; each needs what all of its parts need."""
    found = []
    for parts in product(*choices):
        slots: dict[str, Iterable[str]] = {}
        for part in parts:
            slots |= part.slots
        ptx, since = latest(*((part.ptx, part.since) for part in parts))
        found.append(Rows(slots, ptx, since, facts, hints or {}))
    return found


def one(ptx: str = OLDEST[0], since: str = OLDEST[1], facts: Facts = THREAD, **slots: str) -> Rows:
    """A row whose slots have the words of a text each; a text that begins with a blank leaves the slot out, too."""
    return Rows({slot: words.split(" ") for slot, words in slots.items()}, ptx, since, facts)

"""How families without fragments are built: what a kernel executes besides matrix instructions.

None of them has a meaning outside a kernel, so `execute` is None: tcemu.run rejects them; the machine executes them.
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

#: The oldest PTX version and target of the tables.
OLDEST = "6.0", "sm_70"
#: Facts of an instruction that each thread executes for itself, and of one that a warp executes together.
THREAD, WARP = Facts(lanes=1), Facts(lanes=32)


class Part(NamedTuple):
    """Words of some slots, and the PTX version and targets that they need."""

    slots: Mapping[str, Iterable[str]]
    ptx: str = OLDEST[0]
    since: str = OLDEST[1]


def family(
    name: str,
    template: str,
    section: str,
    rows: Sequence[Rows],
    *,
    stems: Iterable[str] = (),
    sequence: tuple[str, ...] = (),
    **fields: Any,
) -> Family:
    """The family called `name`, spelt by `template`; its opcodes begin with one of `stems`, by default with `name`.

    With `distinguishing` and without `stems`, they have one of these words, wherever the assembler takes it.
    """

    def make(words: Words, row: Rows, opcode: str) -> Instruction:
        return Instruction(opcode, name, section, Shape(), row.gate_of(words), {}, {}, words, row.facts)

    mnemonic, _, _ = name.partition(".")
    begins = tuple(stems) or (() if "distinguishing" in fields else (name,))
    fields |= {"mnemonic": mnemonic, "stems": begins, "plain": True}
    slots = vocabulary(rows)
    # the nearest form keeps the other words rather than the vector
    words = {slot: slots[slot] for slot in sorted(re.findall(r"{(\w+)}", template), key=lambda slot: slot == "vec")}
    ends = sequence or (("dst", "src") if {"dst", "src"} <= set(words) else ())
    return Family(name, section, Spelling(template, words, ends), tuple(rows), make, **fields)


def single(name: str, section: str, row: Rows, **fields: Any) -> Family:
    """A family with a single form, spelt like its name."""
    return family(name, name, section, [row], **fields)


def combined(*choices: Iterable[Part], facts: Facts = THREAD, hints: Hints | None = None) -> list[Rows]:
    """Rows for every combination of one part from each choice; a row needs what all of its parts need."""
    rows = []
    for parts in product(*choices):
        slots: dict[str, Iterable[str]] = {}
        for part in parts:
            slots |= part.slots
        ptx, since = latest(*((part.ptx, part.since) for part in parts))
        rows.append(Rows(slots, ptx, since, facts, hints or {}))
    return rows


def one(ptx: str = OLDEST[0], since: str = OLDEST[1], facts: Facts = THREAD, **slots: str) -> Rows:
    """A row whose slots have the words of a string each; where that begins with a blank, the slot may be left out."""
    return Rows({slot: words.split(" ") for slot, words in slots.items()}, ptx, since, facts)

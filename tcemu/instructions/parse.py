"""From text to an instruction, or to an error that teaches."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from functools import lru_cache

from tcemu.errors import IllegalInstruction, TargetError, did_you_mean, listing, nearest, shown
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.table import FAMILIES, family_of
from tcemu.instructions.targets import target_named

#: An opcode that errors show as an example.
EXAMPLE = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_MNEMONICS = tuple(dict.fromkeys(family.mnemonic for family in FAMILIES))
#: Tensor-core instructions that the package does not run yet; the error says so instead of calling them unknown.
_NOT_YET = ("tcgen05",)


def parse(instruction: str | Instruction, target: str | None = None, ptx: str | None = None) -> Instruction:
    """The instruction that an opcode with all its qualifiers spells.

    For example "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32". Qualifiers may be in any order, as for the
    assembler; the result prints them in the documented order. If `target` ("sm_90a") or `ptx` ("8.7") is given, the
    instruction must exist there.

    Raises IllegalInstruction if there is no such instruction, or not there, and TargetError for a target or version
    that does not exist.
    """
    found = instruction if isinstance(instruction, Instruction) else _parse(_as_opcode(instruction))
    if target is not None:
        _check_target(found, target)
    if ptx is not None:
        _check_ptx(found, ptx)
    return found if target is None else found.on(target_named(target))


def _as_opcode(text: object) -> str:
    if not isinstance(text, str):
        raise IllegalInstruction(
            f"an instruction is given as text, e.g. {EXAMPLE!r}; got {type(text).__name__}"
        )
    return text


@lru_cache(maxsize=4096)
def _parse(text: str) -> Instruction:
    opcode = text.strip().removesuffix(";").strip()
    if not opcode:
        raise IllegalInstruction("an empty text is not an instruction")
    if any(character.isspace() or character in "{}[](),%" for character in opcode):
        raise IllegalInstruction(
            f"{_shown(opcode)}: give only the opcode, e.g. {EXAMPLE!r}; operands are "
            f"separate arguments"
        )
    parts = opcode.split(".")
    family = next((family for family in reversed(FAMILIES) if family.claims(parts)), None)
    if family is None:
        raise IllegalInstruction(f"{_shown(opcode)}: {_unknown(opcode, parts[0])}")
    try:
        words = family.spelling.read(opcode)
    except IllegalInstruction as error:
        meant = _meant(parts, family)
        told = f"{error} Nearest legal form: {_nearest(opcode, meant)} (PTX ISA {meant.section})"
        raise IllegalInstruction(f"{_shown(opcode)}: {told}") from None
    try:
        found = family.find(words)
    except IllegalInstruction as error:
        raise IllegalInstruction(f"{_shown(opcode)}: {error} (PTX ISA {family.section})") from None
    if not family.begins(parts, found.opcode):
        told = f"its first words are in the wrong order. Nearest legal form: {found} (PTX ISA {family.section})"
        raise IllegalInstruction(f"{_shown(opcode)}: {told}")
    return found


def _meant(parts: list[str], family: Family) -> Family:
    """The family that an unreadable opcode was meant for: one whose mark or stem it nearly has, otherwise its own."""
    for other in reversed(FAMILIES):
        if other.mnemonic == family.mnemonic and not other.stems:
            if any(nearest(part, other.marks, cutoff=0.6) for part in parts[1:]):
                return other
        elif other.mnemonic == family.mnemonic and any(_begins(parts, stem.split("."), family) for stem in other.stems):
            return other
    close = [(start, other) for start, other in _starts_of(family.mnemonic) if _alike(start, parts) > 0.9]
    return max(close, key=lambda each: len(each[0]))[1] if close else family


def _alike(start: str, parts: list[str]) -> float:
    """How similar the first words of an opcode are to a stem, from 0 to 1."""
    words = ".".join(parts[: start.count(".") + 1])[:200]
    return SequenceMatcher(None, words, start).ratio()


def _begins(parts: list[str], stem: list[str], family: Family) -> bool:
    """Whether an opcode of `family` nearly begins with a longer stem, of which only the last word is misspelt."""
    *first, last = stem
    asked = parts[: len(stem)]
    if not first or asked[:-1] != first or not family.claims(first):
        return False
    return bool(nearest(asked[-1][:80], [last], cutoff=0.75))


def _nearest(opcode: str, family: Family) -> Instruction:
    """The form nearest to an unreadable opcode: the one with the fewest words changed, of several the most similar.

    Families without matrices have too many forms to compare; there, the meaning is guessed word by word.
    """
    text = opcode[:200]
    asked = Counter(text.split("."))
    if family.plain:
        guesses = [family.nearest(family.spelling.guess(text, similar=similar)) for similar in (True, False)]
        words = [Counter(form.opcode.split(".")) for form in guesses]
        return max(zip(guesses, words, strict=True), key=lambda each: _likeness(each[1], asked))[0]
    forms = [form for _, form in family.variants]
    spelt = [Counter(form.opcode.split(".")) for form in forms]
    alike = [2 * (asked & words).total() - words.total() for words in spelt]
    most = max(alike)
    among = [form for form, count in zip(forms, alike, strict=True) if count == most]
    return max(among, key=lambda form: SequenceMatcher(None, text, form.opcode).ratio())


def _likeness(words: Counter[str], asked: Counter[str]) -> tuple[int, int]:
    """A sort key: how many words of the form were asked for, then how few others it has."""
    return (words & asked).total(), -max(words.total() - asked.total(), 0)


def _shown(opcode: str) -> str:
    return opcode if len(opcode) <= 120 else f"{opcode[:117]}..."


def _unknown(opcode: str, mnemonic: str) -> str:
    starts = _starts_of(mnemonic)
    if starts:
        seconds = listing(sorted({start.removeprefix(mnemonic) for start, _ in starts}))
        _, meant = max(starts, key=lambda each: _alike(each[0], opcode.split(".")))
        near = f"Nearest legal form: {_nearest(opcode, meant)} (PTX ISA {meant.section})"
        return f"{mnemonic} is followed by {seconds}; this version runs no other form. {near}"
    if mnemonic in _NOT_YET:
        runs = listing(dict.fromkeys(family.mnemonic for family in FAMILIES if family.execute), "and")
        return f"{mnemonic} is a tensor-core instruction that this version does not run; it runs {runs}"
    hint, known = did_you_mean(mnemonic.lower(), [*_MNEMONICS, *_NOT_YET]), listing(_MNEMONICS, "and")
    return f"no instruction is called {shown(mnemonic)}.{hint} This version knows {known} (PTX ISA 9.7)"


def _starts_of(mnemonic: str) -> list[tuple[str, Family]]:
    """How opcodes with this mnemonic begin, by family: its stems, or the mnemonic and a mark."""
    return [
        (start, family)
        for family in FAMILIES
        if family.mnemonic == mnemonic
        for start in family.stems or [f"{mnemonic}.{mark}" for mark in sorted(family.marks)]
    ]


def _check_target(instruction: Instruction, target: str) -> None:
    if not isinstance(target, str):
        raise TargetError(f"a target is given as text, e.g. 'sm_90a'; got {shown(target)}")
    if not instruction.gate.admits(target_named(target)):
        raise IllegalInstruction(
            f"{instruction} does not exist on {target}: it needs {instruction.gate.targets} "
            f"(PTX ISA {instruction.section}, Target ISA Notes).{_alternative(instruction, target)}"
        )


def _alternative(instruction: Instruction, target: str) -> str:
    """The nearest form that exists on the target, as a sentence."""
    family = family_of(instruction)
    words = family.spelling.read(instruction.opcode)
    there = [variant for variant in family.variants if variant[1].gate.admits(target_named(target))]
    same = [v for v in there if all(v[0].get(slot) == words.get(slot) for slot in ("atype", "btype", "dtype"))]
    if not same:
        return f" {target} has no such instruction{' with these types' if instruction.types else ''}."
    shared = {form: sum(words.get(slot) == word for slot, word in own.items()) for own, form in same}
    best = max(shared, key=lambda form: (shared[form], form.shape))  # of equals, the largest tile
    return f" Nearest form there: {best.opcode}"


def _check_ptx(instruction: Instruction, ptx: str) -> None:
    if not isinstance(ptx, str):
        raise TargetError(f"a PTX version is given as text, e.g. '8.7'; got {shown(ptx)}")
    if not instruction.gate.admits_ptx(ptx):
        raise IllegalInstruction(
            f"{instruction} came with PTX ISA {instruction.gate.ptx}; .version {ptx} is too old "
            f"(PTX ISA {instruction.section}, PTX ISA Notes)"
        )

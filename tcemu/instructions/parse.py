"""From text to an instruction, or to an error that teaches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import takewhile

from tcemu.errors import IllegalInstruction, TargetError, listing, nearest, shown
from tcemu.instructions.cuda_names import opcode_of
from tcemu.instructions.family import Family, Where, anywhere
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.nearness import TYPED
from tcemu.instructions.other_instructions import instead
from tcemu.instructions.table import FAMILIES, family_of
from tcemu.instructions.targets import TARGETS, Gate, Target, ptx_version, target_named

#: An opcode that errors show as an example.
EXAMPLE = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_MNEMONICS = tuple(dict.fromkeys(family.mnemonic for family in FAMILIES))
#: SASS mnemonics, which ptxas generates, and the PTX instructions behind them.
_SASS = {
    **dict.fromkeys(("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA"), "mma.sync"),
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA", "BGMMA", "WARPGROUP"), "wgmma"),
    "LDSM": "ldmatrix", "STSM": "stmatrix", "MOVM": "movmatrix", "LDGSTS": "cp.async", "LDGDEPBAR": "cp.async",
    "UBLKCP": "cp.async.bulk", "UTMALDG": "cp.async.bulk.tensor", "UTMASTG": "cp.async.bulk.tensor",
    "SYNCS": "mbarrier", "LDG": "ld.global", "LDS": "ld.shared", "STG": "st.global", "STS": "st.shared",
    "SHFL": "shfl.sync", "BAR": "bar.sync",
}  # fmt: skip


def parse(instruction: str | Instruction, target: str | None = None, ptx: str | None = None) -> Instruction:
    """The instruction that an opcode with all its qualifiers spells.

    For example "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32". Qualifiers may be in any order, as for the
    assembler; the result prints them in the documented order. If `target` ("sm_90a") or `ptx` ("8.7") is given, the
    instruction must exist there.

    Raises IllegalInstruction if there is no such instruction, or not there, and TargetError for a target or version
    that does not exist.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", target="sm_90a")
    >>> mma
    <mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: registers a lane d 4, a 4, b 2, c 4; PTX 7.0, sm_80 or later>
    >>> mma.fragments["a"].shape, mma.types["d"].name
    ((16, 16), 'f32')
    >>> tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", target="sm_75")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tcemu.errors.IllegalInstruction: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 does not exist on sm_75: ...
    """
    if not isinstance(ptx, str | None):
        raise TargetError(f"a PTX version must be a string, e.g. '8.7'; got {shown(ptx)}")
    parsed = instruction if isinstance(instruction, Instruction) else _looked_up(_as_opcode(instruction), target, ptx)
    if target is not None:
        _check_target(parsed, target)
    if ptx is not None:
        _check_ptx(parsed, ptx, target)
    return parsed if target is None else parsed.on(target_named(target))


def _looked_up(text: str, target: str | None, ptx: str | None) -> Instruction:
    try:
        return _parse(text)
    except IllegalInstruction:
        if target is None and ptx is None:
            raise
    return _parse(text, _Where(None if target is None else _target(target), ptx))


@dataclass(frozen=True)
class _Where:
    """Whether an instruction exists on a target and in a PTX version, by its gate; None means any."""

    target: Target | None
    ptx: str | None

    def __call__(self, gate: Gate) -> bool:
        admitted = self.target is None or gate.admits(self.target)
        return admitted and (self.ptx is None or gate.admits_ptx(self.ptx))


def _as_opcode(text: object) -> str:
    if not isinstance(text, str):
        raise IllegalInstruction(f"an instruction must be a string, e.g. {EXAMPLE!r}; got {type(text).__name__}")
    return text


@lru_cache(maxsize=4096)
def _parse(text: str, where: Where = anywhere) -> Instruction:
    opcode = text.strip().removesuffix(";").strip()
    if not opcode:
        raise IllegalInstruction("an empty string is not an instruction")
    if any(character.isspace() or character in "{}[](),%" for character in opcode):
        raise IllegalInstruction(
            f"{_shown(opcode)}: give only the opcode, e.g. {EXAMPLE!r}; operands are separate arguments"
        )
    parts = opcode.split(".")
    family = next((family for family in reversed(FAMILIES) if family.claims(parts)), None)
    if family is None:
        raise IllegalInstruction(f"{_shown(opcode)}: {_unknown(opcode, parts[0], where)}")
    try:
        words = family.spelling.read(opcode)
    except IllegalInstruction as error:
        raise IllegalInstruction(f"{_shown(opcode)}: {_misread(opcode, error, family, where)}") from None
    try:
        parsed = family.find(words, where)
    except IllegalInstruction as error:
        raise IllegalInstruction(f"{_shown(opcode)}: {error} (PTX ISA {family.section})") from None
    if not family.begins(parts, parsed.opcode):
        problem = f"its first words are in the wrong order. Nearest legal form: {parsed} (PTX ISA {family.section})"
        raise IllegalInstruction(f"{_shown(opcode)}: {problem}")
    return parsed


def _misread(opcode: str, error: IllegalInstruction, claimed: Family, where: Where) -> str:
    """Why an opcode is unreadable, in the words of the family that was probably meant, and the nearest legal form."""
    near, family = _meant(opcode, claimed.mnemonic, claimed)
    problem: object = error
    try:
        family.spelling.read(opcode, like=near.opcode)
    except IllegalInstruction as better:
        problem = better
    asked = _words(opcode)
    guess = family.spelling.guess(".".join(asked))
    dropped = [word for word in Counter(asked) - Counter(guess.values()) if family.spelling.takes(word)]
    lesson = "" if dropped else family.lesson(guess)  # which knows nothing of a word too many
    return f"{lesson or problem} {_hint(near, family, where)}"


def _hint(near: Instruction, family: Family, where: Where) -> str:
    """The nearest legal form, or the nearest that exists there, and the section."""
    return f"{family.hint(dict(near.words), where)} (PTX ISA {family.section})"


def _meant(opcode: str, mnemonic: str, claimed: Family | None = None) -> tuple[Instruction, Family]:
    """The form that an unreadable opcode probably meant: of each family's nearest form, the one most like the opcode.

    A family that claims the opcode and knows all of its words is the one that was meant. Among equals, the family that
    claims the opcode wins, then the one whose stem begins alike, then the one with the shorter stem, then the first.
    """
    families = [family for family in FAMILIES if family.mnemonic == mnemonic]
    if claimed is not None and all(claimed.spelling.knows(word) for word in _words(opcode) if word):
        families = [claimed]
    near = [(_nearest(opcode, family), family) for family in sorted(families, key=lambda each: each is not claimed)]
    return max(near, key=lambda each: (_alike(opcode, *each), _begun(opcode, each[1]), -_shortest(each[1])))


def _begun(opcode: str, family: Family) -> int:
    """The number of words of one of its stems with which an opcode begins."""
    stems = [list(zip(stem.split("."), _words(opcode), strict=False)) for stem in family.stems]
    return max((len([*takewhile(lambda pair: pair[0] == pair[1], pairs)]) for pairs in stems), default=0)


def _shortest(family: Family) -> int:
    """The length of the family's shortest stem, in dots."""
    return min((stem.count(".") for stem in family.stems), default=0)


def _alike(opcode: str, form: Instruction, family: Family) -> float:
    """How much of an opcode a form has: the likeness of each word to the form's most similar word.

    The word that distinguishes the family from others counts twice.
    """
    words, asked = form.opcode.split("."), _words(opcode)
    likeness = (max(SequenceMatcher(None, word, other).ratio() for other in words) for word in asked)
    distinguished = not family.distinguishing.isdisjoint(asked)
    return sum(ratio for ratio in likeness if ratio >= 0.5) + distinguished


def _words(opcode: str) -> list[str]:
    """The words of an opcode, cut off where a comparison would take too long."""
    return opcode[:200].split(".")


def _nearest(opcode: str, family: Family) -> Instruction:
    """The form nearest to an unreadable opcode, whose meaning is guessed word by word."""
    asked = _words(opcode)
    text = ".".join(asked)
    guesses = [family.nearest(family.spelling.guess(text, similar=similar)) for similar in (True, False)]
    return max(guesses, key=lambda form: _shared(form.opcode, asked))


def _shared(form: str, asked: list[str]) -> tuple[int, int]:
    """A sort key: how many words of the form were asked for, then how few others it has."""
    words = form.split(".")
    return (Counter(words) & Counter(asked)).total(), -max(len(words) - len(asked), 0)


def _shown(opcode: str) -> str:
    return opcode if len(opcode) <= 120 else f"{opcode[:117]}..."


def _unknown(opcode: str, mnemonic: str, where: Where) -> str:
    if mnemonic in _MNEMONICS:
        seconds = listing(sorted({start.removeprefix(mnemonic) for start in _starts_of(mnemonic)}))
        near = _hint(*_meant(opcode, mnemonic), where)
        return f"{mnemonic} is followed by {seconds}; this version runs no other form. {near}"
    known = f"This version knows {listing(_MNEMONICS, 'and')} (PTX ISA 9.7)"
    advice = instead(mnemonic)
    if advice:  # it exists, so it is not corrected to a similar one
        return f"PTX has {mnemonic}; {advice}. {known}"
    if mnemonic in _SASS:
        return f"this is SASS, which ptxas generates from PTX; the PTX instruction is {_SASS[mnemonic]}. {known}"
    called = opcode_of(opcode)
    if called:
        return f"this is a name of CUDA C++; the PTX instruction is {called}. {known}"
    small = opcode.lower()
    family = next((family for family in reversed(FAMILIES) if family.claims(small.split("."))), None)
    if family is not None and small != opcode:
        return f"PTX is written in lower case. {_hint(_nearest(small, family), family, where)}"
    return f"no instruction is called {shown(mnemonic)}.{_mnemonic_meant(mnemonic.lower()[:80])} {known}"


def _mnemonic_meant(word: str) -> str:
    """A hint for an unknown mnemonic: the one that it misspells, or that is part of it, as in CUDA's __shfl_sync."""
    mnemonics = [each for each in word.split("_") if each in _MNEMONICS]
    mnemonics = mnemonics or nearest(word, _MNEMONICS, cutoff=0.7)
    return f" Did you mean {mnemonics[0]!r}?" if mnemonics else ""


def _starts_of(mnemonic: str) -> list[str]:
    """How opcodes with this mnemonic begin, by family: its stems, or the mnemonic and a mark."""
    return [
        start
        for family in FAMILIES
        if family.mnemonic == mnemonic
        for start in family.stems or [f"{mnemonic}.{word}" for word in sorted(family.distinguishing)]
    ]


def _target(name: object) -> Target:
    if not isinstance(name, str):
        raise TargetError(f"a target must be a string, e.g. 'sm_90a'; got {shown(name)}")
    return target_named(name)


def _check_target(instruction: Instruction, name: object) -> None:
    target = _target(name)
    if not instruction.gate.admits(target):
        raise IllegalInstruction(
            f"{instruction} does not exist on {target}: it needs {instruction.gate.targets} "
            f"(PTX ISA {instruction.section}, Target ISA Notes).{_alternative(instruction, target)}"
        )


def _alternative(instruction: Instruction, target: Target) -> str:
    """The target of the same chip that has the instruction, or the nearest form that exists there, as a sentence."""
    chip = [each for each in TARGETS.values() if each.number == target.number]
    own = next((each for each in chip if instruction.gate.admits(each)), None)
    if own is not None:
        later = "later GPUs of its family" if target.suffix else "later GPUs"
        return f" Compile for {own}: {target} has only what {later} have too."
    family = family_of(instruction)
    words = dict(instruction.words)
    nearest_there = family.nearest_where(words, lambda gate: gate.admits(target))
    why = next((f" {each.reason}" for each in family.refusals if each.applies(words)), "")
    if nearest_there is None:
        return why
    if any(nearest_there.words.get(slot) != words.get(slot) for slot in TYPED):
        return f" {target} has no such instruction with these types.{why}"
    return f" Nearest form there: {nearest_there.opcode}"


def _check_ptx(instruction: Instruction, ptx: str, target: str | None) -> None:
    if not instruction.gate.admits_ptx(ptx):
        raise IllegalInstruction(
            f"{instruction} was introduced in PTX ISA {instruction.gate.ptx}; .version {ptx} is too old "
            f"(PTX ISA {instruction.section}, PTX ISA Notes)"
        )
    chip = None if target is None else target_named(target)
    if chip is not None and ptx_version(ptx) < ptx_version(chip.ptx):
        raise TargetError(f"{chip} was introduced in PTX ISA {chip.ptx}; .version {ptx} is too old for .target {chip}")

"""THE TABLE of shared-memory accesses, and what a warp's access costs in wavefronts.

Shared memory has 32 banks, each 4 bytes wide: byte address a lies in bank a / 4 mod 32. A wavefront is one pass over
the banks, in which each bank gives or takes one 4-byte word, from or to any number of lanes. An access goes in phases,
each of as many lanes as can move 128 bytes; a phase takes as many wavefronts as its busiest bank has distinct words.

    4 bytes a lane      one phase of 32 lanes         ld.shared.b32
    8                   two of 16                     ld.shared.v2.b32
    16                  four of 8                     ld.shared.v4.b32
    rows of 16          one for each 8 rows           ldmatrix, .trans alike

Loads of 8 or 16 bytes do better where lanes agree in pairs: if every lane n has the address of lane n xor 1, or every
lane that of lane n xor 2, each two neighbouring phases become one. So a broadcast costs 1 wavefront with 8 bytes and 2
with 16. It is not enough that two phases read the same words, and ldmatrix has nothing of the kind.

How this is known. Phases and busiest banks: clock cycles of an H200 (sm_90a), seven forms of ld and ldmatrix with 256
sets of addresses each, 0 differences. Pairs: an NVIDIA engineer's statement about compute capability 7.x (developer
forum, topic 77228, "Unexpected shared memory bank conflict"), and 22 sets of addresses that tell it from its rivals,
put to the same H200: all cycles agree (tests/golden/sm_90a-wavefronts.json). Stores gain nothing from pairs there, but
their cycles do not settle their count; it, elements below 4 bytes and 8-bit matrices are inferred from neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.table import Known
from tcemu.errors import IllegalInstruction, TableError, listing, nearest
from tcemu.instructions import Instruction, parse
from tcemu.instructions.matrix_move import row_bytes

Addresses = npt.NDArray[np.int64]

LANES = 32
BANKS = 32
#: Bytes of one word, which is what a bank moves in a wavefront.
WORD = 4


@dataclass(frozen=True)
class Access:
    """One kind of access: who goes together."""

    #: The documented spelling.
    spelling: str
    #: Bytes from the address of one lane on; the address is a multiple of it.
    bytes: int
    #: Lanes whose addresses count: 0 up to this.
    lanes: int
    #: Lanes of one phase.
    phase: int
    #: Whether two phases become one where lanes agree in pairs.
    pairs: bool
    known: Known

    def __post_init__(self) -> None:
        if self.known not in get_args(Known):
            raise TableError(f"how is {self.spelling} known? say one of {listing(get_args(Known))}")
        fits = self.lanes % self.phase == 0 and self.phase * self.unit <= BANKS * WORD
        if not fits or (self.pairs and self.phases % 2):
            lanes = f"{self.lanes} lanes of {self.bytes} bytes"
            raise TableError(f"{self.spelling}: {lanes} do not go {self.phase} at a time")

    @property
    def unit(self) -> int:
        """Bytes of the banks that one lane keeps busy; addresses in the same unit read the same words."""
        return max(self.bytes, WORD)

    @property
    def phases(self) -> int:
        """Phases of a warp whose lanes do not agree in pairs."""
        return self.lanes // self.phase

    def __str__(self) -> str:
        return self.spelling


def _row(spelling: str, bytes_: int, lanes: int, phase: int, *, pairs: bool = False, known: Known) -> list[Access]:
    """One access for each spelling: its words stand apart from each other, bars between the alternatives."""
    choices = [word.split("|") for word in spelling.split()]
    return [Access(".".join(filter(None, words)), bytes_, lanes, phase, pairs, known) for words in product(*choices)]


B8, B16, B32, B64 = "b8|u8|s8", "b16|u16|s16", "b32|u32|s32|f32", "b64|u64|s64|f64"
ORDER, SPACE = "|weak|volatile", "shared|shared::cta"
LD, ST = f"ld {ORDER} {SPACE}", f"st {ORDER} {SPACE}"
#: ld and st by their documented spelling. Columns: bytes a lane, lanes that give addresses, lanes a phase.
ACCESSES = {
    access.spelling: access
    for access in (
        *_row(f"{LD} {B32}", 4, 32, 32, known="silicon"),
        *_row(f"{LD} v2 {B32}", 8, 32, 16, pairs=True, known="silicon"),
        *_row(f"{LD} v4 {B32}", 16, 32, 8, pairs=True, known="silicon"),
        # The same bytes a lane in other elements.
        *_row(f"{LD} {B8}", 1, 32, 32, known="inferred"),
        *_row(f"{LD} {B16}", 2, 32, 32, known="inferred"),
        *_row(f"{LD} v2 {B8}", 2, 32, 32, known="inferred"),
        *_row(f"{LD} v2 {B16}", 4, 32, 32, known="inferred"),
        *_row(f"{LD} v4 {B8}", 4, 32, 32, known="inferred"),
        *_row(f"{LD} v4 {B16}", 8, 32, 16, pairs=True, known="inferred"),
        *_row(f"{LD} {B64}", 8, 32, 16, pairs=True, known="inferred"),
        *_row(f"{LD} v2 {B64}", 16, 32, 8, pairs=True, known="inferred"),
        *_row(f"{LD} b128", 16, 32, 8, pairs=True, known="inferred"),
        # Stores, as if they were loads: lanes that write the same word go together. Pairs are a matter of loads.
        *_row(f"{ST} {B8}", 1, 32, 32, known="inferred"),
        *_row(f"{ST} {B16}", 2, 32, 32, known="inferred"),
        *_row(f"{ST} v2 {B8}", 2, 32, 32, known="inferred"),
        *_row(f"{ST} {B32}", 4, 32, 32, known="inferred"),
        *_row(f"{ST} v2 {B16}", 4, 32, 32, known="inferred"),
        *_row(f"{ST} v4 {B8}", 4, 32, 32, known="inferred"),
        *_row(f"{ST} {B64}", 8, 32, 16, known="inferred"),
        *_row(f"{ST} v2 {B32}", 8, 32, 16, known="inferred"),
        *_row(f"{ST} v4 {B16}", 8, 32, 16, known="inferred"),
        *_row(f"{ST} b128", 16, 32, 8, known="inferred"),
        *_row(f"{ST} v2 {B64}", 16, 32, 8, known="inferred"),
        *_row(f"{ST} v4 {B32}", 16, 32, 8, known="inferred"),
    )
}


#: Instructions that move rows, 8 of them a phase, by mnemonic and shape; the lanes that give addresses are
#: as many as the matrices have rows, which the instruction table says.
MATRICES: Mapping[tuple[str, str], Known] = {
    ("ldmatrix", "m8n8"): "silicon",
    ("ldmatrix", "m16n16"): "inferred",
    ("ldmatrix", "m8n16"): "inferred",
    ("stmatrix", "m8n8"): "inferred",
    ("stmatrix", "m16n8"): "inferred",
}
_MNEMONICS = ("ld", "st", *dict.fromkeys(mnemonic for mnemonic, _ in MATRICES))


def _key(words: Iterable[str]) -> tuple[str, ...]:
    """What a spelling is looked up by: the assembler takes qualifiers after the mnemonic in any order."""
    mnemonic, *qualifiers = words
    return (mnemonic, *sorted(qualifiers))


_BY_WORDS = {_key(spelling.split(".")): access for spelling, access in ACCESSES.items()}


def access_named(text: str | Instruction) -> Access:
    """The access that `text` spells. Raises IllegalInstruction with the nearest spelling where there is none."""
    if not isinstance(text, str | Instruction):
        raise IllegalInstruction(f"an access is given as text, e.g. 'ld.shared.v4.b32'; got {type(text).__name__}")
    return _access_named(text if isinstance(text, str) else text.opcode)


@lru_cache(maxsize=4096)
def _access_named(text: str) -> Access:
    words = text.strip().removesuffix(";").strip().split(".")
    if any(words[0] == mnemonic for mnemonic, _ in MATRICES):
        return _matrix_access(parse(text))
    found = _BY_WORDS.get(_key(words))
    if found is None:
        raise IllegalInstruction(_no_access(text if len(text) <= 120 else f"{text[:117]}...", words[:16]))
    return found


def _matrix_access(instruction: Instruction) -> Access:
    (fragment,) = instruction.fragments.values()
    known = MATRICES[instruction.family, instruction.words["shape"]]
    return Access(instruction.opcode, row_bytes(instruction), prod(fragment.shape[:-1]), 8, pairs=False, known=known)


#: Words that say why an access is none.
_WHY = {
    "shared::cluster": " The banks of the cluster's other blocks are not modelled.",
    "global": " Global memory has no banks.",
}


def _no_access(text: str, words: list[str]) -> str:
    reasons = "".join(_WHY.get(word, "") for word in words)
    size = " A lane moves at most 16 bytes." if words[0] in ("ld", "st") else ""
    return f"{text!r} is no access to shared memory by {listing(_MNEMONICS)}. {_nearest(text, words)}{reasons}{size}"


def _nearest(text: str, words: list[str]) -> str:
    """The spelling with the most words in common; of several a measured one, then the one that looks most alike."""
    mnemonic = nearest(words[0], _MNEMONICS)
    family = [access for access in ACCESSES.values() if [access.spelling.split(".")[0]] == mnemonic]
    if not family:
        return "Accepted are for example 'ld.shared.v4.b32' and 'ldmatrix.sync.aligned.m8n8.x4.shared.b16'."

    def likeness(access: Access) -> tuple[int, bool, float]:
        common = len(set(words) & set(access.spelling.split(".")))
        return common, access.known == "silicon", SequenceMatcher(None, text, access.spelling).ratio()

    return f"Did you mean {max(family, key=likeness).spelling!r}?"


# ---------------------------------------------------------------------------------------------- counting


def in_pairs(access: Access, addresses: Addresses) -> npt.NDArray[np.bool_]:
    """For each warp of `addresses` (warps, lanes): whether two phases become one."""
    lane = np.arange(access.lanes)
    agree = [(addresses == addresses[:, lane ^ partner]).all(axis=1) for partner in (1, 2)] if access.pairs else []
    return np.logical_or.reduce(agree) if agree else np.zeros(len(addresses), np.bool_)


def per_phase(access: Access, addresses: Addresses) -> npt.NDArray[np.int64]:
    """Wavefronts (warps, phases) of valid `addresses` (warps, lanes); a phase that another one took in has 0."""
    joined = in_pairs(access, addresses)
    table = np.zeros((len(addresses), access.phases), np.int64)
    table[~joined] = _busiest(access, addresses[~joined], access.phase)
    if joined.any():
        table[joined, ::2] = _busiest(access, addresses[joined], 2 * access.phase)
    return table


def _busiest(access: Access, addresses: Addresses, lanes: int) -> npt.NDArray[np.int64]:
    """(warps, phases): distinct words in the busiest bank, of phases of `lanes` lanes.

    An aligned unit lies in banks of its own, all of them equally busy, so units are counted instead of words.
    """
    groups = BANKS * WORD // access.unit
    units = addresses.reshape(-1, lanes) // access.unit
    sorted_ = np.sort(units % groups << 32 | units // groups, axis=1)  # by bank, and in a bank by row
    new = np.ones(sorted_.shape, np.bool_)
    new[:, 1:] = sorted_[:, 1:] != sorted_[:, :-1]
    place: Any = np.arange(len(sorted_))[:, None] * groups + (sorted_ >> 32)
    counts = np.bincount(place[new], minlength=len(sorted_) * groups).reshape(-1, groups)
    busiest: npt.NDArray[np.int64] = counts.max(axis=1).reshape(len(addresses), access.lanes // lanes)
    return busiest

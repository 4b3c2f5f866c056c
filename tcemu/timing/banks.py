"""How a warp's access to shared memory uses the banks, and how many wavefronts it takes.

The instruction table says which accesses there are and what each moves; this module says how the banks serve them.

Shared memory has 32 banks, each 4 bytes wide: byte address a is in bank a / 4 mod 32. A wavefront is one pass over the
banks, in which each bank reads or writes one 4-byte word for any number of lanes. An access is split into parts, each
of as many lanes as can move 128 bytes; a part takes as many wavefronts as its busiest bank has distinct words.

    4 bytes per lane    one part of 32 lanes          ld.shared.b32
    8                   two of 16                     ld.shared.v2.b32
    16                  four of 8                     ld.shared.v4.b32
    rows of 16          one for each 8 rows           ldmatrix, with and without .trans

Loads of 8 or 16 bytes do better if lanes agree in pairs: if every lane n has the address of lane n xor 1, or every lane
n that of lane n xor 2, two neighbouring parts become one. So a broadcast takes 1 wavefront with 8 bytes and 2 with 16.
It is not enough that two parts read the same words, and ldmatrix does not merge parts.

How this is known. Parts and busiest banks: clock cycles of an H200 (sm_90a), seven forms of ld and ldmatrix with 256
sets of addresses each, 0 differences. Pairs: an NVIDIA engineer's statement about compute capability 7.x (developer
forum, topic 77228, "Unexpected shared memory bank conflict"), and 22 sets of addresses that distinguish it from other
rules, on the same H200: all cycles agree (tests/golden/sm_90a-wavefronts.json). Stores gain nothing from pairs there,
but their cycles do not settle their count. The count of stores, elements of less than 4 bytes and 8-bit matrices are
inferred from similar accesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.table import Known
from tcemu.errors import IllegalInstruction, TableError, listing
from tcemu.instructions import Instruction, parse
from tcemu.instructions.elements import elements_of, space_of
from tcemu.instructions.matrix_move import row_bytes
from tcemu.instructions.table import family_of

Addresses = npt.NDArray[np.int64]

LANES = 32
BANKS = 32
#: Bytes of a word, which is what a bank moves in a wavefront.
WORD = 4


@dataclass(frozen=True)
class Access:
    """One kind of access: which lanes the banks serve together."""

    #: The documented spelling.
    spelling: str
    #: Bytes that a lane moves from its address on; the address is a multiple of this number.
    bytes: int
    #: Number of lanes whose addresses are used, from lane 0 on.
    lanes: int
    #: Lanes in a part.
    part: int
    #: Whether two parts become one if lanes agree in pairs.
    pairs: bool
    known: Known

    def __post_init__(self) -> None:
        if self.known not in get_args(Known):
            raise TableError(f"how is {self.spelling} known? say one of {listing(get_args(Known))}")
        fits = self.lanes % self.part == 0 and self.part * self.granule <= BANKS * WORD
        if not fits or (self.pairs and self.parts % 2):
            lanes = f"{self.lanes} lanes of {self.bytes} bytes"
            raise TableError(f"{self.spelling}: {lanes} do not go {self.part} at a time")

    @property
    def granule(self) -> int:
        """Bytes of the banks that one lane keeps busy; addresses in the same granule read the same words."""
        return max(self.bytes, WORD)

    @property
    def parts(self) -> int:
        """Parts of a warp whose lanes do not agree in pairs."""
        return self.lanes // self.part

    def __str__(self) -> str:
        return self.spelling


@dataclass(frozen=True)
class Way:
    """How the banks serve the accesses of a family, and how that is known.

    The bytes of a lane, and the number of lanes that give addresses, follow from the instruction. `known` says which
    words were measured; all other forms of the family are inferred.
    """

    #: Whether two parts become one if lanes agree in pairs.
    pairs: bool
    #: Words of the opcode, and how the count is known for the forms that have all of them.
    known: Mapping[tuple[str, ...], Known]

    def how_known(self, instruction: Instruction) -> Known:
        """How the wavefront count of an instruction is known."""
        words = set(instruction.opcode.split("."))
        return next((known for needed, known in self.known.items() if words.issuperset(needed)), "inferred")


_MEASURED = {(*vec, kind): "silicon" for vec in ((), ("v2",), ("v4",)) for kind in ("b32", "u32", "s32", "f32")}
#: By family. Stores are served like loads: lanes that write the same word share a wavefront.
WAYS: Mapping[str, Way] = {
    "ld": Way(pairs=True, known={**_MEASURED}),  # type: ignore[dict-item]
    "st": Way(pairs=False, known={}),
    "ldmatrix": Way(pairs=False, known={("m8n8",): "silicon"}),
    "stmatrix": Way(pairs=False, known={}),
}
#: Bytes that the banks move in a wavefront.
_ALL_BANKS = BANKS * WORD


def access_named(text: str | Instruction) -> Access:
    """The access that `text` spells. Raises IllegalInstruction if it is not an access to shared memory."""
    if not isinstance(text, str | Instruction):
        raise IllegalInstruction(f"an access must be a string, e.g. 'ld.shared.v4.b32'; got {type(text).__name__}")
    return _access(parse(text))


@lru_cache(maxsize=4096)
def _access(instruction: Instruction) -> Access:
    way = WAYS.get(instruction.family)
    if way is None:
        raise IllegalInstruction(
            f"{instruction} is not an access to shared memory whose wavefronts are known: {listing(WAYS)}"
        )
    known = way.how_known(instruction)
    if instruction.fragments:
        (fragment,) = instruction.fragments.values()
        return Access(instruction.opcode, row_bytes(instruction), prod(fragment.shape[:-1]), 8, way.pairs, known)
    if space_of(instruction) != "shared":
        near = family_of(instruction).nearest({**instruction.words, "ss": "shared"})
        why = _WHY.get(space_of(instruction), "")
        raise IllegalInstruction(f"{instruction} is not an access to shared memory.{why} Nearest access: {near}")
    moved = elements_of(instruction)
    part = min(LANES, _ALL_BANKS // max(moved.bytes, WORD))
    # vectors of narrow elements, and accesses without pairs of parts, were not measured
    return Access(instruction.opcode, moved.bytes, LANES, part, way.pairs and part < LANES, known)


#: Why an access to another state space has no wavefronts.
_WHY = {
    "shared::cluster": " The banks of the cluster's other blocks are not modelled.",
    "global": " Global memory has no banks.",
    "generic": " Say which memory the address is in: .shared.",
}


# ---------------------------------------------------------------------------------------------- counting


def in_pairs(access: Access, addresses: Addresses) -> npt.NDArray[np.bool_]:
    """For each warp of `addresses` (warps, lanes): whether two parts become one."""
    lane = np.arange(access.lanes, dtype=np.int64)
    agree = [(addresses == addresses[:, lane ^ partner]).all(axis=1) for partner in (1, 2)] if access.pairs else []
    return np.logical_or.reduce(agree) if agree else np.zeros(len(addresses), np.bool_)


def per_part(access: Access, addresses: Addresses) -> npt.NDArray[np.int64]:
    """Wavefronts (warps, parts) of valid `addresses` (warps, lanes); a part merged into another one has 0."""
    joined = in_pairs(access, addresses)
    table = np.zeros((len(addresses), access.parts), np.int64)
    table[~joined] = _busiest(access, addresses[~joined], access.part)
    if joined.any():
        table[joined, ::2] = _busiest(access, addresses[joined], 2 * access.part)
    return table


def _busiest(access: Access, addresses: Addresses, lanes: int) -> npt.NDArray[np.int64]:
    """(warps, parts): the number of distinct words in the busiest bank, for parts of `lanes` lanes.

    All banks of a granule are equally busy, so this counts granules instead of words.
    """
    columns = BANKS * WORD // access.granule
    granules = addresses.reshape(-1, lanes) // access.granule
    sorted_ = np.sort(granules % columns << 32 | granules // columns, axis=1)  # by bank, and in a bank by row
    new = np.ones(sorted_.shape, np.bool_)
    new[:, 1:] = sorted_[:, 1:] != sorted_[:, :-1]
    place: Any = np.arange(len(sorted_), dtype=np.int64)[:, None] * columns + (sorted_ >> 32)
    counts = np.bincount(place[new].astype(np.intp, copy=False), minlength=len(sorted_) * columns).reshape(-1, columns)
    busiest: npt.NDArray[np.int64] = counts.max(axis=1).reshape(len(addresses), access.lanes // lanes)
    return busiest

"""tcemu.wavefronts: what a warp's access to shared memory costs, and which lanes compete for which bank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.table import Known
from tcemu.errors import OperandError, briefly, counted, ranges
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction
from tcemu.timing.banks import BANKS, LANES, WORD, Access, Addresses, access_named, in_pairs, per_part


def wavefronts(addresses: npt.ArrayLike, access: str | Instruction) -> Wavefronts:
    """How many wavefronts (passes over the 32 banks) an access to shared memory takes.

    `addresses` are byte addresses in shared memory, integers (..., 32), one for each lane; leading axes are
    independent warps. `access` is the PTX spelling: "ld.shared.v4.b32", "st.shared.b32",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16". If ldmatrix or stmatrix moves fewer than 32 rows, only the addresses of
    the first lanes are used and the others may be anything. All 32 lanes are active.

    The result's `count` is an int, or an array over the leading axes. The printed result of one warp says which lanes
    compete for which bank, and what would help.

    Raises IllegalInstruction for another access, OperandError for addresses that are not integers, negative, beyond
    32 bits, misaligned, or not 32.

    >>> lanes = np.arange(32)
    >>> tcemu.wavefronts(4 * lanes, "ld.shared.b32").count  # 32 neighbouring words: one for each bank
    1
    >>> tcemu.wavefronts(128 * lanes, "ld.shared.b32").count  # a column of a tile with rows of 128 bytes: one bank
    32
    >>> tcemu.wavefronts(132 * lanes, "ld.shared.b32").count  # rows padded by a word
    1
    """
    accessing = access_named(access)
    return _wavefronts(accessing, _addresses(accessing, addresses))


def _wavefronts(access: Access, addresses: Addresses) -> Wavefronts:
    lead = addresses.shape[:-1]
    counts = per_part(access, _counting(access, addresses)).sum(axis=1).reshape(lead)
    counts.flags.writeable = False
    return Wavefronts(access, addresses, counts if lead else int(counts))


def _counting(access: Access, addresses: Addresses) -> Addresses:
    """(warps, lanes): the addresses that are used."""
    return addresses.reshape(-1, LANES)[:, : access.lanes]


# ---------------------------------------------------------------------------------------------- the result


class Claim(NamedTuple):
    """A word of a part's busiest bank, and the lanes that access it.

    >>> part = tcemu.wavefronts(128 * (np.arange(32) % 2), "ld.shared.b32").parts[0]
    >>> [(claim.bank, claim.word, len(claim.lanes)) for claim in part.claims]
    [(0, 0, 16), (0, 128, 16)]
    """

    part: int
    bank: int
    #: Byte address of the 4-byte word.
    word: int
    lanes: tuple[int, ...]


class Part(NamedTuple):
    """Lanes whose accesses go together, and how many wavefronts they take.

    >>> result = tcemu.wavefronts(16 * np.arange(32), "ld.shared.v4.b32")
    >>> [(part.lanes[0], part.lanes[-1], part.wavefronts) for part in result.parts]
    [(0, 7, 1), (8, 15, 1), (16, 23, 1), (24, 31, 1)]
    """

    lanes: tuple[int, ...]
    wavefronts: int
    #: The busiest bank, the lowest of several.
    bank: int
    #: The distinct words there, one for each wavefront, lowest address first.
    claims: tuple[Claim, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Wavefronts:
    """What an access takes, of one warp or of many; `result[i]` is the result of warp i.

    >>> column = tcemu.wavefronts(256 * np.arange(32), "ld.shared.b32")
    >>> column.count, column.least  # wavefronts, and how few they could be
    (32, 1)
    >>> column.hint.split(";")[1]
    ' XOR swizzle, address ^ (address >> 6 & 0x7c): 1 wavefront'
    >>> column.known
    'silicon'
    """

    access: Access
    #: (..., 32) byte addresses, read-only.
    addresses: Addresses
    #: Wavefronts: an int for one warp, an array over the leading axes for many.
    count: int | npt.NDArray[np.int64]

    @property
    def least(self) -> int | npt.NDArray[np.int64]:
        """What `count` would be without conflicts: the number of parts, an int or int64 (warps,)."""
        joined = in_pairs(self.access, _counting(self.access, self.addresses)).reshape(self.addresses.shape[:-1])
        least: npt.NDArray[np.int64] = np.where(joined, self.access.parts // 2, self.access.parts)
        return least if least.ndim else int(least)

    @property
    def known(self) -> Known:
        """How the count of one warp is known; see tcemu.timing.banks."""
        self._one("known")
        return self.access.known

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Of one warp: the lanes that go together, each part's busiest bank, and which lanes access its words."""
        addresses = self._one("parts")[0]
        size = self.access.part * (2 if in_pairs(self.access, addresses[None])[0] else 1)
        starts = enumerate(range(0, self.access.lanes, size))
        return tuple(_part(self.access, number, start, addresses[start : start + size]) for number, start in starts)

    @property
    def table(self) -> tuple[Claim, ...]:
        """Of one warp: (part, bank, word, lanes) for every word of each part's busiest bank."""
        self._one("table")
        return tuple(claim for part in self.parts for claim in part.claims)

    @cached_property
    def hint(self) -> str:
        """Of one warp: which padding and which XOR swizzle of the addresses would help; empty without a conflict."""
        self._one("hint")
        if self.count == self.least:
            return ""
        remedies = [remedy for remedy in (_best(self, _paddings), _best(self, _swizzles)) if remedy]
        return "; ".join(remedies) or "neither padding nor an XOR swizzle helps: change which lane accesses what"

    def __getitem__(self, index: Any) -> Wavefronts:
        """The result of some of the warps, indexed like the leading axes.

        Raises IndexError for a warp that does not exist, OperandError for anything that is not an index.
        """
        lead = self.addresses.shape[:-1]
        if not lead:
            raise OperandError("this is the result of one warp; there is nothing to index")
        warps = np.arange(self.addresses.size // LANES, dtype=np.int64).reshape(lead)
        try:
            chosen = self.addresses.reshape(-1, LANES)[warps[index]]
        except IndexError as error:
            raise IndexError(f"index {briefly(index)} of a result of {lead} warps: {error}") from None
        except Exception as error:  # noqa: BLE001 - numpy's own, or what an object raises that is asked for an index
            raise OperandError(f"{briefly(index)} is not an index of a result of {lead} warps: {error}") from None
        chosen.flags.writeable = False
        return _wavefronts(self.access, chosen)

    def __len__(self) -> int:
        if self.addresses.ndim < 2:
            raise OperandError("this is the result of one warp; it has no length")
        return len(self.addresses)

    def __bool__(self) -> bool:
        return True  # also for a result of no warps

    def __iter__(self) -> Iterator[Wavefronts]:
        return (self[index] for index in range(len(self)))

    def _one(self, what: str) -> Addresses:
        """(1, lanes): the addresses of the only warp that are used."""
        if self.addresses.ndim != 1:
            warps = self.addresses.shape[:-1]
            raise OperandError(f".{what} is about one warp; this is a result of {warps} warps: use result[i].{what}")
        return _counting(self.access, self.addresses)

    # ------------------------------------------------------------------------------------------ as a value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Wavefronts):
            return NotImplemented
        return self.access == other.access and np.array_equal(self.addresses, other.addresses)

    def __hash__(self) -> int:
        return hash((self.access, self.addresses.shape, self.addresses.tobytes()))

    def __repr__(self) -> str:
        if isinstance(self.count, int):
            return f"<{self.access}: {counted(self.count, 'wavefront')}, {self.least} without conflicts>"
        if not self.count.size:
            return f"<{self.access}: no warps>"
        warps = counted(self.count.size, "warp")
        low, high, total = self.count.min(), self.count.max(), int(self.count.sum())
        return f"<{self.access}: {warps}, {low} to {high} wavefronts, {total:,} in all>"

    def __str__(self) -> str:
        if self.addresses.ndim != 1:
            return repr(self)
        return "\n".join(_explain(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


# ---------------------------------------------------------------------------------------------- explaining


def _part(access: Access, number: int, start: int, addresses: Addresses) -> Part:
    """The part of the lanes from `start` on that have `addresses`."""
    banks: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, address in enumerate(addresses.tolist(), start):
        word = address // access.granule * access.granule  # its first word; the banks of the others are as busy
        banks[word // WORD % BANKS][word].append(lane)
    bank = min(banks, key=lambda bank: (-len(banks[bank]), bank))
    claims = tuple(Claim(number, bank, word, tuple(lanes)) for word, lanes in sorted(banks[bank].items()))
    return Part(tuple(range(start, start + len(addresses))), len(claims), bank, claims)


def _explain(result: Wavefronts) -> Iterator[str]:
    access, least = result.access, result.least
    ideal = "without conflicts" if result.count == least else f"where {least} would do"
    yield f"{access}: {counted(int(result.count), 'wavefront')}, {ideal}"
    span = access.granule // WORD
    for number, part in enumerate(result.parts):
        banks = f"bank {part.bank}" if span == 1 else f"banks {part.bank}-{part.bank + span - 1}"
        text = f"part {number}, lanes {ranges(part.lanes, '-')}: {counted(part.wavefronts, 'wavefront')}"
        yield text if part.wavefronts == 1 else f"{text}; busiest: {banks}"
        for claim in part.claims if part.wavefronts > 1 else ():
            lanes = f"lane{'s' * (len(claim.lanes) > 1)} {ranges(claim.lanes, '-')}"
            yield f"    word {claim.word:#07x} in bank {claim.bank:2}: {lanes}"
    if len(result.parts) < access.parts:
        yield "Lanes agree in pairs, so two parts became one."
    if result.hint:
        yield f"hint: {result.hint}"
    yield f"known: {result.known}"


# ---------------------------------------------------------------------------------------------- what would help


class _Remedy(NamedTuple):
    """Other addresses for the same data."""

    formula: str
    addresses: Addresses


def _paddings(access: Access, addresses: Addresses) -> Iterator[_Remedy]:
    """A gap after every row; a row is as long as the distance between lanes, or a power of two."""
    steps = set(np.diff(addresses).tolist())
    step = abs(steps.pop()) if len(steps) == 1 else 0
    gap = access.granule
    fitting = {step} if step >= access.granule and step % access.granule == 0 else set()
    for row in sorted(fitting | {1 << bit for bit in range(7, 13)}):
        formula = f"padding, {gap} bytes after every {row} (address + address // {row} * {gap})"
        yield _Remedy(formula, addresses + addresses // row * gap)


def _swizzles(access: Access, addresses: Addresses) -> Iterator[_Remedy]:
    """XOR of the bits that select the bank with as many higher bits."""
    mask = BANKS * WORD - access.granule
    low = access.granule.bit_length() - 1
    for source in range(7, 13):
        shift = source - low
        formula = f"XOR swizzle, address ^ (address >> {shift} & {mask:#x})"
        yield _Remedy(formula, addresses ^ (addresses >> shift & mask))


def _best(result: Wavefronts, remedies: Callable[[Access, Addresses], Iterator[_Remedy]]) -> str:
    """The first remedy with the fewest wavefronts, in words; empty if none has fewer than now."""
    tried = list(remedies(result.access, _counting(result.access, result.addresses)[0]))
    counts = per_part(result.access, np.stack([remedy.addresses for remedy in tried])).sum(axis=1)
    best = int(counts.argmin())
    return f"{tried[best].formula}: {counted(int(counts[best]), 'wavefront')}" if counts[best] < result.count else ""


# ---------------------------------------------------------------------------------------------- what is refused


def _addresses(access: Access, addresses: npt.ArrayLike) -> Addresses:
    """The addresses as a read-only copy. Raises OperandError, which names the lane and the rule."""
    array = as_array(addresses, "addresses: not an array of 32 integers")
    if array.ndim < 1 or array.shape[-1] != LANES:
        raise OperandError(
            f"addresses must have shape (..., 32), one for each lane of a warp; got {array.shape}. "
            f"{access} uses those of lanes 0-{access.lanes - 1}."
        )
    if array.dtype.kind not in "iu":
        raise OperandError(f"addresses must be byte addresses, integers of 32 bits; got dtype {array.dtype}")
    counting = array[..., : access.lanes]
    _refuse(access, counting, counting < 0, "is negative; addresses count bytes from the start of shared memory")
    _refuse(access, counting, counting >= 1 << 32, "does not fit into 32 bits; addresses of shared memory do")
    _refuse(access, counting, counting % access.bytes != 0, f"is misaligned: {_rule(access)}")
    copy = array.astype(np.int64)
    copy.flags.writeable = False
    return copy


def _rule(access: Access) -> str:
    if "matrix" in access.spelling:
        rows = f"takes rows of {access.bytes} bytes, each starting at a multiple of {access.bytes}"
        return f"{access} {rows} (PTX ISA, ldmatrix and stmatrix)"
    rule = f"{access} moves {access.bytes} bytes per lane, so the address must be a multiple of {access.bytes}"
    return f"{rule} (PTX ISA, Addresses as Operands)"


def _refuse(access: Access, addresses: npt.NDArray[Any], wrong: npt.NDArray[np.bool_], why: str) -> None:
    if not wrong.any():
        return
    *warp, lane = (int(index) for index in np.argwhere(wrong)[0])
    which = f"warp {', '.join(map(str, warp))}, " if warp else ""
    address = int(addresses[(*warp, lane)])
    raise OperandError(f"{which}lane {lane}: address {address:#x} ({address}) {why}")

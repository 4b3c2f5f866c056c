"""Accesses to memory as the hardware makes them: sectors of global memory, wavefronts of shared memory."""

from __future__ import annotations

import numpy as np

from tcemu.machine import events
from tcemu.machine.events import Addresses
from tcemu.timing.banks import BANKS, LANES, WORD, Access, access_named, per_part

#: Bytes that global memory moves at once, and those of a line of the cache, which has four such sectors.
SECTOR, LINE = 32, 128


def sectors(addresses: Addresses, size: int, unit: int = SECTOR) -> int:
    """Sectors of 32 bytes that `size` bytes at each of `addresses` (n,) touch, each counted once; or others of `unit`.

    >>> from tcemu.timing.accesses import sectors
    >>> sectors(4 * np.arange(32), 4), sectors(32 * np.arange(32), 4)  # neighbours; a column
    (4, 32)
    """
    starts, ends = addresses // unit, (addresses + (size - 1)) // unit
    span = int((ends - starts).max(initial=0))
    touched = [np.minimum(starts + step, ends) for step in range(span + 1)]
    return len(np.unique(np.concatenate(touched))) if len(addresses) else 0


def shared_wavefronts(event: events.Accessed) -> tuple[int, int]:
    """The wavefronts of an access to shared memory, and how few they could be."""
    instruction = event.instruction
    if instruction.family in _BANKED and instruction.words.get("ss", "shared") != "shared::cluster":
        access = access_named(instruction)
        addresses = np.full(LANES, event.addresses[0] if len(event.addresses) else 0)
        addresses[np.asarray(event.lanes, np.int64) % LANES] = event.addresses
        if len(event.addresses) in (LANES, access.lanes):
            used = addresses[None, : access.lanes]
            return int(per_part(access, used).sum()), _least(access, used)
    return _plain_wavefronts(event.addresses, event.size)


#: Families that tcemu.timing.banks divides into parts.
_BANKED = ("ld", "st", "ldmatrix", "stmatrix")


def _least(access: Access, addresses: Addresses) -> int:
    """What the wavefronts would be without conflicts: as many as the distinct words need."""
    words = int(np.unique(addresses // access.granule).size) * int(access.granule) // WORD
    return max(-(-words // BANKS), 1) if words < access.parts * BANKS else access.parts


def _plain_wavefronts(addresses: Addresses, size: int) -> tuple[int, int]:
    """For other accesses (atomics, wmma, partial warps): distinct words of the busiest bank, and of an average one."""
    if not len(addresses):
        return 0, 0
    span = np.arange(0, max(size, 1), WORD, dtype=np.int64)
    words = np.unique((addresses[:, None] + span) // WORD)
    return int(np.bincount((words % BANKS).astype(np.intp, copy=False)).max()), -(-len(words) // BANKS)

"""Addresses: the state space that a generic one lies in, and the block of the cluster (PTX ISA 9.1, 5.1.4, 9.7.9.20).

A generic address is one number for all state spaces. Each space has a window of addresses, as on a GPU, but at other
addresses:

    0 to 2^40              global
    2^40 + slot 2^24       shared memory of a block: a cluster has 16 slots, one for each rank, and a block without
                           cluster the first of 16; they begin again after 2^12 clusters
    2^41 + thread 2^19     local memory of a thread, which kernels in Python do not have; threads count as if every
                           block had 1024, and begin again at 2^22
    2^42                   param, likewise

An address in .shared::cluster has 32 bits. Below 2^24 it is one in the block's own shared memory, as in .shared::cta;
the others, which mapa makes, are

    (16 + rank) 2^24       shared memory of the block with that rank in the cluster

On an H100, the block with that rank has the addresses from rank 2^24 on, also as its own. Here own addresses begin at 0
in every block, as they do without clusters, so those that mapa makes have one bit more. The rank is in the same bits:
bit 24 tells the two blocks of a pair apart, and `address & 0xfeffffff` is the same place in the first of them. CUTLASS
computes that from a block's own addresses, so where kernels of PTX look at addresses in clusters, these have the rank,
too (tcemu.simt.run).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Window = Literal["global", "shared", "local", "param"]

#: The first address of each window, and the size in bytes of one block's part of the shared window.
SHARED, LOCAL, PARAM = 1 << 40, 1 << 41, 1 << 42
BLOCK = 1 << 24
#: The size in bytes of one thread's part of the local window, and the threads that have one.
STACK, STACKS = 1 << 19, 1 << 22
#: More than any rank in a cluster: what the addresses of other blocks have beside the rank.
RANKS = 16
#: The clusters that have slots of their own in the shared window.
CLUSTERS = (LOCAL - SHARED) // (RANKS * BLOCK)
_STARTS = np.array([SHARED, LOCAL, PARAM], np.int64)
#: The bits that are zero in every address in global memory, of 32 addresses read as one long number.
_ELSEWHERE = sum(-SHARED % (1 << 64) << 64 * lane for lane in range(32))
_NAMES: tuple[Window, ...] = ("global", "shared", "local", "param")


class Part(NamedTuple):
    """The lanes whose addresses lie in one window, and their addresses within the window."""

    window: Window
    lanes: npt.NDArray[np.bool_]
    #: (32,); the entries of other lanes are meaningless
    addresses: Array


def slot_of(cluster: int, rank: int) -> int:
    """The slot of a block in the shared window, by a number that no other cluster of the grid has."""
    return cluster % CLUSTERS * RANKS + rank


def generic(shared: Any, slot: Any = 0) -> Any:
    """cvta.shared: the generic addresses of addresses in the shared memory of the block with this slot."""
    return SHARED + slot * BLOCK + shared


def mapped(shared: Any, rank: Any) -> Any:
    """mapa.shared::cluster: the same place in the shared memory of the block with this rank."""
    return (RANKS + rank) * BLOCK + shared


def rank_of(address: Any, own: int) -> Any:
    """The rank of the block whose shared memory an address in .shared::cluster lies in; `own` is the block's own."""
    part = address // BLOCK
    if isinstance(part, np.ndarray):
        return np.where(part > 0, part - RANKS, own)
    return part - RANKS if part > 0 else own


def window_of(address: int) -> Window:
    """The window that one address lies in."""
    return _NAMES[int(np.searchsorted(_STARTS, address, side="right"))]


def all_global(addresses: Array) -> bool:
    """Whether generic addresses (32,) of int64 are all from 0 to the end of global memory's window.

    Python's ints are fastest here.
    """
    return not int.from_bytes(addresses.tobytes(), "little") & _ELSEWHERE


def parts(addresses: Array) -> list[Part]:
    """The windows that generic addresses (32,) lie in."""
    if addresses.min() >= 0 and addresses.max() < SHARED:
        return [Part("global", np.ones(len(addresses), bool), addresses)]
    which = np.searchsorted(_STARTS, addresses, side="right")
    pieces = []
    for number in np.unique(which).tolist():
        lanes = which == number
        inside = addresses if number == 0 else addresses - _STARTS[number - 1]
        pieces.append(Part(_NAMES[number], lanes, inside))
    return pieces

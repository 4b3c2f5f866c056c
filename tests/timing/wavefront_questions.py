"""Addresses that tell the rule of tcemu.timing.banks from others that the recorded cycles do not rule out.

Each question has an access, 32 addresses and what each rule predicts; none lies below the 2 wavefronts that a lone warp
can see. To be put to a GPU: 128 of the access back to back in one warp take 256 cycles a wavefront, plus some 40.
"""

from typing import NamedTuple

import numpy as np

LANE = np.arange(32)
LOADS = ("ld.shared.v2.b32", "ld.shared.v4.b32")


class Question(NamedTuple):
    name: str
    access: str
    addresses: np.ndarray
    #: What tcemu answers.
    ours: int
    #: What it would be if the other answer to `name` were true.
    other: int


def pairs(partner, lane=LANE):
    """The number of each lane's pair, where lanes n and n xor `partner` are one, in the order of the lower lanes."""
    return np.unique(np.minimum(lane, lane ^ partner), return_inverse=True)[1]


def place(item, size, groups):
    """Different addresses for different items: item i is in the banks of group `groups[i]`, in a separate row."""
    return np.asarray(item) * 128 + np.asarray(groups)[item] * size


#: Banks of the 16 pairs of a warp, four to a quarter: 2 wavefronts a quarter, and 2 for two quarters at once.
QUARTERS = [0, 0, 1, 1, 2, 2, 3, 3] * 2
#: Of the 16 pairs for 64 bits, eight to a half: 4 wavefronts a half, and 4 for both at once.
HALVES = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]


def questions():
    """Yield every Question."""
    v2, v4 = LOADS
    for partner in (1, 2):
        agree = f"lanes n and n xor {partner} agree"
        for access, addresses in (
            (v2, place(pairs(partner), 8, HALVES)),
            (v4, place(pairs(partner), 16, QUARTERS)),
        ):
            yield Question(f"{agree}: do two phases become one?", access, addresses, 4, 8)
            store = access.replace("ld", "st")
            yield Question(f"{agree}: do stores gain what loads gain?", store, addresses, 8, 4)

    for partner in (3, 4, 5, 6, 7):
        name = f"lanes n and n xor {partner} agree: is that enough?"
        yield Question(name, v4, place(pairs(partner), 16, QUARTERS), 8, 4)
    # n xor 8: both quarters of a half read the same eight units, lane by lane.
    eight = place(pairs(8), 16, QUARTERS)
    yield Question("quarters agree lane by lane (n xor 8): is that enough?", v4, eight, 8, 4)
    sixteen = place(pairs(16), 16, QUARTERS)
    yield Question("halves agree lane by lane (n xor 16): is that enough?", v4, sixteen, 8, 4)
    halves = place(pairs(16), 8, HALVES)
    yield Question("halves agree lane by lane (n xor 16): is that enough?", v2, halves, 8, 4)

    # Which lanes must agree: all of the warp, or those of a half?
    odd = np.where(LANE < 16, pairs(1), LANE)
    groups = [*QUARTERS[:8], *[0] * 8, *[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]]
    yield Question("only the lower half agrees in pairs: does it gain alone?", v4, place(odd, 16, groups), 8, 6)
    mixed = np.where(LANE < 16, pairs(1), pairs(2))
    name = "lower half n xor 1, upper half n xor 2: may the halves differ?"
    yield Question(name, v4, place(mixed, 16, QUARTERS), 8, 4)
    yield Question(name, v2, place(mixed, 8, HALVES), 8, 4)
    spoilt = np.where(LANE == 31, 16, pairs(1))
    yield Question("all lanes but the last agree: does one spoil it?", v4, place(spoilt, 16, [*QUARTERS, 3]), 9, 5)

    # Which quarters become one: neighbours, or those with the same place in their half?
    across = place(pairs(1), 16, [0, 0, 1, 1] * 2 + [2, 2, 3, 3] * 2)
    yield Question("which quarters become one, 0 with 1 or 0 with 2?", v4, across, 8, 4)
    # Lanes agree in fours, so both conditions hold: do all four quarters become one?
    fours = place(LANE // 4, 16, [0, 0, 0, 0, 1, 1, 1, 1])
    yield Question("lanes agree in fours: do four quarters become one?", v4, fours, 8, 4)

"""What the lanes of a warp tell each other (PTX ISA 9.1, 9.7.9.6 and 9.7.13.9 to 9.7.13.14).

    shfl.sync.bfly.b32   vote.sync.ballot.b32   match.any.sync.b64   redux.sync.add.u32   activemask.b32   elect.sync

Their last operand says which lanes take part. Kernels may leave it out: the active lanes do.
"""

from __future__ import annotations

from dataclasses import replace

from tcemu.instructions.plain import WARP, family, one

_MASK = "The membermask names the lanes that take part; each must execute the same instruction with the same mask."

SHUFFLE = family(
    "shfl.sync",
    "shfl.sync.{mode}.{type}",
    "9.7.9.6",
    [one(facts=WARP, mode="up down bfly idx", type="b32")],
    signature="d_value = a_value b_value c_value membermask?",
    changes=False,
    about="gives each lane the value of another lane of the warp",
    rules=(
        "b selects the lane: how far up or down, which bits of the lane's own number to flip, or the number itself.",
        "c holds the segment mask from bit 8 on, and below it the bound that b is clamped to.",
        "A lane whose source is outside its segment gets its own value. The value of an inactive lane is undefined.",
        _MASK,
    ),
)
VOTE = family(
    "vote.sync",
    "vote.sync.{mode}.{type}",
    "9.7.13.9",
    [
        one(facts=replace(WARP, answers="predicate"), mode="all any uni", type="pred"),
        one(facts=replace(WARP, answers="value"), mode="ballot", type="b32"),
    ],
    signature="d_answer = predicate membermask?",
    changes=False,
    about="tells whether all or any predicates are true, whether all are the same, or which are true",
    rules=(".uni is true where all predicates are the same; .ballot has a bit for each lane.", _MASK),
)
MATCH = family(
    "match.sync",
    "match.{mode}.sync.{type}",
    "9.7.13.10",
    [one(facts=replace(WARP, answers="value"), mode="any all", type="b32 b64")],
    stems=("match.any.sync", "match.all.sync"),
    signature="d_answer = a_value membermask?",
    changes=False,
    about="finds the lanes that have the same value, one bit each",
    rules=(
        ".any: the lanes with the same value as this lane. .all: the membermask if all values are the same, else 0.",
        _MASK,
    ),
)
_FLOATS = "the machine has no redux.sync of floats: only targets from sm_100a on have it, and it is not verified"
REDUCE = family(
    "redux.sync",
    "redux.sync.{op}[.{abs}][.{nan}].{type}",
    "9.7.13.12",
    [
        one("7.0", "sm_80", WARP, op="add min max", type="u32 s32"),
        one("7.0", "sm_80", WARP, op="and or xor", type="b32"),
        one("8.6", "sm_100f", replace(WARP, unsupported=_FLOATS), op="min max", abs=" abs", nan=" NaN", type="f32"),
    ],
    signature="d_value = a_value membermask?",
    changes=False,
    about="computes the sum, minimum, maximum or bitwise combination of all lanes' values",
    rules=("Sums wrap around at 32 bits.", _MASK),
)
ACTIVE = family(
    "activemask",
    "activemask.b32",
    "9.7.13.11",
    [one("6.2", facts=replace(WARP, answers="value"))],
    signature="d_answer =",
    changes=False,
    about="returns the active lanes, one bit each",
    rules=("It does not synchronize: lanes that are inactive now may still execute the instructions that follow.",),
)
ELECT = family(
    "elect.sync",
    "elect.sync",
    "9.7.13.14",
    [one("8.0", "sm_90", WARP)],
    signature="predicate_out = membermask?",
    changes=False,
    about="chooses one of the lanes and returns a predicate that is true only there",
    rules=("It always chooses the same lane for the same membermask; here that is the first.", _MASK),
)
WARP_BARRIER = family(
    "bar.warp.sync",
    "bar.warp.sync",
    "9.7.13.2",
    [one(facts=WARP)],
    signature="= membermask?",
    changes=False,
    about="waits until the lanes have arrived; each then sees what the others wrote",
    rules=(_MASK,),
)
FAMILIES = (SHUFFLE, VOTE, MATCH, REDUCE, ACTIVE, ELECT, WARP_BARRIER)

"""Exchange between the lanes of a warp (PTX ISA 9.1, 9.7.9.6 and 9.7.13.9 to 9.7.13.14).

    shfl.sync.bfly.b32   vote.sync.ballot.b32   match.any.sync.b64   redux.sync.add.u32   activemask.b32   elect.sync

The last operand says which lanes take part. A kernel may leave it out; then the active lanes take part. Some of them
write two destinations, d|p, of which PTX lets you leave one out.
"""

from __future__ import annotations

from dataclasses import replace

from tcemu.instructions.plain import WARP, family, one, single

_MASK = "The membermask names the lanes that take part; all of them must execute the instruction, with the same mask."

#: The assembler takes .sync in any place: CUB writes vote.ballot.sync.b32.
_SYNC = frozenset({"sync"})

SHUFFLE = family(
    "shfl.sync",
    "shfl.sync.{mode}.{type}",
    "9.7.9.6",
    [one(facts=WARP, mode="up down bfly idx", type="b32")],
    distinguishing=_SYNC,
    signature="d_value predicate_out? = a_value b_value c_value membermask?",
    changes=False,
    about="gives each lane the value of another lane of the warp",
    rules=(
        ".up and .down read the lane b lower or higher, .bfly the lane whose number differs in the bits of b.",
        ".idx reads lane b of the segment.",
        "c has the segment mask in bits 8 to 12, and the bound of the segment in bits 0 to 4.",
        "A lane that would read outside its segment gets its own value. The value of an inactive lane is undefined.",
        "The optional predicate p is true if the lane to read is in the segment, active or not.",
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
    distinguishing=_SYNC,
    signature="d_answer = predicate membermask?",
    changes=False,
    about="tests whether a predicate is true in all lanes or in any, or equal in all; or returns where it is true",
    rules=(".uni is true if all predicates are equal. .ballot returns one bit for each lane.", _MASK),
)
MATCH = family(
    "match.sync",
    "match.{mode}.sync.{type}",
    "9.7.13.10",
    [
        one(facts=replace(WARP, answers="value"), mode="any", type="b32 b64"),
        one(facts=replace(WARP, answers="value", agrees=True), mode="all", type="b32 b64"),
    ],
    distinguishing=_SYNC,
    signature="d_answer [agrees: predicate_out?] = a_value membermask?",
    changes=False,
    about="returns which lanes have the same value, one bit each",
    rules=(
        ".any returns the lanes whose value equals this lane's; .all the membermask if all values are equal, else 0.",
        "The optional predicate p of .all is true if all values are equal.",
        _MASK,
    ),
)
REDUCE = family(
    "redux.sync",
    "redux.sync.{op}[.{abs}][.{nan}].{type}",
    "9.7.13.12",
    [
        one("7.0", "sm_80", WARP, op="add min max", type="u32 s32"),
        one("7.0", "sm_80", WARP, op="and or xor", type="b32"),
        one("8.6", "sm_100f", WARP, op="min max", abs=" abs", nan=" NaN", type="f32"),
    ],
    distinguishing=_SYNC,
    signature="d_value = a_value membermask?",
    changes=False,
    about="combines the values of all lanes: sum, minimum, maximum, bitwise and, or, xor",
    rules=(
        "Sums wrap around at 32 bits. Of floats, NaNs do not count, unless .NaN makes one the result; +0 is above -0.",
        _MASK,
    ),
)
ACTIVE = family(
    "activemask",
    "activemask.b32",
    "9.7.13.11",
    [one("6.2", facts=replace(WARP, answers="value"))],
    signature="d_answer =",
    changes=False,
    about="returns which lanes are active, one bit each",
    rules=("It does not synchronise: other lanes may execute the same code later.",),
)
ELECT = single(
    "elect.sync",
    "9.7.13.14",
    one("8.0", "sm_90", WARP),
    signature="d_answer? predicate_out = membermask?",
    changes=False,
    about="elects one lane: the predicate is true in that lane alone",
    rules=(
        "For the same membermask it always elects the same lane; here that is the first one.",
        "The optional d is the number of the elected lane.",
        _MASK,
    ),
)
WARP_BARRIER = single(
    "bar.warp.sync",
    "9.7.13.2",
    one(facts=WARP),
    signature="= membermask?",
    changes=False,
    about="makes the lanes of a warp wait for each other and see what each of them wrote",
    rules=(_MASK,),
)
FAMILIES = (SHUFFLE, VOTE, MATCH, REDUCE, ACTIVE, ELECT, WARP_BARRIER)

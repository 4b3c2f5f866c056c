"""mbarriers: objects of 8 bytes in shared memory that count arrivals and bytes (PTX ISA 9.1, 9.7.13.15).

    mbarrier.init.shared::cta.b64   mbarrier.arrive.expect_tx.shared::cta.b64   mbarrier.try_wait.parity.shared::cta.b64

An opcode has both order and scope, or neither. An arrival at another block's mbarrier (.shared::cluster) returns no
state: PTX writes _ for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcemu.instructions.family import Family
from tcemu.instructions.plain import THREAD, Part, combined, family, one
from tcemu.instructions.rows import Rows

SECTION = "9.7.13.15"
_AMPERE, _HOPPER = ("7.0", "sm_80"), ("8.0", "sm_90")


def _spaces(ptx: str, since: str, *, cluster: bool = False) -> list[Part]:
    """A generic address, .shared, .shared::cta and, if it exists, .shared::cluster."""
    here = [Part({"ss": ["", "shared"]}, ptx, since), Part({"ss": ["shared::cta"]}, "7.8", since)]
    return [*here, Part({"ss": ["shared::cluster"]}, *_HOPPER)] if cluster else here


def _orders(strict: str, *, scopes: str = "cta cluster", relaxed: bool = True) -> list[Part]:
    """No order, `strict` with a scope, .relaxed with one."""
    parts = [Part({"order": [""]}), Part({"order scope": [f"{strict} cta"]}, "8.0", "sm_80")]
    parts += [Part({"order scope": [f"{strict} cluster"]}, *_HOPPER)] if "cluster" in scopes else []
    both = [f"relaxed {scope}" for scope in scopes.split()]
    return [*parts, Part({"order scope": both}, "8.6", "sm_90")] if relaxed else parts


def _family(name: str, section: str, rows: list[Rows], **fields: Any) -> Family:
    ordered = any("order" in key for row in rows for key in row.slots)
    words = "[.{order}][.{scope}][.{ss}]" if ordered else "[.{ss}]"
    return family(name, f"{name}{words}.b64", f"{SECTION}.{section}", rows, **fields)


_PLACE = "The mbarrier is 8 bytes in shared memory, at an address that is a multiple of 8."
_RELEASE, _ACQUIRE = replace(THREAD, order="release", scope="cta"), replace(THREAD, order="acquire", scope="cta")
_RELAXED = replace(THREAD, order="relaxed", scope="cta")

INIT = _family(
    "mbarrier.init",
    "9",
    combined(_spaces(*_AMPERE)),
    signature="= mbarrier count",
    about="initialises an mbarrier, and sets how many arrivals complete a phase",
    rules=(
        _PLACE,
        "The count must be from 1 to 1048575.",
        "Other threads may use it after a barrier; bulk copies need fence.mbarrier_init as well.",
    ),
)
INVALIDATE = _family(
    "mbarrier.inval",
    "10",
    combined(_spaces(*_AMPERE)),
    signature="= mbarrier",
    about="turns the bytes of an mbarrier into ordinary memory again",
    rules=(_PLACE,),
)


def _transaction(what: str, section: str, about: str) -> Family:
    orders = [Part({"order": [""]}), Part({"order scope": ["relaxed cta", "relaxed cluster"]})]
    spaces = [Part({"ss": ["", "shared", "shared::cta", "shared::cluster"]}, *_HOPPER)]
    return _family(
        f"mbarrier.{what}",
        section,
        combined(orders, spaces, facts=_RELAXED),
        signature="= mbarrier tx_count",
        about=about,
        rules=(_PLACE, "Every active lane executes it separately."),
    )


EXPECT = _transaction("expect_tx", "11", "makes the current phase wait for more bytes")
COMPLETE = _transaction("complete_tx", "12", "counts bytes as arrived although nothing was copied")


def _arrivals(what: str, section: str, effect: str) -> list[Family]:
    """mbarrier.arrive or arrive_drop: plain, .expect_tx, .noComplete."""
    answers, silent = replace(_RELEASE, answers="value"), _RELEASE
    cluster = [Part({"ss": ["shared::cluster"]}, *_HOPPER)]
    here, hopper = _spaces(*_AMPERE), [Part({"ss": ["", "shared", "shared::cta"]}, *_HOPPER)]
    lanes = "Every active lane arrives separately: 32 lanes are 32 arrivals."
    remote = ".shared::cluster: it returns no state."
    plain, expecting = (combined(_orders("release"), spaces, facts=answers) for spaces in (here, hopper))
    unfinished = combined(_orders("release", scopes="cta", relaxed=False), here, facts=answers)
    return [
        _family(
            f"mbarrier.{what}",
            section,
            [*plain, *combined(_orders("release"), cluster, facts=silent)],
            signature="[answers: state] = mbarrier count?",
            about=f"{effect} and returns the state before that",
            rules=(_PLACE, lanes, "A count other than 1 needs PTX 7.8 and sm_90.", remote),
        ),
        _family(
            f"mbarrier.{what}.expect_tx",
            section,
            [*expecting, *combined(_orders("release"), cluster, facts=silent)],
            signature="[answers: state] = mbarrier tx_count",
            about=f"makes the current phase wait for more bytes, then {effect}",
            rules=(_PLACE, lanes, remote),
        ),
        _family(
            f"mbarrier.{what}.noComplete",
            section,
            unfinished,
            signature="state = mbarrier count",
            about=f"{effect}, which must not complete the phase",
            rules=(_PLACE, lanes),
        ),
    ]


def _waits(what: str, target: tuple[str, str], parity: str, how: str, **fields: Any) -> list[Family]:
    """mbarrier.test_wait or try_wait, by state and by parity."""
    hint = " suspend_hint?" if what == "try_wait" else ""
    ptx, since = target
    rules = (
        _PLACE,
        "If it is true, the thread sees what others wrote before they arrived with .release.",
        "The parity of the first phase is 0, of the second 1, and so on: it tells a phase from the one before.",
    )
    return [
        _family(
            f"mbarrier.{what}{by}",
            "16",
            combined(_orders("acquire"), _spaces(version, since), facts=_ACQUIRE),
            signature=f"predicate_out = mbarrier {operand}{hint}",
            about=f"{how} the phase with this {operand} is complete",
            rules=rules,
            **fields,
        )
        for by, operand, version in (("", "state", ptx), (".parity", "parity", parity))
    ]


PENDING = family(
    "mbarrier.pending_count",
    "mbarrier.pending_count.b64",
    f"{SECTION}.17",
    [one(*_AMPERE, facts=replace(THREAD, answers="value"))],
    signature="d_answer = state",
    changes=False,
    about="returns how many arrivals a state was still waiting for",
)
FAMILIES = (
    INIT,
    INVALIDATE,
    EXPECT,
    COMPLETE,
    *_arrivals("arrive", "13", "arrives at an mbarrier"),
    *_arrivals("arrive_drop", "14", "arrives for the last time, so that later phases expect one arrival fewer"),
    *_waits("test_wait", _AMPERE, "7.1", "tells whether", changes=False),
    *_waits("try_wait", ("7.8", "sm_90"), "7.8", "waits for a while and tests whether"),
    PENDING,
)

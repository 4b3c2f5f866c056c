"""Barriers of a block and of a cluster (PTX ISA 9.1, 9.7.13.1 and 9.7.13.3).

    bar.sync   bar.arrive   bar.red.popc.u32   barrier.sync.aligned   barrier.cluster.arrive.release

bar is the old name of barrier.aligned, so ptxas rejects .aligned on bar.sync.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tcemu.instructions.family import Family
from tcemu.instructions.plain import THREAD, WARP, family, one
from tcemu.instructions.rows import Rows

SECTION, CLUSTER_SECTION = "9.7.13.1", "9.7.13.3"
_NUMBERS = "A block has barriers 0 to 15. The number of threads is a multiple of 32; if left out, all must arrive."
_WHOLE = "A warp counts as 32 threads, no matter which lanes are active."
_ALIGNED = "All lanes of a warp execute it together."


def _rows(aligned: tuple[str, ...], words: Mapping[str, list[str]], facts: Any) -> list[Rows]:
    slots = {**words, "aligned": aligned} if any(aligned) else words
    return [Rows({**slots, "cta": (word,)}, ptx, "sm_70", facts) for word, ptx in (("", "6.0"), ("cta", "7.8"))]


def _families(name: str, aligned: tuple[str, ...]) -> tuple[Family, ...]:
    """bar or barrier: .sync, .arrive, .red."""
    suffix = "[.{aligned}]" if any(aligned) else ""
    rules = (_NUMBERS, _WHOLE, *(() if any(aligned) else (_ALIGNED,)))

    def stems(what: str) -> tuple[str, ...]:
        return f"{name}.{what}", f"{name}.cta.{what}"

    how: dict[str, Any] = {"aligned": not any(aligned)}
    return (
        family(
            f"{name}.sync",
            f"{name}[.{{cta}}].sync{suffix}",
            SECTION,
            _rows(aligned, {}, WARP),
            stems=stems("sync"),
            signature="= barrier threads?",
            about="makes the threads of a block wait for each other and see what each of them wrote",
            rules=rules,
            **how,
        ),
        family(
            f"{name}.arrive",
            f"{name}[.{{cta}}].arrive{suffix}",
            SECTION,
            _rows(aligned, {}, WARP),
            stems=stems("arrive"),
            signature="= barrier threads",
            about="arrives at a barrier without waiting",
            rules=rules,
            **how,
        ),
        family(
            f"{name}.red",
            f"{name}[.{{cta}}].red.{{op}}{suffix}.{{type}}",
            SECTION,
            [
                *_rows(aligned, {"op type": ["popc u32"]}, replace(WARP, answers="value")),
                *_rows(aligned, {"op type": ["and pred", "or pred"]}, replace(WARP, answers="predicate")),
            ],
            stems=stems("red"),
            signature="d_answer = barrier threads? predicate",
            about="waits at a barrier and returns how many predicates are true, or whether all or any are",
            rules=rules,
            **how,
        ),
    )


_CLUSTER = "Every thread of the cluster arrives, then waits."
ARRIVE_CLUSTER = family(
    "barrier.cluster.arrive",
    "barrier.cluster.arrive[.{order}][.{aligned}]",
    CLUSTER_SECTION,
    [
        one("7.8", "sm_90", replace(THREAD, order="release"), aligned=" aligned"),
        one("8.0", "sm_90", replace(THREAD, order="release"), order="release relaxed", aligned=" aligned"),
    ],
    signature="=",
    about="arrives at the barrier of the cluster",
    rules=(_CLUSTER,),
)
WAIT_CLUSTER = family(
    "barrier.cluster.wait",
    "barrier.cluster.wait[.{order}][.{aligned}]",
    CLUSTER_SECTION,
    [
        one("7.8", "sm_90", replace(THREAD, order="acquire"), aligned=" aligned"),
        one("8.0", "sm_90", replace(THREAD, order="acquire"), order="acquire", aligned=" aligned"),
    ],
    signature="=",
    about="waits at the barrier of the cluster",
    rules=(_CLUSTER,),
)
FAMILIES = (*_families("bar", ("",)), *_families("barrier", ("", "aligned")), ARRIVE_CLUSTER, WAIT_CLUSTER)

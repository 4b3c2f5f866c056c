"""Fences between a thread's accesses to memory (PTX ISA 9.1, 9.7.13.4).

    fence.acq_rel.gpu   fence.sc.cta   membar.gl   fence.mbarrier_init.release.cluster   fence.proxy.alias

fence.proxy.async is in ordering.py, with wgmma's other ordering instructions.
"""

from __future__ import annotations

from dataclasses import replace

from tcemu.instructions.plain import THREAD, family, one

SECTION = "9.7.13.4"
_ALL = "cta gpu sys"
_ORDERED = replace(THREAD, order="acq_rel")
_PROXIES = "the machine has only the generic and the asynchronous proxy"
_RESTRICTED = "the machine has no fence restricted to a cluster's shared memory"

_LIMITED = replace(THREAD, unsupported=_RESTRICTED)
_LIMITS = ("acquire", "sync_restrict::shared::cluster"), ("release", "sync_restrict::shared::cta")
FENCE = family(
    "fence",
    "fence[.{order}][.{sync_restrict}].{scope}",
    SECTION,
    [
        one(facts=_ORDERED, order=" sc acq_rel", scope=_ALL),
        one("7.8", "sm_90", _ORDERED, order=" sc acq_rel", scope="cluster"),
        one("8.6", "sm_90", _ORDERED, order="acquire release", scope="cta cluster gpu sys"),
        *(one("8.6", "sm_90", _LIMITED, order=order, sync_restrict=space, scope="cluster") for order, space in _LIMITS),
    ],
    signature="=",
    changes=False,
    about="orders a thread's earlier accesses to memory with its later ones",
    rules=(
        "It does not wait: two threads each need a fence, and a flag that one writes and the other reads.",
        "The default order is .acq_rel. All threads agree on one order of .sc fences.",
    ),
)
MEMBAR = family(
    "membar",
    "membar.{scope}",
    SECTION,
    [one(facts=replace(THREAD, order="sc"), scope="cta gl sys")],
    signature="=",
    changes=False,
    about="the old name of fence.sc",
    rules=(".gl is the scope .gpu.",),
)
INIT = family(
    "fence.mbarrier_init",
    "fence.mbarrier_init.{order}.{scope}",
    SECTION,
    [one("8.0", "sm_90", THREAD, order="release", scope="cluster")],
    signature="=",
    about="makes mbarriers that a thread has initialised visible to the cluster and to bulk copies",
    rules=("Threads of the same block need a barrier after it.",),
)
_TENSOR_MAP, _SCOPES = "tensormap::generic", "cta cluster gpu sys"
PROXY = family(
    "fence.proxy",
    "fence.proxy.{proxy}[.{order}][.{sync_restrict}][.{scope}]",
    SECTION,
    [
        one("7.5", facts=replace(THREAD, unsupported=_PROXIES), proxy="alias"),
        one("8.3", "sm_90", proxy=_TENSOR_MAP, order="release acq_rel", scope=_SCOPES),
        one("8.3", "sm_90", replace(THREAD, ranged=True), proxy=_TENSOR_MAP, order="acquire", scope=_SCOPES),
        *(
            one("8.6", "sm_90", _LIMITED, proxy="async::generic", order=order, sync_restrict=space, scope="cluster")
            for order, space in _LIMITS
        ),
    ],
    signature="= [ranged: address size]",
    about="orders a thread's accesses across two proxies, which are paths to memory",
    rules=(
        ".tensormap::generic.release follows a change of a tensor map in global memory, in the thread that made it.",
        ".tensormap::generic.acquire on the 128 bytes of the map comes before the copy that uses it, in its thread.",
    ),
)
MEMBAR_PROXY = family(
    "membar.proxy",
    "membar.proxy.{proxy}",
    SECTION,
    [one("7.5", proxy="alias"), one("8.0", "sm_90", proxy="async")],
    signature="=",
    unsupported="it is the old name of fence.proxy: write that",
    about="the old name of fence.proxy",
)
FAMILIES = (FENCE, MEMBAR, INIT, PROXY, MEMBAR_PROXY)

"""Cluster launch control: cancel a cluster that has not started, and take over its work (PTX ISA 9.1, 9.7.13.17)."""

from __future__ import annotations

from tcemu.instructions.facts import Facts
from tcemu.instructions.operand import Operand
from tcemu.instructions.plain import family, one
from tcemu.instructions.rows import Rows

_AXES = ("::x", "::y", "::z")
_MULTICAST = "multicast::cluster::all"
#: What a query reads: the 16 bytes that try_cancel has written, in a register of 128 bits.
_RESPONSE = {"response": Operand("response", "value", registers=2, bits=64)}

TRY_CANCEL = family(
    "clusterlaunchcontrol.try_cancel",
    "clusterlaunchcontrol.try_cancel.async[.{ss}].mbarrier::complete_tx::bytes[.{multicast}].b128",
    "9.7.13.17",
    [
        one("8.6", "sm_100", Facts(lanes=1, completes=True), ss=" shared::cta"),
        Rows(
            {"ss": ("", "shared::cta"), "multicast": (_MULTICAST,)},
            "8.6",
            "sm_100f sm_110f sm_120f",
            Facts(lanes=1, completes=True),
        ),
    ],
    signature="= destination mbarrier",
    about="tries to cancel a cluster that has not started; 16 bytes of shared memory get the response",
    rules=(
        "Both addresses are in the block's own shared memory; the response is at a multiple of 16 bytes.",
        "The mbarrier counts the 16 bytes. Before its phase completes, the response must not be read.",
        f".{_MULTICAST} gives the same response to every block of the cluster, at the same place.",
        "After a block has found out that a request failed, it must not try again.",
    ),
)
IS_CANCELED = family(
    "clusterlaunchcontrol.is_canceled",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
    "9.7.13.18",
    [one("8.6", "sm_100", Facts(lanes=1, answers="predicate"))],
    stems=["clusterlaunchcontrol.query_cancel.is_canceled"],
    signature="d_answer = response",
    roles=_RESPONSE,
    changes=False,
    about="says whether try_cancel has cancelled a cluster",
)
FIRST = family(
    "clusterlaunchcontrol.first_ctaid",
    "clusterlaunchcontrol.query_cancel.{what}[.{vec}].{type}.b128",
    "9.7.13.18",
    [
        Rows({"what": ("get_first_ctaid",), "vec": ("v4",), "type": ("b32",)}, "8.6", "sm_100", Facts(lanes=1)),
        Rows({"what": [f"get_first_ctaid{axis}" for axis in _AXES], "type": ("b32",)}, "8.6", "sm_100", Facts(lanes=1)),
    ],
    stems=[f"clusterlaunchcontrol.query_cancel.get_first_ctaid{axis}" for axis in ("", *_AXES)],
    signature="d_value = response",
    roles=_RESPONSE,
    changes=False,
    about="gives %ctaid of the first block of the cluster that try_cancel has cancelled",
    rules=("If no cluster was cancelled, the result is undefined. The fourth register of .v4 is unspecified.",),
)
FAMILIES = (TRY_CANCEL, IS_CANCELED, FIRST)

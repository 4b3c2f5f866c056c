"""Rules of cluster launch control, the smallest kernels that break them, and the section that checks them."""

from __future__ import annotations

from typing import Any

from tcemu.machine.events import By, CancelAsked, CancelQueried
from tcemu.sanitizer.block import Block, Handlers, section
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import barrier

rules(
    Rule(
        "cancel-after-failure",
        "try_cancel after a failed one",
        "9.7.13.17",
        "Once a block has found out that clusterlaunchcontrol.try_cancel failed, another one of the block is "
        "undefined: no cluster is left to cancel.",
        "Leave the loop when query_cancel.is_canceled is false.",
    ),
    Rule(
        "cancel-response",
        "a query of a response that has no answer",
        "9.7.13.18",
        "query_cancel reads what try_cancel wrote, after its mbarrier's phase has completed. get_first_ctaid is "
        "defined only if a cluster was cancelled.",
        "Wait for the mbarrier, load the 16 bytes, and ask for the first ctaid only if is_canceled is true.",
    ),
)

_TRY = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
_IS_CANCELED = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128"
_FIRST = "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128"


def _ask(warp: Any) -> Any:
    """The response to a request of one lane, at byte 0; the mbarrier is at byte 64."""
    barrier(warp, 64)
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive_expect_tx(64, 16)
        warp.run(_TRY, 0, 64)
    warp.mbarrier_wait(64, 0)
    return warp.run("ld.shared.b128", 0)


@breaks("cancel-after-failure", block=32, target="sm_100a")
def no_cluster_is_left_and_it_asks_again(warp: Any, g: Any) -> None:
    response = _ask(warp)
    if not warp.run(_IS_CANCELED, response).all():
        with warp.only(warp.elect_sync()):
            warp.run(_TRY, 16, 64)  # <- reported


@breaks("cancel-response", block=32, target="sm_100a")
def the_first_ctaid_of_a_failure(warp: Any, g: Any) -> None:
    response = _ask(warp)
    warp.run(_FIRST, response)  # <- reported


_WHY = {
    "failed": "asks for the first ctaid of a request that failed",
    "none": "reads 16 bytes that no try_cancel has written, or not yet",
}


@section
class LaunchControl:
    """The requests of the blocks, and what they found out."""

    def __init__(self, block: Block) -> None:
        self._block = block
        #: by block: where it first found out that a request had failed
        self._failed: dict[int, By] = {}
        self.handlers: Handlers = {CancelAsked: self._asked, CancelQueried: self._queried}

    def _asked(self, event: CancelAsked) -> None:
        before = self._failed.get(int(event.by.block))
        if before is not None:
            message = "clusterlaunchcontrol.try_cancel asks again after the block has found out that a request failed"
            earlier = Earlier(before, "query_cancel.is_canceled")
            self._block.tell(Report("cancel-after-failure", message, event.by, "the grid", earlier))

    def _queried(self, event: CancelQueried) -> None:
        if event.what == "is_canceled" and "failed" in event.responses:
            self._failed.setdefault(int(event.by.block), event.by)
        for kind in event.responses:
            if kind == "none" or (kind == "failed" and event.what == "get_first_ctaid"):
                message = f"clusterlaunchcontrol.query_cancel.{event.what} {_WHY[kind]}: the result is undefined"
                self._block.tell(Report("cancel-response", message, event.by, "the response"))

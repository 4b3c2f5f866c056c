"""The groups of wgmma (PTX ISA 9.1, 9.7.15.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def wgmma_fence(self: Warp) -> None:
    """wgmma.fence.sync.aligned (9.7.15.7.1): order this warp's earlier register accesses with later mma_asyncs."""
    self.core.execute("wgmma.fence.sync.aligned")


def wgmma_commit_group(self: Warp) -> None:
    """wgmma.commit_group.sync.aligned (9.7.15.7.2): the warpgroup's mma_asyncs so far become a group."""
    self.core.execute("wgmma.commit_group.sync.aligned")


def wgmma_wait_group(self: Warp, pending: int) -> None:
    """wgmma.wait_group.sync.aligned N (9.7.15.7.3): wait until at most the N latest groups are pending."""
    self.core.execute("wgmma.wait_group.sync.aligned", pending)

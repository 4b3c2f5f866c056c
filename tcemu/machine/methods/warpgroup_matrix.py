"""The groups of wgmma (PTX ISA 9.1, 9.7.15.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def wgmma_fence(self: Warp) -> None:
    """wgmma.fence.sync.aligned: order the register accesses of this warp before it with the mma_asyncs after it."""
    self.core.execute("wgmma.fence.sync.aligned")


def wgmma_commit_group(self: Warp) -> None:
    """wgmma.commit_group.sync.aligned: the warpgroup's mma_asyncs that are not in a group yet become a group."""
    self.core.execute("wgmma.commit_group.sync.aligned")


def wgmma_wait_group(self: Warp, pending: int) -> None:
    """wgmma.wait_group.sync.aligned N: wait until at most the N latest groups are pending."""
    self.core.execute("wgmma.wait_group.sync.aligned", pending)

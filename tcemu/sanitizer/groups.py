"""Groups of bulk copies: which lanes of a warp issued copies, and how far they know the groups to have ended."""

from __future__ import annotations

from tcemu.machine.events import By
from tcemu.sanitizer.clocks import Clocks


class Groups:
    """One agent for each warp: its clock counts the groups that have ended in one respect, read or written."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        #: by warp: the agent's column, and the lanes that issued copies
        self._agents: dict[int, tuple[int, int]] = {}

    def join(self, by: By) -> int:
        """The active lanes issue a copy, which ends with its group; return the agent's column."""
        column, lanes = self._agents.get(by.warp) or (self._clocks.agent(), 0)
        self._agents[by.warp] = column, lanes | by.active
        return column

    def column(self, warp: int) -> int:
        """The column of a warp's agent; -1 if the warp has issued no copy."""
        return self._agents.get(warp, (-1, 0))[0]

    def issuers(self, by: By) -> int:
        """Those of the active lanes that issued copies, as bits."""
        return self._agents.get(by.warp, (-1, 0))[1] & by.active

    def ended(self, by: By, below: int) -> None:
        """The active lanes that issued copies learn that the groups before `below` have ended."""
        lanes = self.issuers(by)
        if lanes:
            self._clocks.learn(by.warp, lanes, self.column(by.warp), below)

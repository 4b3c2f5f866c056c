"""Reads what was handed in without trusting it: folders and archives become plain records."""

from tcemu.grade.intake.reading import submissions, unlisted
from tcemu.grade.intake.roster import Roster

__all__ = ["Roster", "submissions", "unlisted"]

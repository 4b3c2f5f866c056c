"""The course: find its notebooks and exercises, and lay them out for a learner."""

from tcemu.course.lay_out import RECORD, Laid, lay_out
from tcemu.course.source import FOLDERS, clone_around, files, source

__all__ = ["FOLDERS", "RECORD", "Laid", "clone_around", "files", "lay_out", "source"]

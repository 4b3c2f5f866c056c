"""The course: find its notebooks and exercises, and lay them out for a learner."""

from tcemu.course.lay_out import RECORD, Laid, lay_out
from tcemu.course.source import FOLDERS, LEARNERS, clone_around, clone_opened, files, own_folder, source

__all__ = [
    "FOLDERS", "LEARNERS", "RECORD", "Laid", "clone_around", "clone_opened", "files", "lay_out", "own_folder", "source",
]  # fmt: skip

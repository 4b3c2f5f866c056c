"""What comes of grades: tables, pages for students and for the teacher, Gradescope's results, nbgrader's gradebook."""

from tcemu.grade.output.report import tables
from tcemu.grade.output.writing import write_all

__all__ = ["tables", "write_all"]

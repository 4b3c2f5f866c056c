"""What was handed in, read by somebody who trusts none of it: folders and archives become plain records."""

from tcemu.grade.intake.reading import submissions

__all__ = ["submissions"]

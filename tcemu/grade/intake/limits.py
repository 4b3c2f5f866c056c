"""The largest submission that is accepted. A notebook that a person writes stays far below each of these limits."""

from __future__ import annotations

MB = 1 << 20

#: Bytes of a notebook, its pictures included.
NOTEBOOK = 8 * MB
#: How deep the brackets of a notebook's JSON are nested; a real one has about 8.
DEPTH = 64
#: Files of one student that are looked at, their bytes together, and how deep their folders are nested.
FILES, STUDENT, FOLDERS = 200, 64 * MB, 12
#: Bytes of an archive that a student handed in, and of its list of contents (about 100 for each file).
ARCHIVE, CONTENTS = 32 * MB, 256 << 10
#: Files of the whole class.
CLASS = 200_000
#: Bytes that come out of one compressed byte. Notebooks reach 30; what is below SMALL may be more.
RATIO, SMALL = 200, MB
#: Bytes of Gradescope's list of submissions.
METADATA = 64 * MB


def amount(size: float) -> str:
    """A number of bytes in words: "3 MiB".

    >>> from tcemu.grade.intake.limits import NOTEBOOK, amount
    >>> amount(NOTEBOOK), amount(300_000), amount(9)
    ('8 MB', '293 KB', '9 bytes')
    """
    for unit, name in ((MB << 10, "GB"), (MB, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"

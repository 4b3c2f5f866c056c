"""Files that a crash leaves whole: a reader sees the old text or the new one, and never a part of it."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path


def keep(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file as a whole, so that it survives a crash of the machine. Folders that are missing are made.

    Only the owner can read it, and the folders made for it, unless `mode` says otherwise.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tcemu.course.keeping import keep
    >>> with TemporaryDirectory() as folder:
    ...     keep(Path(folder, "grades", "ada.txt"), "7 of 9")
    ...     Path(folder, "grades", "ada.txt").read_text(), oct(Path(folder, "grades").stat().st_mode)[-3:]
    ('7 of 9', '700')
    """
    private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "w", encoding="utf-8", newline="\n", opener=partial(_made, mode)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it, for its owner only; one that exists stays as it is."""
    if not folder.is_dir():
        private_folder(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def _made(mode: int, path: str, flags: int) -> int:
    return os.open(path, flags, mode)


def _sync(folder: Path) -> None:
    """Make a file's new name in the folder survive a crash of the machine, where folders can be synchronised."""
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(held)
        finally:
            os.close(held)

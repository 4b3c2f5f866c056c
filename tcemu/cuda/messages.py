"""What NVRTC says, as messages: the line of the cell or file, the sentence, and the source with a caret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tcemu.cuda.toolkit import OWN
from tcemu.errors import CompilationError, counted
from tcemu.tracebacks import place

#: Messages shown at most.
_SHOWN = 8
_HEAD = re.compile(
    r"^(?P<file>.+)\((?P<line>\d+)\): (?P<kind>(?:catastrophic |internal )?error|warning)(?: #[\w-]+)?: (?P<said>.*)$"
)
_NO_FILE = re.compile(r'cannot open source file "([^"]+)"')
_NAMES = "__nv_name_map"  # NVRTC's file of name expressions


@dataclass(frozen=True)
class Message:
    """One complaint; `excerpt` is the source line and the caret below it, and where templates were instantiated."""

    file: str
    line: int
    error: bool
    said: str
    excerpt: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{place(self.file, self.line)}: {self.said}", *self.excerpt])


def messages(log: str) -> Iterator[Message]:
    """The complaints of NVRTC's log, in order; what is said between them belongs to the one before."""
    found, more = None, list[str]()
    for text in [*log.splitlines(), "end(0): error: "]:
        head = _HEAD.match(text)
        if head is None:
            more.append(text.rstrip())
            continue
        if found is not None:
            wrong = "error" in found["kind"]
            yield Message(found["file"], int(found["line"]), wrong, found["said"], tuple(_kept(more)))
        found, more = head, []


def _kept(lines: Iterable[str]) -> Iterator[str]:
    """What belongs to a complaint: the text up to an empty line, without NVRTC's remarks."""
    for text in lines:
        if not text.strip():
            return
        if not re.match(r"Remark: |Compilation terminated|\d+ errors? detected", text):
            yield text


def error(log: str, failed: str = "", advice: str = "") -> CompilationError:
    """The error that shows what NVRTC said."""
    found = [each for each in messages(log) if each.error]
    shown = [str(each) for each in found[:_SHOWN]]
    left = f"... and {counted(len(found) - _SHOWN, 'error')} more" if len(found) > _SHOWN else ""
    text = "\n\n".join(filter(None, [*(shown or [log.strip() or failed]), left, advice]))
    made = CompilationError(text)
    made.verbatim = True
    return made


def warnings(log: str) -> tuple[Message, ...]:
    """Warnings about the user's own lines: not about CUDA's headers."""
    own = str(OWN.parent)
    found = (each for each in messages(log) if not each.error)
    return tuple(each for each in found if "nvidia" not in Path(each.file).parts and own not in each.file)


def absent_header(log: str) -> str:
    """The header that NVRTC did not find; empty if it found all."""
    found = _NO_FILE.search(log)
    return found[1] if found else ""


def wrong_lines(log: str, file: str) -> frozenset[int]:
    """The lines of a file that have errors."""
    return frozenset(each.line for each in messages(log) if each.error and each.file == file)


def wrong_files(log: str) -> frozenset[str]:
    """The files that have errors."""
    return frozenset(each.file for each in messages(log) if each.error)


def names_wrong(log: str) -> bool:
    """Whether the errors are about name expressions, so that the source itself compiles."""
    found = [each for each in messages(log) if each.error]
    return bool(found) and all(each.file == _NAMES for each in found)

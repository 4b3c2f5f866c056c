"""Lines of the source: .file, .loc with the calls that were inlined, and the strings of .section .debug_str.

The tables follow the functions that use them, so they are read first.
"""

from __future__ import annotations

import re

from tcemu.assembly.constants import count
from tcemu.assembly.lexer import END, Tokens
from tcemu.assembly.module import Line
from tcemu.assembly.names import demangle

_Place = tuple[int, int, int]
#: What a compiler writes for bytes that are not ASCII, three octal digits each, and for backslashes and quotes.
_ESCAPED = re.compile(r'(?:\\[0-3][0-7]{2})+|\\[\\"]')


def unescaped(path: str) -> str:
    r"""The path that .file means by its text.

    >>> from tcemu.assembly.lines import unescaped
    >>> unescaped(r"C:\\r\303\251sum\303\251\\a.cu")
    'C:\\résumé\\a.cu'
    """
    return _ESCAPED.sub(_meant, path)


def _meant(escaped: re.Match[str]) -> str:
    octal = re.findall(r"\\([0-7]{3})", escaped[0])
    return bytes(int(each, 8) for each in octal).decode(errors="replace") if octal else escaped[0][1]


class Lines:
    """The source files that PTX text names, and the line of its latest .loc."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        #: Files by number.
        self.files: dict[int, str] = {}
        #: The line that the next instruction comes from.
        self.line: Line | None = None
        self._strings: dict[str, bytes] | None = None
        #: The line that was named last for each place: what inlined_at means.
        self._named: dict[_Place, Line] = {}
        self._function = ""
        texts, at = tokens.texts, 0
        for at in [at for at, word in enumerate(texts) if word == ".file"]:
            tokens.at = at
            self.file()
        tokens.at = 0

    def file(self) -> None:
        """Read a .file: its number and path; the time and size that may follow do not matter."""
        tokens = self._tokens
        tokens.expect(".file")
        number = count(tokens, "the number of a file")
        self.files[number] = unescaped(tokens.string("the path of a file, in quotes"))
        while tokens.accept(","):
            count(tokens, "the time or size of a file")

    def begin(self, function: str) -> None:
        """A function begins; its lines are its own if .loc does not say otherwise."""
        self._function, self.line = demangle(function).short, None
        self._named.clear()

    def loc(self) -> None:
        """Read a .loc. Line 0 means that the compiler knows none: the line stays."""
        tokens = self._tokens
        tokens.expect(".loc")
        place, function, inlined = self._place(), self._function, None
        while tokens.accept(","):
            if tokens.one_of("what .loc says of a call", ("function_name", "inlined_at")) == "inlined_at":
                call = self._place()
                inlined = self._named.get(call) or self._line(call, self._function, None)
            else:
                function = self._function_name()
        if place[1]:
            self.line = self._named[place] = self._line(place, function, inlined)

    def section(self) -> None:
        """Read a .section, whose contents are for debuggers; its strings are read when a .loc needs one."""
        tokens = self._tokens
        tokens.expect(".section")
        tokens.name_of("a section") if not tokens.word.startswith(".") else tokens.next()
        tokens.expect("{", "before the contents of a section")
        while not tokens.accept("}"):
            if tokens.next() is END:
                raise tokens.unexpected("'}' after the contents of a section")

    def _place(self) -> _Place:
        file, line = (count(self._tokens, f"the {what} of .loc") for what in ("file", "line"))
        return file, line, count(self._tokens, "the column of .loc")

    def _line(self, place: _Place, function: str, inlined: Line | None) -> Line:
        file, line, column = place
        return Line(self.files.get(file, "?"), line, column, function, inlined)

    def _function_name(self) -> str:
        tokens = self._tokens
        label = tokens.name_of("a function's name in .debug_str")
        offset = count(tokens, "the offset of a name") if tokens.accept("+") else 0
        if self._strings is None:
            self._strings = _strings(tokens)
        text, _, _ = self._strings.get(label, b"")[offset:].partition(b"\0")
        return demangle(text.decode(errors="replace")).short


def _strings(tokens: Tokens) -> dict[str, bytes]:
    """The bytes from each label of .debug_str on, up to the next label."""
    texts, sections = tokens.texts, dict[str, bytes]()
    for start in (at for at, word in enumerate(texts) if word == ".section" and texts[at + 1] == ".debug_str"):
        end = texts.index("}", start) if "}" in texts[start:] else len(texts)
        label, held = "", bytearray()
        for at in range(start + 3, end):
            if texts[at + 1 : at + 2] == [":"]:
                label, held = texts[at], bytearray()
            elif texts[at].isdigit() and len(texts[at]) < 4:
                held.append(int(texts[at]) & 255)
            sections[label] = bytes(held)
    return sections

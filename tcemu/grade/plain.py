"""Untrusted text and names, made harmless for a page, a terminal, a spreadsheet and a file system."""

from __future__ import annotations

import hashlib
import re
import unicodedata

#: Characters of a name that are kept; its length and digest stand for the rest.
LONGEST_NAME = 100
#: Combining marks on one character; more of them cover the lines above and below.
_COMBINING = 4
#: Unicode categories that have no shape of their own: controls, formats such as text direction, lone surrogates,
#: private use, separators of lines and paragraphs.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
#: Characters, of any width, that make a spreadsheet take a cell for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
#: Where one may begin: at the start, and after what some spreadsheet takes for a separator, blanks and quotes.
_STARTS = re.compile(rf"""(^|[;,:|\t])(\s*(?:["']\s*)*[{re.escape("".join(_FORMULA))}])""")
#: File names that Windows reserves for devices.
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with everything invisible written out; with `lines`, line ends stay.

    It cannot change the direction of the text around it, move a terminal's cursor or cover other lines.

    >>> from tcemu.grade.plain import visible
    >>> visible("ada\x1b[2J\u202egnp")
    'ada⟨U+001B⟩[2J⟨U+202E⟩gnp'
    """
    if text.isascii() and text.isprintable():
        return text
    kept, marks = [], 0
    for character in text.replace("\r\n", "\n"):
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if character == "\n" and lines:
            kept.append(character)
        elif character in "\t\n":
            kept.append(" ")
        elif category in _INVISIBLE or _nothing(character):
            kept.append(f"⟨U+{ord(character):04X}⟩")
        elif marks <= _COMBINING:
            kept.append(character)
    return "".join(kept)


def _nothing(character: str) -> bool:
    """Whether it is a noncharacter, a code point that Unicode will never assign."""
    return ord(character) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(character) <= 0xFDEF


def name_of(raw: str) -> str:
    r"""A name as it appears everywhere: composed (NFC), visible and of limited length. Two names may become the same.

    >>> from tcemu.grade.plain import name_of
    >>> name_of("  Jose\u0301\n"), len(name_of("x" * 5000)) <= 120
    ('José', True)
    """
    name = visible(unicodedata.normalize("NFC", raw).strip()) or "⟨no name⟩"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}…{_digest(raw)}"


def alike(name: str) -> str:
    """A key that is the same for two names if a reader or a file system may take one for the other.

    >>> from tcemu.grade.plain import alike
    >>> alike("ADA") == alike("ada"), alike("ﬁn") == alike("FIN")
    (True, True)
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


#: Letters of other alphabets, and digits, that look like a Latin letter, in small letters.
_LOOKS = str.maketrans({
    **dict(zip("авгеёіїјкӏмнорсԛѕтуүѵԝхһьԁ", "abreeiijklmhopcqstyyvwxhbd", strict=True)),
    **dict(zip("αβεηικνορτυχγωϲ", "abenikvoptuxywc", strict=True)),
    **dict(zip("01|ı", "olli", strict=True)),
})  # fmt: skip


def looks(name: str) -> str:
    """A key that is the same for two names that look the same: letters of other alphabets, accents, blanks and case.

    >>> from tcemu.grade.plain import looks
    >>> looks("ada") == looks("\u0430da") == looks("ADA ") == looks("\u00e1da")
    True
    """
    plain = unicodedata.normalize("NFKD", alike(name).translate(_LOOKS))
    return "".join(kept for kept in plain if unicodedata.category(kept)[0] not in "MZ").translate(_LOOKS)


def letters(name: str) -> list[str]:
    """The letters of a name that belong to another alphabet than Latin, by their Unicode names.

    >>> from tcemu.grade.plain import letters
    >>> letters("\u0430da")
    ['U+0430 CYRILLIC SMALL LETTER A']
    """
    others = (each for each in name if not each.isascii() and each.casefold() != each.casefold().translate(_LOOKS))
    unusual = dict.fromkeys(others)
    return [f"U+{ord(each):04X} {unicodedata.name(each, '')}".rstrip() for each in unusual]


def file_name(name: str) -> str:
    """A file name for a student: different for different names on every file system, and readable if that is possible.

    >>> from tcemu.grade.plain import file_name
    >>> file_name("ada.l"), file_name("../Ada")
    ('ada.l', 'Ada~4e4af216')
    """
    plain = unicodedata.normalize("NFKD", name)
    short = "".join(kept for kept in plain if kept.isascii() and (kept.isalnum() or kept in "._-")).strip("._-")[:40]
    easy = short == name and short == short.lower() and short.partition(".")[0] not in _DEVICES
    return short if easy else f"{short or 'student'}~{_digest(name)}"


def cell(text: str) -> str:
    """Text for a spreadsheet: a formula gets an apostrophe in front, as OWASP recommends.

    That includes what would be a formula where a spreadsheet divides the line at other separators than commas.

    >>> from tcemu.grade.plain import cell
    >>> cell("=1+1"), cell("ada"), cell(" @SUM(A1)"), cell("x;=1+1")
    ("'=1+1", 'ada', "' @SUM(A1)", "x;'=1+1")
    """
    return _STARTS.sub(r"\1'\2", visible(text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]

"""PTX text as tokens, each with its place, and the errors that quote that place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from string import ascii_letters, digits

from tcemu.errors import PtxError, listing, shown

# Possessive quantifiers (++, *+) and a last alternative that takes any character: the expression never goes back.
_TOKEN = re.compile(
    r"""
    (?: \s++ | //[^\n]*+ | /\*(?s:.*?)\*/ )*+
    (
        [A-Za-z_$%][\w$]*+ (?: (?:\.|::) [\w$]++ )*+            # names, special registers, opcodes
      | \.[A-Za-z_]\w*+ (?: :: \w++ )*+                         # directives and types
      | 0[xX]\w*+ | 0[fFdD][0-9a-fA-F]*+
      | (?: [0-9]++ (?: \.[0-9]*+ )?+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+ \w*+ # 12, 0b1U, 1.5e3, .5
      | "[^"\n]*+"
      | << | >> | <= | >= | == | != | && | \|\|
      | (?s:.) | \Z
    )
    """,
    re.VERBOSE | re.ASCII,
)
_LETTERS, _MARKS = frozenset(ascii_letters), frozenset("_$%")
#: The tokens of one character, but /, which may begin a comment that does not end.
_ALONE = _LETTERS | _MARKS | frozenset(digits) | frozenset(",;:{}[]()@!+-=<>|*&~?^")
#: What no token is: the end of the text.
END = ""
#: An excerpt shows at most this much of a line on each side of the mistake.
_AROUND = 60


class Tokens:
    """The tokens of PTX text, and the one that is read next."""

    __slots__ = ("at", "lines", "name", "starts", "text", "texts")

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name, self.at = text, name, 0
        self.lines = [0, *(newline.end() for newline in re.finditer("\n", text))]
        words = [(each[1], each.start(1)) for each in _TOKEN.finditer(text.rstrip("\0")) if each[1]]
        self.texts = [word for word, _ in words]
        self.starts = [start for _, start in words]
        for at, word in enumerate(self.texts):
            if len(word) == 1 and word not in _ALONE and (word != "/" or self._follows(at) == "*"):
                raise self.error(self._stray(word), at)
        # Nothing reads past END; expressions look at one token behind the current one.
        self.texts += [END, END]
        self.starts += [len(text)] * 2

    def _follows(self, at: int) -> str:
        return self.text[self.starts[at] + 1 : self.starts[at] + 2]

    def _stray(self, word: str) -> str:
        if word == "/":
            return "the comment that begins here does not end"
        if word == '"':
            return "the string that begins here does not end on its line"
        if word == "#":
            return "PTX has no preprocessor: run the text through one first (cpp -P)"
        return f"{shown(word)} means nothing in PTX"

    # ---------------------------------------------------------------------------------------- reading

    @property
    def word(self) -> str:
        """The token that is read next."""
        return self.texts[self.at]

    def next(self) -> str:
        """Read one word."""
        word = self.texts[self.at]
        if word is not END:
            self.at += 1
        return word

    def accept(self, word: str) -> bool:
        """Read this token if it comes next."""
        if self.texts[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str, where: str = "") -> None:
        """Read this token; `where` says in an error what it belongs to: "after the operands of add.s32"."""
        if not self.accept(word):
            raise self.unexpected(f"{word!r}{where and ' '}{where}")

    def name_of(self, what: str) -> str:
        """Read a name of something, say "a variable"."""
        word = self.texts[self.at]
        if not is_name(word) or "." in word:
            raise self.unexpected(f"the name of {what}")
        self.at += 1
        return word

    def one_of(self, what: str, accepted: Collection[str]) -> str:
        """Read one of several words."""
        word = self.texts[self.at]
        if word not in accepted:
            raise self.unexpected(f"{what} ({listing(sorted(accepted))})")
        self.at += 1
        return word

    def string(self, what: str) -> str:
        """Read a string in quotes."""
        word = self.texts[self.at]
        if word[:1] != '"':
            raise self.unexpected(what)
        self.at += 1
        return word[1:-1]

    # ---------------------------------------------------------------------------------------- places and errors

    def line_at(self, at: int) -> int:
        """The line of a word in the text, from 1."""
        return bisect_right(self.lines, self.starts[at])

    def unexpected(self, expected: str, at: int | None = None) -> PtxError:
        """The error that something else was expected than the token that comes next, or that at index `at`."""
        at = self.at if at is None else at
        word = self.texts[at]
        return self.error(f"expected {expected}, found {shown(word) if word else 'the end of the text'}", at)

    def error(self, message: str, at: int | None = None) -> PtxError:
        """An error at the token that comes next, or at index `at`, which quotes its line."""
        start = self.starts[self.at if at is None else at]
        number = bisect_right(self.lines, start)
        first = self.lines[number - 1]
        end = self.lines[number] - 1 if number < len(self.lines) else len(self.text)
        low, high = max(first, start - _AROUND), min(end, start + _AROUND)
        before, after = (self.text[low:start].replace("\t", " "), self.text[start:high].replace("\t", " "))
        margin = f"{number:>6} | "
        quoted = f"{margin}{before}{after}".rstrip()
        caret = f"{'| ':>{len(margin)}}{' ' * len(before)}^"
        return PtxError(f"{self.name}:{number}: {message}\n{quoted}\n{caret}", number)


def is_name(word: str) -> bool:
    """Whether a token names something: a variable, a register, a label."""
    return word[:1] in _LETTERS or (word[:1] in _MARKS and len(word) > 1)


def is_number(word: str) -> bool:
    """Whether a token is a number: 12, 0x1F, 1.5, .5."""
    return word[:1].isdigit() or (word[:1] == "." and word[1:2].isdigit())

"""What a parser without a preprocessor sees of a function: one branch of each #if.

In lists and between the parameters of a function, #if and #endif are lost on the parser, and both branches of an
#if ... #else may open a brace that one #endif closes. Between functions nothing is hidden: each branch may hold some.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Comments, strings and characters; directives with their continued lines; what opens and closes.
_TOKEN = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.){1,4}'"
    rb"|^[ \t]*#[ \t]*(?P<directive>\w+)(?:[^\n]*\\\n)*[^\n]*|(?P<mark>[{}();])",
    re.DOTALL | re.MULTILINE,
)
#: What stands before the brace of something that holds functions.
_OUTER = re.compile(rb"\b(?:namespace|extern|class|struct|union|enum)\b[^()=]*\Z")


@lru_cache(maxsize=128)
def one_branch(source: bytes) -> bytes:
    r"""The source with spaces for the directives and all but the first branches of conditions inside functions.

    >>> from tcemu.cuda.one_branch import one_branch
    >>> one_branch(b"int f() {\n#if A\n  g(\n#else\n  h(\n#endif\n  1); }").split(b"\n")
    [b'int f() {', b'     ', b'  g(', b'     ', b'    ', b'      ', b'  1); }']
    """
    out = bytearray(source)
    bodies: list[bool] = []  # of each open brace, whether it is part of a function
    hidden: list[bool] = []  # of each open condition
    parentheses = since = 0
    skipped: tuple[int, int] | None = None  # where an unseen branch begins, and how deep in conditions

    def blank(start: int, end: int) -> None:
        out[start:end] = re.sub(rb"[^\n]", b" ", source[start:end])

    for token in _TOKEN.finditer(source):
        word, mark = token["directive"], token["mark"]
        if word in (b"if", b"ifdef", b"ifndef"):
            hidden.append(skipped is None and (parentheses > 0 or (bool(bodies) and bodies[-1])))
            if hidden[-1]:
                blank(*token.span())
        elif word in (b"else", b"elif") and hidden and hidden[-1] and skipped is None:
            skipped = token.start(), len(hidden)
        elif word == b"endif" and hidden:
            if skipped and skipped[1] == len(hidden):
                blank(skipped[0], token.end())
                skipped = None
            elif hidden[-1]:
                blank(*token.span())
            hidden.pop()
        if not mark or skipped:
            continue
        if mark == b"{":
            bodies.append((bool(bodies) and bodies[-1]) or not _OUTER.search(source, since, token.start()))
        elif mark == b"}" and bodies:
            bodies.pop()
        parentheses = max(parentheses + (mark == b"(") - (mark == b")"), 0) if mark in b"()" else parentheses
        if mark in b"{}":
            parentheses = 0
        if mark in b"{};":
            since = token.end()
    return bytes(out)

"""The same program in two languages, in tabs: HTML alone, so that the tabs work in a static page too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly, counted
from tcemu.show.folded import KEEPS_KEYS
from tcemu.show.palette import variables

#: Pygments' classes of tokens, and the colour of each: of the rest, only names differ.
_COLOURS = {"k": "blue", "kt": "blue", "kd": "blue", "c": "soft", "sd": "soft", "s": "green", "mi": "orange"}
#: Pygments' name of each language that we show.
_LEXERS = {"Python": "python", "CUDA C++": "cuda", "PTX": "ptx"}
_HEIGHT = 480


@dataclass(frozen=True)
class Tabs:
    """Texts of programs by their languages, and what they are.

    >>> tabs = tcemu.show.tabs("f", {"Python": "x = 1", "CUDA C++": "int x = 1;"})
    >>> tabs.languages
    ('Python', 'CUDA C++')
    """

    title: str
    texts: Mapping[str, str]

    @property
    def languages(self) -> tuple[str, ...]:
        """The names of the tabs."""
        return tuple(self.texts)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": str(self)}

    @property
    def html(self) -> str:
        """A group of radio buttons, which arrow keys change, and the text of the chosen one.

        JupyterLab does not take arrow keys and letters there as commands for the cell.
        """
        name = "tc" + sha256(repr((self.title, dict(self.texts))).encode()).hexdigest()[:10]
        chosen, buttons, panels, rules = " checked", "", "", ""
        for number, (language, text) in enumerate(self.texts.items()):
            own = f"{name}-{number}"
            buttons += f'<input type="radio" name="{name}" id="{own}"{KEEPS_KEYS}{chosen}>'
            buttons += f'<label for="{own}">{escape(language)}</label>'
            label = f"{escape(self.title)} in {escape(language)}"
            panels += f'<pre class="p{number}" tabindex="0"{KEEPS_KEYS} aria-label="{label}">'
            panels += f"{_coloured(text, language)}</pre>"
            rules += f"#{own}:checked~.p{number}{{display:block}}"
            chosen = ""
        return (
            f'<div id="{name}" class="tcemu-tabs"><style>{variables(name)}{_style(name)}{rules}</style>'
            f'<div role="radiogroup" aria-label="{escape(self.title)}: language">{buttons}{panels}</div></div>'
        )

    def __str__(self) -> str:
        return "\n\n".join(f"{self.title} in {language}:\n\n{text.rstrip()}" for language, text in self.texts.items())

    def __repr__(self) -> str:
        lengths = (f"{language} ({counted(len(text.splitlines()), 'line')})" for language, text in self.texts.items())
        return f"<{self.title} in {' and '.join(lengths)}>"


@explained
def tabs(title: str, texts: Mapping[str, str]) -> Tabs:
    """Show programs in tabs: `texts` has the source by the name of its language, "Python", "CUDA C++" or "PTX".

    Raises OperandError for an empty `texts` and for another language.

    >>> tcemu.show.tabs("scale", {"Python": "x *= 2", "CUDA C++": "x *= 2;"})
    <scale in Python (1 line) and CUDA C++ (1 line)>
    """
    unknown = [language for language in texts if language not in _LEXERS]
    if unknown or not texts:
        wrong = f"; got {briefly(unknown[0])}" if unknown else ", and there must be at least one"
        raise OperandError(f"the languages of tabs are {', '.join(_LEXERS)}{wrong}")
    return Tabs(title, {language: text.strip("\n") + "\n" for language, text in texts.items()})


def _coloured(text: str, language: str) -> str:
    """The text with a span for each token that has a colour; plain where pygments, which comes with IPython, is not."""
    try:
        from pygments import lex
        from pygments.lexers import get_lexer_by_name
        from pygments.token import STANDARD_TYPES
    except ImportError:
        return escape(text)
    pieces = []
    try:
        lexer = get_lexer_by_name(_LEXERS[language], stripnl=False, ensurenl=False)
    except ValueError:  # an older pygments may not know the language
        return escape(text)
    for kind, piece in lex(text, lexer):
        short = STANDARD_TYPES.get(kind, "")
        tone = short if short in _COLOURS else short[:1] if short[:1] in ("c", "s") else ""
        pieces.append(f'<span class="{tone}">{escape(piece)}</span>' if tone else escape(piece))
    return "".join(pieces)


def _style(name: str) -> str:
    """The CSS: buttons that look like tabs, and one text at a time."""
    tones: dict[str, list[str]] = {}
    for short, colour in _COLOURS.items():
        tones.setdefault(colour, []).append(f"#{name} .{short}")
    colours = "".join(f"{','.join(places)}{{color:var(--tc-{colour})}}" for colour, places in tones.items())
    return (
        f"#{name} input{{position:absolute;opacity:0;width:1px;height:1px;margin:0}}"
        f"#{name} label{{display:inline-block;margin:0 4px 0 0;padding:4px 12px;border:1px solid var(--tc-line);"
        f"border-bottom:0;border-radius:4px 4px 0 0;cursor:pointer;color:var(--tc-ink);background:var(--tc-faint)}}"
        f"#{name} input:checked+label{{font-weight:700;background:var(--tc-paper);"
        f"box-shadow:inset 0 3px 0 var(--tc-blue)}}"
        f"#{name} input:focus-visible+label{{outline:3px solid var(--tc-blue);outline-offset:1px}}"
        f"#{name} pre{{display:none;margin:0;padding:8px 12px;max-height:{_HEIGHT}px;overflow:auto;"
        "white-space:pre;word-break:normal;"  # JupyterLab would break a line in the middle of a name
        f"border:1px solid var(--tc-line);color:var(--tc-ink);background:var(--tc-paper);line-height:1.35;"
        f"font-family:var(--jp-code-font-family,Menlo,Consolas,'DejaVu Sans Mono',monospace);font-size:13px}}"
        f"{colours}"
    )

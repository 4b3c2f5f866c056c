"""How an error looks in a notebook: the learner's own lines, then the message, and none of the package's frames.

IPython asks an exception for `_render_traceback_`; JupyterLab and nbconvert turn the colours into HTML. For every frame
there is `%xmode Verbose`.
"""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

_PACKAGE = Path(__file__).parent
#: Folders whose code is not the learner's: this package, Python and what is installed, for all or for one user.
_FOREIGN = (
    str(_PACKAGE),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *(sysconfig.get_path("purelib", name) for name in sysconfig.get_scheme_names() if name.endswith("_user")),
)
#: The packages that run a cell, wherever they are installed.
_RUNNERS = ("IPython", "ipykernel")
#: Frames shown at most, and lines of one statement.
_FRAMES, _LINES = 6, 8
_WIDTH = 100
#: The space between a sentence and the next, which begins with a capital letter or a qualifier.
_SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z.])")
#: What Python calls the code of comprehensions, as functions within the one in which they are written.
_COMPREHENSIONS = re.compile(r"(?:^|\.)(?:<locals>\.)?<(?:listcomp|setcomp|dictcomp|genexpr)>")
#: ANSI sequences of the terminal, which notebooks show in the colours of their theme.
_RED, _GREEN, _BOLD, _PLAIN = "\x1b[1;31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


class Line(NamedTuple):
    """A statement of the learner: its file, its first and last line, and the function that it is in."""

    file: str
    first: int
    last: int
    function: str


def shell() -> Any:
    """The IPython that runs this process, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def cell(file: str) -> str:
    """``Cell In[3]`` if `file` is what IPython calls that cell inside, else an empty text."""
    running = shell()
    if running is None:
        return ""
    try:
        named = running.compile.format_code_name(file)
    except AttributeError:  # a shell with a compiler of its own
        return ""
    return " ".join(named) if named else ""


def function(code: CodeType) -> str:
    """The function in which code is written, ``Class.method`` or ``outer.<locals>.inner``: comprehensions have no name.

    Since Python 3.12, most of them are not functions of their own, so the name must not depend on that.
    """
    return _COMPREHENSIONS.sub("", code.co_qualname) or "<module>"


def caller(frame: FrameType) -> FrameType | None:
    """The frame that called a frame's function: not the same function, which runs its own comprehension."""
    outer = frame.f_back
    while outer is not None and _within(frame, outer):
        frame, outer = outer, outer.f_back
    return outer


def _within(frame: FrameType, outer: FrameType) -> bool:
    """Whether a frame runs a comprehension of the function that the frame outside it runs."""
    code, around = frame.f_code, outer.f_code
    return code in around.co_consts and function(code) == function(around)


def place(file: str, line: int) -> str:
    """A line for a message: ``Cell In[3], line 2`` in a notebook, else ``kernel.py:2`` with the file's path.

    The path of a file of this package begins at the package: where it is installed says nothing about the line.
    """
    name = cell(file)
    if name:
        return f"{name}, line {line}"
    own = Path(file).relative_to(_PACKAGE.parent).as_posix() if file.startswith(str(_PACKAGE)) else file
    return f"{own}:{line}"


def render(error: BaseException) -> list[str]:
    """The text that IPython prints for `error`, one piece for each part of it."""
    running = shell()
    if running is not None and running.InteractiveTB.mode == "Verbose":
        every: list[str] = running.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        return every
    verbatim = getattr(error, "verbatim", False)
    lines = [] if verbatim else list(_reported(error)) or list(learners(error))
    shown = lines if len(lines) <= _FRAMES else [lines[0], *lines[1 - _FRAMES :]]
    message = str(error) if verbatim else _wrapped(str(error))
    pieces = [f"{_RED}{type(error).__name__}{_PLAIN}", *map(_excerpt, shown), "", message]
    pieces += [_wrapped(f"{type(cause).__name__}: {cause}", "Because of ") for cause in _causes(error)]
    pieces += [_wrapped(note) for note in getattr(error, "__notes__", ())]
    if running is not None and getattr(running, "colors", "").lower() == "nocolor":
        pieces = [re.sub("\x1b\\[[0-9;]*m", "", piece) for piece in pieces]
    return pieces


def described(error: BaseException) -> str:
    """An error in the learner's code in a sentence: its type, its message and the line."""
    lines = list(learners(error))
    where = f" (line {lines[-1].first} of {lines[-1].function})" if lines else ""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an error may have any message
        message = ""
    return f"{type(error).__name__}{': ' if message else ''}{message[:300]}{where}"


def _reported(error: BaseException) -> Iterator[Line]:
    """The lines of the kernel that a sanitizer's report is about: the error may have been raised later."""
    report = getattr(error, "report", None)
    if report is None:
        return
    yield from _before_launch(error)
    for at in (*reversed(report.callers), report.site):
        yield Line(at.file, at.line, at.line, at.function.rsplit(".", 1)[-1])
    if report.earlier is not None and report.earlier.site != report.site:
        at = report.earlier.site
        yield Line(at.file, at.line, at.line, f"{at.function.rsplit('.', 1)[-1]}: it conflicts with this")


def _before_launch(error: BaseException) -> Iterator[Line]:
    """The learner's statements down to the call of the package, which calls the kernel."""
    step, begun = error.__traceback__, False
    while step is not None:
        line = _line(step)
        if line is None and begun:
            return
        if line is not None:
            yield line
            begun = True
        step = step.tb_next


def learners(error: BaseException) -> Iterator[Line]:
    """The statements of the learner that were being executed, outermost first."""
    step = error.__traceback__
    while step is not None:
        following = step.tb_next
        line = _line(step)
        if line is not None and not (following and _within(following.tb_frame, step.tb_frame)):
            yield line
        step = following


def _line(step: TracebackType) -> Line | None:
    """The statement of one step of a traceback, if it is the learner's."""
    code = step.tb_frame.f_code
    runs = step.tb_frame.f_globals.get("__name__", "").partition(".")[0] in _RUNNERS
    if not cell(code.co_filename) and (runs or code.co_filename.startswith((*_FOREIGN, "<"))):
        return None
    # from the call's first line to its last: what is wrong may be in any of them
    first, last, *_ = next(islice(code.co_positions(), step.tb_lasti // 2, None), (None, None))
    return Line(code.co_filename, first or step.tb_lineno, last or step.tb_lineno, function(code).rsplit(".", 1)[-1])


def _excerpt(line: Line) -> str:
    """Where it is, and the source with an arrow at each line of the statement and one line above it."""
    inside = "" if line.function == "<module>" else f", in {line.function}"
    head = f"{_BOLD}{cell(line.file) or line.file}, line {line.first}"
    shown = []
    for number in range(max(1, line.first - 1), min(line.last, line.first + _LINES) + 1):
        source = linecache.getline(line.file, number).rstrip()
        arrow = f"{_GREEN}---->{_PLAIN}" if number >= line.first else "     "
        if source or number >= line.first:
            shown.append(f"{arrow} {number:>3} {source}")
    return "\n".join([f"{head}{_PLAIN}{inside}", *shown])


def _causes(error: BaseException) -> Iterator[BaseException]:
    while error.__cause__ is not None:
        error = error.__cause__
        yield error


def _wrapped(message: str, before: str = "") -> str:
    """The message, each sentence on a line of its own and broken at words: a notebook would break it anywhere."""
    sentences = [part for line in f"{before}{message}".splitlines() for part in _SENTENCE.split(line)]
    return "\n".join(
        textwrap.fill(
            sentence,
            _WIDTH,
            subsequent_indent=" " * (len(sentence) - len(sentence.lstrip())),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for sentence in sentences
    )

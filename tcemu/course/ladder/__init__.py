"""Your GEMM: ten kernels, each made from the one before, in Python or CUDA C++.

    from tcemu.course import ladder

    ladder.rung("wmma")              what is new, the task, the goal
    ladder.start("wmma")             writes the starting cell: your own last right kernel
    %%rung wmma                      the first line of that cell: it checks what follows, and keeps it if it is right
    ladder.header()                  the instructions that a kernel in CUDA C++ may call
    ladder.change("wmma")            the given answer as a change of the rung before it
    ladder.timeline("wmma")          what the tensor cores wait for
    ladder.board()                   your cycles, the tensor cores' peak, and what an H100 does
    ladder.on_gpu("wmma")            compiles your kernel for this machine's GPU and times it

D = A B^T on every rung: A (m, k) and B (n, k) of f16, D (m, n) of f32. A program is a text with `kernel` and LAUNCH, a
tile's rows and columns, the block's threads and its bytes of shared memory.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from tcemu import tracebacks
from tcemu.arguments import explained
from tcemu.course.checking import Hint
from tcemu.course.ladder import kept, programs
from tcemu.course.ladder.judge import Climbed, judged, timeline_of
from tcemu.course.ladder.picture import Board, board
from tcemu.course.ladder.table import GIVEN, LANGUAGES, NAMES, RUNGS, Rung, before, language_of, rung_named
from tcemu.course.ladder.timing import Timed, timed
from tcemu.errors import CourseError
from tcemu.show.prose import inline
from tcemu.show.tabs import Tabs, tabs
from tcemu.timing import Timeline

__all__ = [
    "NAMES", "RUNGS", "Board", "Climbed", "Page", "Rung", "Timed",
    "board", "change", "check", "given", "header", "hint", "on_gpu", "rung", "start", "timeline",
]  # fmt: skip

#: What a rung's cell begins with.
MAGIC = "%%rung"
#: m, n and k of a product that fills a GPU.
_SIZE = 8192


@dataclass(frozen=True)
class Page:
    """A rung as a page: what is new, the task, the goal.

    >>> from tcemu.course import ladder
    >>> print(str(ladder.rung("swizzle")).splitlines()[0])
    Rung 6 of 10, swizzle: Other banks for other rows
    """

    rung: Rung

    @property
    def _goal(self) -> str:
        sizes = " x ".join(map(str, self.rung.track))
        goals = " and ".join(f"{self.rung.goal[each]:,} cycles in {name}" for each, name in LANGUAGES.items())
        goal = f"Goal: every bit of D, no report of the sanitizer, and for {sizes} on two SMs at most {goals}"
        return f"{goal}, issuing {', '.join(self.rung.needed)}." if self.rung.needed else f"{goal}."

    @property
    def _head(self) -> str:
        return f"Rung {self.rung.number} of {len(RUNGS)}, {self.rung.name}: {self.rung.title}"

    def _begin(self) -> str:
        return f'ladder.start("{self.rung.name}")'

    def __str__(self) -> str:
        begin = f'{self._begin()} writes your starting cell; {self._begin()[:-1]}, "CUDA C++") does so in CUDA C++.'
        return "\n".join((self._head, self.rung.new, f"Task: {self.rung.task}", self._goal, begin))

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        page = (
            f"<p><strong>{escape(self._head)}</strong></p><p>{inline(self.rung.new)}</p>"
            f"<p><strong>Task.</strong> {inline(self.rung.task)}</p><p>{escape(self._goal)}</p>{self.rung.folded_hints}"
            f"<p>Run <code>{escape(self._begin())}</code> in a new cell: it writes your starting cell below, and "
            f'<code>{escape(self._begin()[:-1])}, "CUDA C++")</code> writes it in CUDA C++.</p>'
        )
        return {"text/html": f'<div class="tcemu-rung">{page}</div>', "text/plain": str(self)}


@explained
def rung(name: str | int) -> Page:
    """A rung, by its name or its number: what is new, the task and the goal. Raises CourseError.

    >>> from tcemu.course import ladder
    >>> ladder.rung(1).rung.name
    'naive'
    """
    return Page(rung_named(name))


@explained
def start(name: str | int, language: str = "") -> str:
    """Write the starting cell of a rung below the running one, in Jupyter; returns its text elsewhere.

    It begins with your last right answer to the rung, or to the rung below it, in the same language; if there is none,
    with the given kernel of the rung below. By default, the language is the one of your last right answer, or Python.

    >>> from tcemu.course import ladder
    >>> "%%rung" in ladder.start("wmma")
    True
    """
    wanted = rung_named(name)
    chosen = language_of(language) if language else _language_so_far(wanted)
    text = f"{MAGIC} {wanted.name}\n{_beginning(wanted, chosen)}"
    shell = tracebacks.shell()
    if shell is None:
        return text
    shell.set_next_input(text)
    source = _source(wanted, chosen)
    return Hint(f"The cell below is yours. Its first line, {MAGIC}, checks it. It starts from {source}.")


def _language_so_far(wanted: Rung) -> str:
    """The language of the learner's answers to this rung and to the one below."""
    lower = before(wanted)
    for each in (wanted, lower) if lower else (wanted,):
        for language in LANGUAGES:
            if kept.text(each, language):
                return language
    return "py"


def _beginning(wanted: Rung, language: str) -> str:
    lower = before(wanted)
    own = kept.text(wanted, language)
    if own or lower is None:
        return own or (GIVEN / f"start.{language}").read_text(encoding="utf-8")
    return kept.text(lower, language) or lower.source(language)


def _source(wanted: Rung, language: str) -> str:
    """Where the starting cell's text comes from."""
    lower = before(wanted)
    if kept.text(wanted, language):
        return f"your own {wanted.name}"
    if lower is None:
        return "a skeleton"
    return f"your own {lower.name}" if kept.text(lower, language) else f"the given {lower.name}"


@explained
def check(name: str | int, program: str | Path, seed: int | None = None) -> Climbed:
    """Check a program for a rung: a text, or a file. A right one is kept with your progress.

    `seed` draws A and B; by default, they are new each time. Raises CourseError for a rung or a file that is not there.

    >>> from tcemu.course import ladder
    >>> ladder.check("naive", "x = 1")
    naive in Python: not yet. The program has no function kernel(warp, a, b, d).
    Stuck? ladder.hint("naive"), or ladder.change("naive").
    """
    text, called = _read(program)
    return _kept(judged(rung_named(name), text, called, seed), text)


def _read(program: str | Path) -> tuple[str, str]:
    if isinstance(program, str) and "\n" in program:
        return program, "my_gemm"
    path = Path(program)
    if not path.is_file():
        if isinstance(program, str) and not path.suffix:
            return program, "my_gemm"
        raise CourseError(f"there is no file {path}; give the program as a text or as a file")
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"cannot read {path}: {error}") from error


def _kept(verdict: Climbed, text: str) -> Climbed:
    """The verdict, after a right answer was kept."""
    if not verdict:
        return verdict
    try:
        place = kept.note(verdict.rung, verdict.language, text, verdict.cycles)
    except CourseError as error:
        return replace(verdict, aside=f"It was not kept: {error}.")
    upper = next((each.name for each in RUNGS if each.number == verdict.rung.number + 1), "")
    onward = f'Next: ladder.rung("{upper}").' if upper else "You are at the top: ladder.board()."
    return replace(verdict, aside=f"Kept as {place}. {onward}" if place else onward)


@explained
def hint(name: str | int) -> str:
    """The hints of a rung.

    >>> from tcemu.course import ladder
    >>> len(ladder.hint("swizzle").splitlines())
    3
    """
    return Hint("\n".join(rung_named(name).hints))


@explained
def given(name: str | int) -> Tabs:
    """The given kernel of a rung, in tabs: Python and CUDA C++.

    >>> from tcemu.course import ladder
    >>> ladder.given("naive").languages
    ('Python', 'CUDA C++')
    """
    wanted = rung_named(name)
    return tabs(str(wanted), {label: wanted.source(language) for language, label in LANGUAGES.items()})


def header() -> Tabs:
    """The header that a kernel in CUDA C++ includes: PTX instructions as functions with PTX's names.

    >>> from tcemu.course import ladder
    >>> "void ldmatrix(u32 (&d)[4], u32 from)" in ladder.header().texts["CUDA C++"]
    True
    """
    return tabs("ladder.h: what your kernel may call", {"CUDA C++": (GIVEN / "ladder.h").read_text("utf-8")})


@explained
def change(name: str | int) -> Tabs:
    """What changes from the rung below to this one, in both languages: the given answer.

    >>> from tcemu.course import ladder
    >>> [line for line in ladder.change("swizzle").texts["Python"].splitlines() if "return 128" in line]
    ['-    return 128 * row + 16 * unit', '+    return 128 * row + 16 * (unit ^ row % 8)']
    """
    wanted = rung_named(name)
    lower = before(wanted)
    texts = {}
    for language, label in LANGUAGES.items():
        old = lower.source(language) if lower else (GIVEN / f"start.{language}").read_text(encoding="utf-8")
        lines = difflib.unified_diff(old.splitlines(), wanted.source(language).splitlines(), lineterm="", n=2)
        texts[label] = "\n".join([line for line in lines if not line.startswith(("---", "+++"))])
    return tabs(f"{wanted}: the change", texts)


@explained
def timeline(name: str | int, program: str | Path = "") -> Timeline:
    """The timeline of a rung's product: of a program, or else of your last right kernel, or of the given one.

    It says what the tensor cores wait for, and `.sites()` says at which lines; tcemu.gemm.explorers.timeline draws it.

    >>> from tcemu.course import ladder
    >>> list(ladder.timeline("wmma").waited)[0]
    'global memory'
    """
    wanted = rung_named(name)
    own = kept.text(wanted, "py") or kept.text(wanted, "cu") or wanted.source("py")
    return timeline_of(wanted, programs.read(*(_read(program) if program else (own, kept.file_of(wanted, "py")))))


@explained
def on_gpu(name: str | int, size: int = _SIZE) -> Timed:
    """Compile your kernel of a rung for this machine's GPU, check D, and time it; or say why that cannot be.

    It must be in CUDA C++; without one of yours, the given kernel is timed. m, n and k are `size`.

    >>> from tcemu.course import ladder
    >>> ladder.on_gpu("wmma", 1024).what  # what it says depends on the machine
    'the given wmma'
    """
    wanted = rung_named(name)
    own = kept.text(wanted, "cu")
    if size < 8 or size % 32:
        raise CourseError(f"the size must be a multiple of 32; got {size}")
    what = f"your {wanted.name}" if own else f"the given {wanted.name}"
    return timed(wanted, own or wanted.source("cu"), what, (size, size, size))


# ---------------------------------------------------------------------------------------------- Jupyter


def _cell(line: str, body: str) -> Climbed:
    """What %%rung does: check the cell, whose lines are those of reports and errors."""
    wanted = rung_named(line.strip())
    shell: Any = tracebacks.shell()
    name = shell.compile.cache(f"{MAGIC} {line}\n{body}", shell.execution_count)
    # the first line is the magic's: the program's lines are those of the cell
    return _kept(judged(wanted, f"\n{body}", name), body)


def _register() -> None:
    shell = tracebacks.shell()
    if shell is not None:
        shell.register_magic_function(_cell, "cell", MAGIC.removeprefix("%%"))


_register()

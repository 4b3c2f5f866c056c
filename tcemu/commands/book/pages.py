"""The pages of the book that are generated: the first page, the instructions, the rules and the Python reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from tcemu.commands.book.markdown import cell, of_report, table
from tcemu.commands.book.weight import plain
from tcemu.commands.isa_views import explanation, instructions
from tcemu.commands.report import Part
from tcemu.course.bank import exercises
from tcemu.course.manifests import Entry, Manifest
from tcemu.course.overviews import duration
from tcemu.errors import counted
from tcemu.instructions import FAMILIES
from tcemu.instructions.family import Family
from tcemu.launcher import launch
from tcemu.machine.events import Event
from tcemu.manual import named
from tcemu.sanitizer.rules import BYTES, EXAMPLES, RULES, Example, Rule, parts
from tcemu.show.hazards import hazards
from tcemu.show.picture import Picture

#: Modules whose public names make up the reference: the package itself, then its rooms in import order.
_MODULES = (
    "tcemu", *(f"tcemu.{room}" for room in (
        "formats", "layouts", "arithmetic", "instructions", "machine", "timing", "sanitizer", "wmma", "sparse",
        "microscaling", "show", "live", "recipes", "schedules", "gemm", "course",
    )),
)  # fmt: skip


_WELCOME = """\
The laboratory of this course is an executable tensor core: it gives, bit for bit, the results of the hardware. These
pages show the notebooks with their outputs; pictures with controls, and questions, answer right in the page. To run the
notebooks, change them and have your answers checked, install tcemu and type `tcemu lab`."""
_INSTRUCTIONS = """\
Every family of instructions that the emulator knows, from the table that it runs. `tcemu isa OPCODE` explains each of
them in the terminal."""
_SANITIZER = """\
What a kernel must not do, and what the PTX manual says about it. `tcemu.launch` reports the first broken rule; with
`sanitizer="collect"` it reports all of them. Each rule is shown with the smallest kernel that breaks it, and with what
the kernel does, in order; `g` is an array in global memory, and what the kernels share is at the end of the page."""
_SHARED = ("fill", "ready", "finish", "barrier")
#: A page that the sidebar leaves out: a hundred names beside each other are no help, and weigh 2 MB.
_LISTED_ABOVE = "---\norphan: true\n---\n"
#: The form that a family's page explains, if that is not its first.
_EXPLAINED = {"mma": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"}


def generated(wanted: Manifest, notebooks: set[str]) -> Iterator[tuple[str, str]]:
    """Every generated page: its path and its Markdown."""
    yield "index.md", _first(wanted, notebooks)
    yield "instructions/index.md", _families()
    for family in FAMILIES:
        yield f"instructions/{_file(family)}.md", _family(family)
    yield "rules.md", _rules()
    yield "reference/index.md", _reference()
    for module in _MODULES:
        yield f"reference/{_page(module)}", _module(module)


# ---------------------------------------------------------------------------------------------- the first page


def _first(wanted: Manifest, notebooks: set[str]) -> str:
    rows = [
        (f"[{entry.label}](notebooks/{entry.file})", duration(entry.minutes), _exercises(entry, notebooks))
        for entry in wanted.notebooks
    ]
    hours = round(sum(entry.minutes for entry in wanted.notebooks) / 60)
    more = sorted(name for name in notebooks if name.startswith("notebooks/"))
    more = [name for name in more if name.removeprefix("notebooks/") not in {each.file for each in wanted.notebooks}]
    return "\n".join([
        f"# {wanted.title}",
        "",
        _WELCOME,
        "",
        f"Reading takes about {counted(hours, 'hour')}; the exercises take longer.",
        "",
        table(("notebook", "reading", "exercises"), rows),
        "",
        _toctree("Notebooks", [f"notebooks/{entry.file}" for entry in wanted.notebooks] + more),
        _toctree("Exercises", sorted(name for name in notebooks if name.startswith("exercises/"))),
        _toctree("Look it up", ["instructions/index.md", "rules.md", "reference/index.md"]),
    ])  # fmt: skip


def _exercises(entry: Entry, notebooks: set[str]) -> str:
    known = exercises()
    minutes = sum(known[name].minutes for name in entry.exercises if name in known)
    name = f"exercises/{entry.file}"
    return f"[{counted(len(entry.exercises), 'exercise')}, {duration(minutes)}]({name})" if name in notebooks else ""


def _toctree(caption: str, names: list[str]) -> str:
    listed = "\n".join(name.rpartition(".")[0] for name in names)
    titled = f":caption: {caption}\n" if caption else ""
    return f":::{{toctree}}\n:hidden:\n{titled}\n{listed}\n:::\n" if names else ""


# ---------------------------------------------------------------------------------------------- the instructions


def _file(family: Family) -> str:
    return family.name.replace(".", "_").replace("::", "_")


def _families() -> str:
    rows = [
        (f"[`{family.name}`]({_file(family)}.md)", cell(family.about), f"{family.size:,}", family.section)
        for family in FAMILIES
    ]
    return "\n".join([
        "# Instructions",
        "",
        _INSTRUCTIONS,
        "",
        table(("family", "what it does", "forms", "PTX section"), rows),
        "",
    ])  # fmt: skip


def _family(family: Family) -> str:
    """One family: its forms and, of the tensor cores' families, one of them explained, with its picture."""
    forms = [instruction for _, instruction in family.variants]
    listed = instructions(forms, f"family {family.name}")
    head = f"{counted(family.size, 'form')}, {named(family.section)}."
    parts = [
        _LISTED_ABOVE,
        f"# {family.name}",
        "",
        head,
        "",
        *of_report(replace(listed, parts=_untitled(listed.parts)), level=2),
    ]
    if not family.plain and forms:
        report = explanation(_EXPLAINED.get(family.name, forms[0].opcode), None, None)
        parts += ["", f"## {report.heading}", "", *of_report(report, level=3)]
        parts += _picture(report.draw() if report.draw else None)
    return "\n".join(parts) + "\n"


def _untitled(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(replace(part, title="") for part in parts)


def _picture(picture: Picture | None) -> list[str]:
    return ["", "```{raw} html", plain(picture.html), "```", ""] if picture is not None else []


# ---------------------------------------------------------------------------------------------- the rules


def _rules() -> str:
    page = ["# The sanitizer's rules", "", _SANITIZER]
    page += [line for rule in RULES.values() for line in _rule(rule)]
    page += ["", "## What the kernels share", ""]
    page += [line for name in _SHARED for line in _code(getattr(parts, name))]
    return "\n".join(page) + "\n"


def _rule(rule: Rule) -> list[str]:
    """One rule, the smallest kernel that breaks it, and what happens in it."""
    hint = " This is a hint: what the kernel does is harmless, but not needed." if rule.severity == "hint" else ""
    title = rule.title if "." in rule.title.split()[0] else f"{rule.title[0].upper()}{rule.title[1:]}"
    says = f"**{title}.** {rule.rule} ({named(rule.section)}){hint}"
    head = ["", f"## {rule.id}", "", says, "", f"**Fix.** {rule.fix}", ""]
    example = EXAMPLES.get(rule.id)  # None: no kernel in Python can break it
    return head if example is None else [*head, *_code(example.kernel), *_picture(_happened(example))]


def _happened(example: Example) -> Picture:
    """What the kernel does, in order, with the report."""
    events: list[Event] = []
    result = launch(
        example.kernel, args=(np.zeros(BYTES, np.uint8),), sanitizer="collect", observers=[events.append],
        **example.launch,
    )  # fmt: skip
    return hazards(events, result.reports)


def _code(function: Callable[..., Any]) -> list[str]:
    """A function with the line numbers that reports and pictures name; without its decorator and types."""
    lines, first = inspect.getsourcelines(function)
    skipped = int(lines[0].startswith("@"))
    source = "".join(lines[skipped:]).replace(": Any", "").replace(" -> None", "").rstrip()
    return ["```{code-block} python", f":lineno-start: {first + skipped}", "", *source.splitlines(), "```", ""]


# ---------------------------------------------------------------------------------------------- the reference


def _reference() -> str:
    rows = [(f"[{module}]({_page(module)})", cell(_about(module))) for module in _MODULES]
    head = ["# Python reference", "", "The public names of each module, with examples that the tests run."]
    files = [_page(module) for module in _MODULES]
    return "\n".join([*head, "", table(("module", "what it is for"), rows), "", _toctree("", files)])


def _page(module: str) -> str:
    """The page of a module; the one of `tcemu` has its name, the others that of their room."""
    return f"{module.removeprefix('tcemu.')}.md"


def _about(module: str) -> str:
    return (import_module(module).__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")


def _module(module: str) -> str:
    names = (line for name in _public(module) for line in _documented(module, name))
    return "\n".join([f"# {module}", "", _about(module), "", "```{eval-rst}", *names, "```", ""])


def _public(module: str) -> list[str]:
    return [name for name in getattr(import_module(module), "__all__", ()) if not name.startswith("_")]


def _documented(module: str, name: str) -> list[str]:
    thing = getattr(import_module(module), name, None)
    kind = "class" if isinstance(thing, type) else "function" if callable(thing) else ""
    if not kind:
        return []
    options = ["   :members:", "   :no-index:"] if kind == "class" else ["   :no-index:"]
    return [f".. auto{kind}:: {module}.{name}", *options, ""]

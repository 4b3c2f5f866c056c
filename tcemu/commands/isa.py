"""``tcemu isa``: list instructions, explain one, show which lane holds which element, and compare two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from tcemu.commands.report import FORMATS, form_of, write
from tcemu.errors import LayoutError
from tcemu.instructions import FAMILIES, TARGETS

if TYPE_CHECKING:
    from tcemu.commands.report import Report

_EPILOG = """\
\b
Examples:
  tcemu isa                                        the families
  tcemu isa --target sm_90a --type e4m3            what a target has
  tcemu isa INSTRUCTION                            explain an instruction
  tcemu isa INSTRUCTION -o map.svg                 draw its fragments
  tcemu isa INSTRUCTION --operand a --at 3,5       which lane holds A[3][5]
  tcemu isa INSTRUCTION --operand a --lane 5       what lane 5 holds of A
  tcemu isa INSTRUCTION --operand a --table        the whole of A
  tcemu isa diff INSTRUCTION INSTRUCTION           compare two instructions
"""


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Opcodes up to the next dot, so that there are few at a time; only families that may be meant make theirs."""
    opcodes = ["diff"]
    for family in FAMILIES:
        stems = family.stems or (family.mnemonic,)
        if any(incomplete.startswith(f"{stem}.") for stem in stems):
            opcodes += [instruction.opcode for _, instruction in family.variants]
        else:
            opcodes += [f"{stem}." if any(family.spelling.slots) else stem for stem in stems]
    found: dict[str, None] = {}
    for opcode in opcodes:
        if opcode.startswith(incomplete):
            cut = opcode.find(".", len(incomplete))
            found[opcode if cut < 0 else opcode[: cut + 1]] = None
    return [CompletionItem(word) for word in found]


def _complete_target(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in TARGETS if name.startswith(incomplete)]


def _complete_family(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(family.name, help=family.about) for family in FAMILIES if family.name.startswith(incomplete)]


@click.command(epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[INSTRUCTION | diff INSTRUCTION INSTRUCTION]", shell_complete=_complete)
@click.option("--target", help="The GPU, such as sm_90a.", metavar="SM", shell_complete=_complete_target)
@click.option("--ptx", help="The PTX version, such as 8.7.", metavar="VERSION")
@click.option("--family", help="List this family only.", metavar="NAME", shell_complete=_complete_family)
@click.option("--type", "type_", help="List instructions with an operand of this type.", metavar="TYPE")
@click.option("--shape", help="List this shape only.", metavar="MNK")
@click.option("--operand", help="Ask about one operand: a, b, c, d, e, ...", metavar="ROLE")
@click.option("--at", help="Which lane holds the element at row,column?", metavar="ROW,COLUMN")
@click.option("--lane", type=int, help="What does this lane hold?", metavar="LANE")
@click.option("--register", type=int, help="Only this register of the lane, or of all lanes.", metavar="REGISTER")
@click.option("--table", is_flag=True, help="Show the whole operand, element by element.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Text (the default), CSV, JSON or an SVG picture.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file; its suffix sets the format.")
def isa(
    words: tuple[str, ...],
    target: str | None,
    ptx: str | None,
    family: str | None,
    type_: str | None,
    shape: str | None,
    operand: str | None,
    at: str | None,
    lane: int | None,
    register: int | None,
    table: bool,
    form: str | None,
    output: Path | None,
) -> None:
    """Look up an instruction, or list what a target has.

    Without an instruction: the families, or the instructions that match --target, --ptx, --family, --type and --shape.
    With an instruction: its operands, layouts, requirements and arithmetic, and how each is known. With --operand:
    which lane holds which element.
    """
    from tcemu.commands import isa_fragment, isa_views

    wanted = form_of(form, output)
    filters = {"--family": family, "--type": type_, "--shape": shape}
    question = {"--at": at, "--lane": lane, "--register": register, "--table": table or None}
    report: Report
    if not words:
        _refuse({"--operand": operand, **question}, "an instruction to ask about")
        report = isa_views.catalogue(target, ptx, family, type_, shape)
    elif words[0] == "diff":
        _refuse({**filters, **question, "--ptx": ptx}, "a single instruction")
        if len(words) != 3:
            raise click.UsageError("diff takes two instructions: tcemu isa diff INSTRUCTION INSTRUCTION")
        report = isa_views.differences(words[1], words[2], target, operand)
    elif len(words) > 1:
        raise click.UsageError(
            f"one instruction at a time; {words[1]!r} is one too many. tcemu isa diff compares two."
        )
    else:
        for name, value in filters.items():
            if value is not None:
                raise click.UsageError(f"{name} selects what is listed; leave out the instruction to get a list")
        if operand is None:
            _refuse(question, "--operand, the matrix that you ask about")
            report = isa_views.explanation(words[0], target, ptx)
        else:
            if sum((at is not None, lane is not None or register is not None, table)) > 1:
                raise click.UsageError("one question at a time: --at, or --lane and --register, or --table")
            report = isa_fragment.fragment(words[0], target, ptx, operand, _position(at), lane, register)
    write(report, wanted, output)
    if output is not None:
        click.echo(f"Wrote {output} ({wanted}).", err=True)


def _refuse(given: Mapping[str, object], needed: str) -> None:
    """Raise UsageError for options that have no meaning here; they are not ignored."""
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"{name} needs {needed}")


def _position(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise LayoutError(f"--at takes row,column as whole numbers, such as 3,5; got {text!r}") from None



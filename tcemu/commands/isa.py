"""``tcemu isa``: list instructions, explain one, show which lane holds which element, and compare two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tcemu.commands.report import FORMATS, form_of, write
from tcemu.errors import LayoutError

if TYPE_CHECKING:
    from tcemu.commands.isa_words import Asked, Filters
    from tcemu.commands.report import Report

#: The questions about an operand, by option; None for an option that is not given.
Question = dict[str, Any]

_EPILOG = """\
\b
Examples:
  tcemu isa                              the families
  tcemu isa ldmatrix                     one family
  tcemu isa m16n8k16 f16                 by shape and type
  tcemu isa --target sm_90a --type e4m3  by GPU and type
  tcemu isa OPCODE                       explain one
  tcemu isa cvt                          ordinary
  tcemu isa OPCODE -o map.svg            its picture
  tcemu isa OPCODE "A[3][5]"             where it is
  tcemu isa OPCODE --operand a --lane 5  lane 5's part
  tcemu isa OPCODE --operand a --table   the whole of A
  tcemu isa diff OPCODE OPCODE           compare two
"""


def _complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Opcodes up to the next dot, so that there are few at a time; only families that match make theirs."""
    from tcemu.instructions import FAMILIES

    opcodes = ["diff"]
    for family in FAMILIES:
        stems = family.stems or (family.mnemonic,)
        if any(incomplete.startswith(f"{stem}.") for stem in stems):
            opcodes += [instruction.opcode for _, instruction in family.variants]
        else:
            opcodes += [f"{stem}." if any(family.spelling.slots) else stem for stem in stems]
    words: dict[str, None] = {}
    for opcode in opcodes:
        if opcode.startswith(incomplete):
            cut = opcode.find(".", len(incomplete))
            words[opcode if cut < 0 else opcode[: cut + 1]] = None
    return [CompletionItem(word) for word in words]


def _complete_target(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from tcemu.instructions import TARGETS

    return [CompletionItem(name) for name in TARGETS if name.startswith(incomplete)]


def _complete_family(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from tcemu.instructions import FAMILIES

    return [CompletionItem(family.name, help=family.about) for family in FAMILIES if family.name.startswith(incomplete)]


@click.command(epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[WORD]...", shell_complete=_complete)
@click.option("--target", help="The GPU, such as sm_90a.", metavar="SM", shell_complete=_complete_target)
@click.option("--ptx", help="The PTX version, such as 8.7.", metavar="VERSION")
@click.option("--family", help="List this family only.", metavar="NAME", shell_complete=_complete_family)
@click.option("--type", "type_", help="List instructions with an operand of this type.", metavar="TYPE")
@click.option("--shape", help="List this shape only.", metavar="MNK")
@click.option("--operand", help="Ask about one operand, such as a.", metavar="ROLE")
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

    A WORD is an opcode; or a family, mnemonic, shape, type or target of the instructions to list; or an element in
    brackets. For an opcode you see its operands, layouts, requirements and arithmetic, and how we know each. With an
    element or --operand, you see which lane holds what. Without any words, you see the families.
    """
    from tcemu.commands import isa_words

    wanted = form_of(form, output)
    filters = isa_words.Filters(target, ptx, family, () if type_ is None else (type_,), shape)
    question = {"--operand": operand, "--at": at, "--lane": lane, "--register": register, "--table": table or None}
    compared = words[:1] == ("diff",)
    report = _compared(words[1:], filters, question) if compared else _looked_up(words, filters, question)
    write(report, wanted, output)
    if output is not None:
        click.echo(f"Wrote {output} ({wanted}).", err=True)


def _compared(words: tuple[str, ...], filters: Filters, question: Question) -> Report:
    from tcemu.commands import isa_views

    operand = question["--operand"]
    _refuse({**filters.selecting, **question, "--operand": None, "--ptx": filters.ptx}, "a single instruction")
    if len(words) != 2:
        raise click.UsageError("diff takes two instructions: tcemu isa diff INSTRUCTION INSTRUCTION")
    return isa_views.differences(*words, filters.target, operand and operand.lower())


def _looked_up(words: tuple[str, ...], filters: Filters, options: Question) -> Report:
    """The families, a list, one instruction, or where an operand of them is."""
    from tcemu.commands import isa_fragment, isa_ordinary, isa_views, isa_words

    ordinary = isa_ordinary.ordinary(words[0]) if len(words) == 1 else None
    if ordinary is not None:
        unused = {**filters.selecting, **options, "--target": filters.target, "--ptx": filters.ptx}
        _refuse(unused, "an instruction of the machine; the recordings of ordinary ones are of sm_90")
        return ordinary
    asked = isa_words.read(" ".join(words).split(), filters)
    chosen, selection = asked.filters.target, str(asked.filters)
    if asked.opcodes:
        _refuse_selection(asked, filters)
    elif not selection:
        _refuse({**options, "--operand": options["--operand"] or asked.element}, "an instruction to ask about")
        return isa_views.families()
    question = _question(asked, options)
    if asked.opcodes and question is None:
        return isa_views.explanation(asked.opcodes[0], chosen, filters.ptx)
    if asked.opcodes and question is not None:
        return isa_fragment.fragment(asked.opcodes[0], chosen, filters.ptx, *question)
    if question is not None:
        return isa_fragment.several(asked.filters.holding(question[0]), selection, chosen, *question)
    return isa_views.instructions(asked.filters.find(), selection)


def _question(asked: Asked, options: Question) -> tuple[str, tuple[int, ...] | None, int | None, int | None] | None:
    """The operand, its element, and the lane and register in question; None for no question."""
    if asked.element is not None:
        for name, value in options.items():
            if value is not None:
                raise click.UsageError(f"the element in brackets takes the place of {name}; leave one out")
        return *asked.element, None, None
    operand, at, lane, register, table = options.values()
    if operand is None:
        _refuse(options, "--operand, the matrix that you ask about")
        return None
    if sum((at is not None, lane is not None or register is not None, table is not None)) > 1:
        raise click.UsageError("one question at a time: --at, or --lane and --register, or --table")
    return operand.lower(), _position(at), lane, register


def _refuse_selection(asked: Asked, filters: Filters) -> None:
    """Raise UsageError if one instruction is spelt out and filters select others, or if several are spelt out."""
    if len(asked.opcodes) > 1:
        raise click.UsageError(
            f"one instruction at a time; {asked.opcodes[1]!r} is one too many. tcemu isa diff compares two."
        )
    options = [name for name, value in filters.selecting.items() if value is not None]
    for name in (*options, *map(repr, asked.selecting)):
        raise click.UsageError(f"{name} selects what is listed; leave out the instruction to get a list")


def _refuse(options: Mapping[str, object], needed: str) -> None:
    """Raise UsageError for options that mean nothing here, instead of ignoring them."""
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"{name} needs {needed}")


def _position(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise LayoutError(f"--at takes row,column as whole numbers, such as 3,5; got {text!r}") from None

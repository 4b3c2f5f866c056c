"""``tcemu ptx``: what executes what of a file's kernels, and what nothing executes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcemu.commands.device_code import compiling, module_of
from tcemu.commands.report import Part, Report, form_of, write
from tcemu.errors import TcemuError, counted

if TYPE_CHECKING:
    from tcemu.ptx import Kernel, Module
    from tcemu.simt.survey import Executed, Who

#: Who executes instructions, in words.
_WHO: dict[Who, str] = {
    "machine": "machine", "memory": "memory", "ordinary": "ordinary", "control": "control", "unsupported": "nobody",
}  # fmt: skip
_COLUMNS = ("kernel", "function", "opcode", "executed by", "source", "line", "text line", "why not")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@compiling
@click.option("--kernel", "wanted", metavar="NAME", help="Only this kernel.")
@click.option("--format", "form", type=click.Choice(["text", "csv", "json"]), help="Default: the suffix of --output.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to a file.")
def ptx(file: Path, wanted: str | None, form: str | None, output: Path | None, **how: Any) -> None:
    """Count the instructions of each kernel in FILE, a .ptx or .cu file, by who executes them.

    The machine executes what a warp does together: matrix products, copies, barriers. Memory are loads and stores,
    ordinary what each thread computes by itself, control branches and calls.

    An instruction that nobody executes is named with its line in the source and in the PTX text; a kernel that
    contains one cannot be launched, but the others of the file can. The exit code is 1 if there is such a kernel.
    """
    from tcemu.simt.survey import survey

    module = module_of(file, **how)
    kernels = [module[name] for name in ([wanted] if wanted else module.kernels)]
    if not kernels:
        raise TcemuError(_without(file, module))
    surveys = {_name(each): survey(each.module.parsed, each.function, module.target) for each in kernels}
    write(_report(file, module, surveys), form_of(form, output), output)
    click.get_current_context().exit(int(any(each.who == "unsupported" for held in surveys.values() for each in held)))


def _name(kernel: Kernel) -> str:
    """The kernel with its parameters, if their types are known."""
    return str(kernel) if any(each.type for each in kernel.parameters) else kernel.name


def _without(file: Path, module: Module) -> str:
    templates = getattr(module, "templates", ())
    if templates:
        return f"{file} has kernel templates: --kernel '{templates[0]}<...>' says with which arguments"
    functions = len(module.parsed.functions)
    others = f", only {counted(functions, 'function')}" if functions else ""
    return f"{file} has no kernels{others}"


def _report(file: Path, module: Module, surveys: dict[str, tuple[Executed, ...]]) -> Report:
    rows = tuple(_row(kernel, each) for kernel, held in surveys.items() for each in held)
    heading = f"{file.name}: {counted(len(surveys), 'kernel')}, PTX {module.parsed.version} for {module.target}"
    data = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    parts = [part for kernel, held in surveys.items() for part in _parts(kernel, held, module)]
    return Report(heading, tuple(parts), _COLUMNS, rows, data)


def _row(kernel: str, each: Executed) -> tuple[object, ...]:
    source, line = (each.site.file, each.site.line) if each.instruction.line else ("", "")
    where = (source, line, each.instruction.text_line)
    return kernel, each.function.demangled, each.instruction.opcode, each.who, *where, each.why


def _parts(kernel: str, held: Sequence[Executed], module: Module) -> list[Part]:
    counts = Counter(each.who for each in held)
    rows = []
    for who, label in _WHO.items():
        if counts[who]:
            opcodes = Counter(each.instruction.opcode for each in held if each.who == who)
            rows.append((label, str(counts[who]), _most(opcodes)))
    others = len({each.function.name for each in held}) - 1
    called = f", with {counted(others, 'function')} that it calls" if others else ""
    parts = [Part(f"{kernel}: {counted(len(held), 'instruction')}{called}", (), ("", "", ""), tuple(rows))]
    missing: dict[tuple[str, str], list[Executed]] = {}
    for each in held:
        if each.who == "unsupported":
            missing.setdefault((each.instruction.opcode, each.why), []).append(each)
    if missing:
        lines = tuple(line for (opcode, why), where in missing.items() for line in _lacking(opcode, why, where, module))
        parts.append(Part("Not executed", (), (), (), lines))
    return parts


#: The most opcodes, and the most places of one, that are listed.
_OPCODES, _PLACES = 6, 4


def _most(opcodes: Counter[str]) -> str:
    listed = [f"{opcode} {count:,}" for opcode, count in opcodes.most_common(_OPCODES)]
    return ", ".join([*listed, *([f"{len(opcodes) - _OPCODES:,} more"] if len(opcodes) > _OPCODES else [])])


def _lacking(opcode: str, why: str, where: Sequence[Executed], module: Module) -> list[str]:
    places = [_place(each, module) for each in where[:_PLACES]]
    more = [f"    and {len(where) - _PLACES:,} more"] if len(where) > _PLACES else []
    return [f"{opcode}: {why}", *(f"    {each}" for each in dict.fromkeys(places)), *more]


def _place(each: Executed, module: Module) -> str:
    text = f"line {each.instruction.text_line} of {module.parsed.name}"
    called = f", called at {each.site.inlined[-1]}" if each.site.inlined else ""
    return f"{each.site}{called} ({text})" if each.instruction.line else text

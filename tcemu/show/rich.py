"""What a notebook shows of the package's values: the map of an instruction, the banks of an access, the reports.

`PICTURED` names the types, so that no other package has to import this one: tcemu tells IPython about them when it is
imported in a notebook, and this module is imported when the first of them is shown. Elsewhere they are text.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from tcemu.errors import ArithmeticUnknown, counted
from tcemu.instructions.describe import describe
from tcemu.show.banks import banks
from tcemu.show.bits import descriptor
from tcemu.show.collision import collision
from tcemu.show.folded import folded
from tcemu.show.fragment_map import cells, fragment_map
from tcemu.show.mma_map import mma_map
from tcemu.show.tables import Table

#: A map with more cells is drawn only on request.
_MOST = 1200


def html(value: Any) -> str | None:
    """The HTML of a value of one of these types; None if there is nothing to draw: IPython then shows the text."""
    for kind in type(value).__mro__:
        known = PICTURED.get((kind.__module__, kind.__qualname__))
        if known is not None:
            return known(value)
    return None


def _hidden(summary: str, content: str) -> str:
    return folded(summary, content) if content else ""


def _text(value: object) -> str:
    return f'<pre style="white-space:pre-wrap;word-break:normal">{escape(str(value))}</pre>'


def _instruction(instruction: Any) -> str:
    """The operands as a table, and the map, folded."""
    head = f"<p><code>{escape(instruction.opcode)}</code><br>{escape(str(instruction.gate))}</p>"
    try:
        rows = tuple((each.name, each.what, each.array) for each in describe(instruction))
    except ArithmeticUnknown as error:
        return head + _text(error)
    operands = Table("Operands", ("operand", "what", "for tcemu.run"), rows).html
    return head + operands + _hidden("Which lane holds what", _map(instruction))


def _map(instruction: Any) -> str:
    fragments = [each for each in instruction.fragments.values() if len(each.shape) <= 3]
    if not fragments or sum(len(cells(each)) for each in fragments) > _MOST:
        return ""
    whole = {"a", "d"} <= set(instruction.fragments)
    maps = [mma_map(instruction)] if whole else [fragment_map(each) for each in fragments]
    return "".join(each.quiet().portable_html for each in maps)


def _layout(layout: Any) -> str:
    """The layout's line, and what its digits mean."""
    sides = [*zip(("batch", "row", "column")[-len(layout.left) :], layout.left, strict=True)]
    sides += zip(("lane", "slot"), layout.right, strict=True)
    rows = [
        (digit, str(size), ", ".join(name for name, digits in sides if digit in digits))
        for digit, size in layout.sizes.items()
    ]
    return Table(layout.pattern, ("digit", "values", "part of"), tuple(rows)).html


def _wavefronts(wavefronts: Any) -> str | None:
    if wavefronts.addresses.ndim != 1:
        return None
    return banks(wavefronts).portable_html + _hidden("Part by part, and what would help", _text(wavefronts))


def _launch(launch: Any) -> str:
    """The shape of the launch, what was executed, and every report."""
    blocks = counted(launch.blocks, "block")
    rows = [("target", launch.target), ("blocks that ended", blocks), ("threads of a block", str(launch.block))]
    rows += [("policy", launch.policy), ("instructions", f"{sum(launch.counts.values()):,}")]
    rows += [("reports", str(len(launch.reports)) if launch.reports else "none")]
    counts = tuple((opcode, f"{number:,}") for opcode, number in launch.counts.most_common())
    parts = [Table(f"Launch of {launch.kernel}", ("what", "value"), tuple(rows)).html]
    parts += [_text(each) for each in (*launch.parted, *([launch.error] if launch.error else []))]
    parts += [_report(each) for each in launch.reports]
    parts.append(_hidden("Instructions", Table("Instructions", ("opcode", "times"), counts).html if counts else ""))
    return "".join(parts)


def _report(report: Any) -> str:
    """A report of the sanitizer: the rule as a heading, the two accesses as a picture, the rest as it is printed."""
    head, _, rest = str(report).partition("\n")
    drawn = collision(report).portable_html if report.earlier else ""
    return f'<p style="margin-bottom:0"><strong>{escape(head)}</strong></p>{drawn}{_text(rest)}'


def _comparison(comparison: Any) -> str:
    """Equal or not in bold, and the first bit that differs."""
    head, _, rest = str(comparison).partition("\n")
    about = f" <code>{escape(comparison.opcode)}</code>, {escape(comparison.gpu)}" if not rest else ""
    return f"<p><strong>{escape(head)}</strong>{about}</p>{_text(rest) if rest else ''}"


#: What draws a value, by the module and name of its type.
PICTURED: dict[tuple[str, str], Callable[[Any], str | None]] = {
    ("tcemu.instructions.instruction", "Instruction"): _instruction,
    ("tcemu.layouts.descriptor", "Descriptor"): lambda encoded: descriptor(encoded).portable_html,
    ("tcemu.layouts.fragment", "Fragment"): lambda fragment: (
        fragment_map(fragment).quiet().portable_html if len(cells(fragment)) <= _MOST else None
    ),
    ("tcemu.layouts.layout", "Layout"): _layout,
    ("tcemu.live.runner.compare", "Comparison"): _comparison,
    ("tcemu.machine.launch", "Launch"): _launch,
    ("tcemu.sanitizer.report", "Report"): _report,
    ("tcemu.timing.wavefronts", "Wavefronts"): _wavefronts,
}

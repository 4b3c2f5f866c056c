"""Draw the pictures of the README with the package itself, and lay out docs/card.md for a printer.

    .venv/bin/python tools/front_pictures.py

writes docs/fragments.svg, which moves through the lanes of a warp, docs/race.svg, the order of the README's kernel, and
docs/card.html, which prints on one page, A4 or Letter.
docs/course.png is a screenshot of notebook 02 in JupyterLab, 1280 by 860 pixels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from markdown_it import MarkdownIt

import tcemu
from tcemu import show
from tcemu.machine.events import Event
from tcemu.machine.launch import Kernel
from tcemu.show.picture import Picture, picture

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#: The lanes that light up in turn, and for how many seconds each.
LANES, SECONDS = (0, 1, 2, 3, 5, 10, 19, 28), 1.2
#: What makes the card one page: a printer's landscape, two columns, small type.
PRINTED = """
@page { size: landscape; margin: 8mm }
body { margin: 0; font: 9.5pt/1.35 system-ui, sans-serif; columns: 2; column-gap: 6mm; color: #000; background: #fff }
h1 { font-size: 15pt; margin: 0 }
h2 { font-size: 11.5pt; margin: 8pt 0 2pt; break-after: avoid }
p, ul { margin: 3pt 0 }
ul { padding-left: 1.2em }
code { font: 8.2pt/1.3 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere }
table { border-collapse: collapse; width: calc(100% - 1px); break-inside: avoid }
th, td { border: 0.5pt solid #999; padding: 1pt 3pt; text-align: left; vertical-align: top }
th:empty { padding: 0; border: 0 }
.layout { white-space: nowrap }
@media print { body > p:last-child { display: none } }
"""


def moving(frames: Sequence[Picture], title: str, description: str) -> str:
    """One SVG that shows the frames in turn; the first one alone for readers who prefer no motion."""
    whole, share = SECONDS * len(frames), 100 / len(frames)
    name = re.sub(r"\W+", "-", title.lower())
    style = (
        f"@keyframes {name}{{0%,{share:.4g}%{{visibility:visible}}{share + 0.01:.4g}%,100%{{visibility:hidden}}}}"
        f".{name}{{visibility:hidden;animation:{name} {whole:g}s step-end infinite}}"
        f"@media (prefers-reduced-motion:reduce){{.{name}{{animation:none}}.{name}-0{{visibility:visible}}}}"
    )
    body = [f"<style>{style}</style>"]
    for number, frame in enumerate(frames):
        drawing = frame.svg.partition("</style>")[2].removesuffix("</svg>")
        start = f"animation-delay:{number * SECONDS - whole:g}s"
        body.append(f'<g class="{name} {name}-{number}" style="{start}">{drawing}</g>')
    width, height = (float(found) for found in re.findall(r'(?:width|height)="([0-9.]+)"', frames[0].svg)[:2])
    return picture(title, description, width, height, body).svg


def readmes_kernel() -> Kernel:
    """The README's kernel, whose lines have the numbers that the README prints."""
    session = (ROOT / "README.md").read_text(encoding="utf-8").split(">>> def reverse", 1)[1].splitlines()
    source = "def reverse" + "\n".join(takewhile(bool, (line.removeprefix("... ") for line in session[:3])))
    namespace: dict[str, Any] = {}
    exec(compile(source, "README.md", "exec"), namespace)  # noqa: S102 - our own text
    kernel: Kernel = namespace["reverse"]
    return kernel


def card() -> str:
    """docs/card.md as a page that a browser prints."""
    body = MarkdownIt().enable("table").render((DOCS / "card.md").read_text(encoding="utf-8"))
    body = re.sub("<code>([^<]*-&gt;[^<]*)  ([^<]*)</code>", r'<code class="layout">\1<br>\2</code>', body)
    body = re.sub(r"(?<=\w)(\.|::)(?=\w)", r"\1<wbr>", body)  # opcodes may break after a qualifier
    head = f'<meta charset="utf-8"><title>Tensor cores on one page</title><style>{PRINTED}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>\n{body}</body></html>\n'


def write(folder: Path) -> None:
    """Write the pictures and the card into a folder."""
    (folder / "card.html").write_text(card(), encoding="utf-8")
    maps = [show.mma_map(tcemu.parse(MMA), lane=lane) for lane in LANES]
    words = f"Which lane holds which elements of {MMA}: lanes {', '.join(map(str, LANES))} light up in turn."
    (folder / "fragments.svg").write_text(moving(maps, "Fragments of one mma", words), encoding="utf-8")
    events: list[Event] = []
    out = np.zeros(128, np.uint32)
    result = tcemu.launch(
        readmes_kernel(), block=128, args=(out,), shared=512, sanitizer="collect", observers=[events.append]
    )
    show.hazards(events, result.reports).save(folder / "race.svg")


if __name__ == "__main__":
    write(DOCS)

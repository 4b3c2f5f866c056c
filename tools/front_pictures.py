"""Draw the pictures of the README with the package itself.

    .venv/bin/python tools/front_pictures.py

writes docs/fragments.svg, which moves through the lanes of a warp, and docs/race.svg, the order of the README's kernel.
docs/course.png is a screenshot of notebook 02 in JupyterLab, 1280 by 860 pixels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

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


def write(folder: Path) -> None:
    """Write the pictures into a folder."""
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

"""The PTX of the course's cells of CUDA C++, which a page cannot compile."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tcemu.course.source import files, source
from tcemu.cuda import available, stored
from tcemu.errors import TcemuError
from tcemu.gemm import twins


def compiled_cells(notebooks: Iterable[Path] | None = None) -> dict[str, Any]:
    """What `tcemu.cuda.stored` finds: every cell of the course that compiles as it is; none without NVRTC."""
    if not available():
        return {}
    compiled: dict[str, Any] = {}
    for notebook in _course() if notebooks is None else notebooks:
        for line, body in _cells(notebook):
            compiled |= _compiled(line, body)
    return compiled


def _course() -> Iterable[Path]:
    place = source()
    return (place / name for name in files(place) if name.endswith(".ipynb"))


def _cells(notebook: Path) -> list[tuple[str, str]]:
    """The lines and the bodies of %%cuda; the course's lines name the folder of the twins' headers."""
    held = json.loads(notebook.read_text(encoding="utf-8"))
    texts = ("".join(cell["source"]) for cell in held["cells"] if cell["cell_type"] == "code")
    split = (text.partition("\n") for text in texts if text.startswith("%%cuda"))
    return [(line.removeprefix("%%cuda").format(twins=twins), body) for line, _, body in split]


def _compiled(line: str, body: str) -> dict[str, Any]:
    from tcemu.cuda import options
    from tcemu.cuda.magic import parser
    from tcemu.cuda.module import compiled
    from tcemu.instructions import target_named

    asked, more = parser().parse_known_args(shlex.split(line))
    define = dict(each.partition("=")[::2] if "=" in each else (each, None) for each in asked.define)
    text = f"\n{body}"
    try:
        module = compiled(text, stored.NAME, None, asked.arch, define, asked.include, more)
    except TcemuError:  # an exercise to be completed
        return {}
    named, words = options.chosen(more)
    target = str(target_named(asked.arch or named or "sm_90a"))
    kept = {"ptx": module.text, "log": "", "left_out": list(module.left_out)}
    return {stored.key(text, target, (*options.defined(define), *words)): kept}

"""PTX of the course's own cells, stored beside the package where no compiler runs: in a browser.

`tcemu lite` makes the file. A cell that a learner has changed is not in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

#: What the site's package has, and no other.
FILE = Path(__file__).parent / "stored.json"
#: Stands for the source's name in the PTX of a cell.
NAME = "tcemu-stored-cell.cu"


def key(text: str, target: str, words: Iterable[str]) -> str:
    """What a source, a target and options are found by.

    >>> from tcemu.cuda.stored import key
    >>> key("__global__ void f() {}", "sm_90a", ()) == key("__global__ void f() {} ", "sm_90a", ())
    True
    """
    return hashlib.sha256("\0".join([text.rstrip(), target, *words]).encode()).hexdigest()


def lookup(text: str, target: str, words: Iterable[str]) -> dict[str, Any] | None:
    """What is stored of a source: its `ptx`, the compiler's `log` and the names that are `left_out`."""
    return _all().get(key(text, target, words))


@cache
def _all() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.is_file() else {}

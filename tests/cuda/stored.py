"""PTX that tools/save_ptx.py has stored, for tests where no compiler is installed."""

import json
import lzma
from functools import cache

from places import GOLDEN

FILE = GOLDEN / "front-ends.json.xz"


@cache
def stored():
    """What is in the file: "twins" and "triton"."""
    return json.loads(lzma.decompress(FILE.read_bytes()))

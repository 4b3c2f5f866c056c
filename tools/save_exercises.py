"""Fill in the task cards of solutions/NN_topic.ipynb, and make exercises/NN_topic.ipynb from them.

    .venv/bin/python tools/save_exercises.py

It is `tcemu exercises save` for this repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tcemu.commands.exercises import save

if __name__ == "__main__":
    save.main([*sys.argv[1:], str(Path(__file__).resolve().parent.parent)])

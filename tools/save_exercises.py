"""Fill in the task cards of solutions/NN_topic.ipynb, and make exercises/NN_topic.ipynb from them.

    .venv/bin/python tools/save_exercises.py

`tcemu exercises save FOLDER` does the same for exercises of your own.
"""

from __future__ import annotations

from pathlib import Path

from tcemu.course.release import released

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    for path, text in released(ROOT):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"saved {path.relative_to(ROOT)}")

"""Make tests/golden/sm_90a-alu.npz of what the recorder of ordinary instructions wrote: sums instead of answers.

.venv/bin/python tools/shorten_alu.py FOLDER
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

U = np.uint64
TARGET = Path(__file__).parents[1] / "tests/golden/sm_90a-alu.npz"
"""Where the tests look for it."""


def main(folder: Path) -> None:
    """Read the recorder's table and answers, and write the sums."""
    spec = importlib.util.spec_from_file_location("record_alu", folder / "record_alu.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder} has no record_alu.py")
    recorder: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recorder)
    table, file = recorder.rows(), np.load(folder / "exact.npz")
    special, values = _special(recorder, table, file["special"])
    with np.errstate(over="ignore"):
        random = file["random_sums"].sum(axis=1, dtype=U)
    np.savez_compressed(
        TARGET,
        about=np.array((folder / "about.json").read_text()),
        names=np.array([row[0] for row in table]),
        kinds=np.array([[*row[3], 0, 0, 0, 0][:4] for row in table], np.int16),
        special=special,
        first=file["random_sums"][:, 0],
        random=random,
        every=_every(len(table), file["all"]),
        **values,
    )


def _special(recorder: Any, table: Any, words: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Sums of the answers to special operands, and these operands by kind."""
    values: dict[str, Any] = {}
    sums, at = [], 0
    for _, _, _, kinds in table:
        count, answers = map(int, words[at : at + 2])
        at += 2
        for kind in kinds:
            found = words[at : at + count]
            if len(found) > len(values.get(f"special_{kind}", ())):
                values[f"special_{kind}"] = found
            at += count
        sums.append(recorder.sums(words[at : at + answers], 0).sum(dtype=U))
        at += answers
    return np.array(sums, U), values


def _every(rows: int, words: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums over all values of one operand; 0 for other rows."""
    sums, at = np.zeros(rows, U), 0
    while at < len(words):
        row, count = map(int, words[at : at + 2])
        sums[row] = words[at + 2 : at + 2 + count].sum(dtype=U)
        at += 2 + count
    return sums


if __name__ == "__main__":
    main(Path(sys.argv[1]))

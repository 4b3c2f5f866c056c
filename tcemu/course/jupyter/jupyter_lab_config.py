"""How `tcemu lab` and the classroom configure JupyterLab: with the extension of this folder."""

from pathlib import Path
from typing import Any

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821 - Jupyter provides it
c.LabApp.extra_labextensions_path = [str(Path(__file__).parent / "labextensions")]

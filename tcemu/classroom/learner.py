"""Starts a learner's server: lays out the course, links the compiled kernels, and becomes Jupyter.

On a cluster it is the command of a learner's pod: `python -m tcemu.classroom.learner`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tcemu.classroom.settings import course
from tcemu.course import lay_out
from tcemu.course.overviews import write_first_page
from tcemu.course.progress import PROGRESS
from tcemu.errors import TcemuError

#: Options of the server: kernels are reached through files, not through ports that neighbours could try; one that
#: nobody uses for an hour ends; the classroom's service may read the progress file, which is hidden.
OPTIONS = (
    "--KernelManager.transport=ipc",
    "--ConnectionFileMixin.transport=ipc",
    "--MappingKernelManager.cull_idle_timeout=3600",
    "--MappingKernelManager.cull_connected=True",
    "--ContentsManager.allow_hidden=True",
    "--ServerApp.log_level=WARN",
)
_HAND_IN = """
## Handing in

When you have solved what you can, save the notebook (Ctrl + S) and [hand it in]({service}). The same page has your
teacher's feedback.
"""


def prepare(home: Path) -> None:
    """Lay the course out, or bring it up to date, and write the first page. Raises CourseError."""
    lay_out(home, course().contents())
    if not (home / PROGRESS).exists():  # so that the service's requests do not fill the log with refusals
        (home / PROGRESS).write_text('{"exercises": {}}\n', encoding="utf-8")
    base = os.environ.get("JUPYTERHUB_BASE_URL", "/")
    write_first_page(home, _HAND_IN.format(service=f"{base}services/classroom/"))


def link_kernels(shared: Path, own: Path) -> int:
    """Link the compiled kernels of the numba cache `shared` into the cache `own`; how many files there are.

    numba needs a folder that it can write to, for what is compiled in addition. It replaces a file and never writes
    into it, so the shared ones are safe even where they are not read-only.
    """
    kernels = [path for path in shared.glob("*/*") if path.suffix in (".nbi", ".nbc")]
    for path in kernels:
        link = own / path.relative_to(shared)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    return len(kernels)


def main() -> None:
    """Prepare the home, and become the learner's server. The server starts even if the course cannot be laid out."""
    os.umask(0o077)
    try:
        prepare(Path.home())
    except TcemuError as error:
        print(f"tcemu: {error}", file=sys.stderr)  # noqa: T201 - to the server's log
    if shared := os.environ.get("TCEMU_CLASSROOM_KERNELS"):
        link_kernels(Path(shared), Path(os.environ["NUMBA_CACHE_DIR"]))
    # Defaults of the classroom, where nbgrader's menus are only in the way, and of the course, such as pages that open
    # rendered; the learner's own settings take precedence.
    defaults = Path(__file__).with_name("jupyter"), Path(__file__).parents[1] / "course" / "jupyter"
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(map(str, defaults))
    command = [sys.executable, "-m", "jupyterhub.singleuser", *sys.argv[1:], *OPTIONS]
    os.execv(sys.executable, command)  # noqa: S606 - our own interpreter


if __name__ == "__main__":
    main()

"""What this Python can do beyond the emulator: which extras are installed, how to install them, and processes."""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from tcemu.errors import MissingPackage, NoProcesses, listing

#: Whether Python runs in a browser (or in another host of WebAssembly): without threads, processes and locks of files.
IN_BROWSER = sys.platform == "emscripten"
#: How a reader of the page gets everything.
_INSTALL = 'pip install "tcemu[course,cuda]"'


def require_processes(what: str) -> None:
    """Raise NoProcesses in a browser, where `what` cannot work.

    >>> from tcemu.extras import require_processes
    >>> require_processes("`tcemu check`")
    """
    if IN_BROWSER:
        raise NoProcesses(f"{what} needs a process of its own, and a page has none. It works on a computer: {_INSTALL}")


def require(extra: str, what: str, *packages: str) -> None:
    """Raise MissingPackage if one of the packages, which `what` needs, is not installed.

    >>> from tcemu.extras import require
    >>> require("course", "a picture with sliders", "numpy")
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingPackage(
            f"{what} needs {listing(missing, 'and')}, which the extra `{extra}` installs; {install_extra(extra)}"
        )


def install_extra(extra: str) -> str:
    """What installs an extra: from the clone, in tested versions, if the package is one; else what the extra asks for.

    >>> from tcemu.extras import install_extra
    >>> "course" in install_extra("course") or "jupyterlab" in install_extra("course")
    True
    """
    from importlib import metadata  # which takes a while, and is seldom needed

    clone, prefix = Path(__file__).parents[1], Path(sys.prefix)
    if (clone / "requirements.lock").is_file():
        into = ".venv" if prefix == clone / ".venv" else _quoted(str(prefix))
        return f'in the clone of tcemu run: python3 -m pip --python {into} install -c requirements.lock -e ".[{extra}]"'
    try:
        asked = metadata.requires("tcemu") or []
    except metadata.PackageNotFoundError:  # a folder on the path
        asked = []
    wanted = [each.split(";")[0].strip() for each in asked if re.search(f"""extra *== *['"]{extra}['"]""", each)]
    return f"run: {install(*wanted or [f'tcemu[{extra}]'])}"


def install(*what: str) -> str:
    """The command that installs something into this interpreter's environment, which may have no pip of its own."""
    own = f"{_quoted(sys.executable)} -m pip"
    # PathFinder, not find_spec: setuptools' finder stops providing distutils for good once anything looks for pip.
    pip = own if PathFinder.find_spec("pip") else f"python3 -m pip --python {_quoted(sys.prefix)}"
    return " ".join([pip, "install", *map(_quoted, what)])


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./:=\\-]+", word) else f'"{word}"'

"""A class whose learners log in from Canvas, Moodle or another site that speaks LTI 1.3, in place of passwords."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from tcemu.classroom.settings import NAMES, Classroom
from tcemu.errors import CourseError, listing
from tcemu.extras import require

#: What the file says: four things that the site shows when the tool is registered, and the teacher's login there.
KEYS = ("issuer", "client_id", "authorize_url", "jwks_endpoint", "teacher")


def read(path: Path) -> dict[str, str]:
    r"""The file for --lti. Raises CourseError, which says what it should have.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tcemu.classroom.lti import KEYS, read
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "lti.toml")
    ...     lines = [f'{key} = "https://lms.example.edu"\n' for key in KEYS[:4]]
    ...     _ = path.write_text("".join([*lines, 'teacher = "ann"']))
    ...     read(path)["teacher"]
    'ann'
    """
    require("classroom", "LTI", "ltiauthenticator")
    try:
        held: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"cannot read {path}: {error}") from error
    if set(held) != set(KEYS) or not all(isinstance(value, str) and value for value in held.values()):
        raise CourseError(f"{path} must have a string for each of {listing(KEYS, 'and')}, and nothing else")
    for key in ("authorize_url", "jwks_endpoint"):
        if not re.match("https?://[^/]", held[key]):
            raise CourseError(f"{path}: {key} must be an address that begins with https://; got {held[key]!r}")
    if not re.fullmatch(NAMES, held["teacher"]):
        raise CourseError(f"{path}: teacher must be a login name in small letters, as the site sends it")
    return held


def configure(c: Any, classroom: Classroom) -> None:
    """Fill in what JupyterHub has to know about the site."""
    c.JupyterHub.authenticator_class = "ltiauthenticator.lti13.auth.LTI13Authenticator"
    c.Authenticator.auto_login = True
    site = c.LTI13Authenticator
    site.issuer, site.client_id = classroom.lti["issuer"], {classroom.lti["client_id"]}
    site.authorize_url, site.jwks_endpoint = classroom.lti["authorize_url"], classroom.lti["jwks_endpoint"]
    site.username_key = "custom_login"

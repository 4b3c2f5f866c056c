"""The file that JupyterHub reads; `tcemu classroom` starts the hub with it."""

from tcemu.classroom.hub import configure
from tcemu.classroom.settings import from_environment

configure(get_config(), from_environment())  # type: ignore[name-defined] # noqa: F821 - JupyterHub gives it

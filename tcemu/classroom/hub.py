"""JupyterHub's configuration for a classroom."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from secrets import compare_digest, randbelow, token_hex
from typing import Any

from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from jupyterhub_traefik_proxy.fileprovider import TraefikFileProviderProxy
from tornado.httpclient import HTTPClientError
from tornado.ioloop import PeriodicCallback
from traitlets import Dict, Unicode

from tcemu.classroom import lti
from tcemu.classroom.running import MARK, mark
from tcemu.classroom.settings import COURSE, FOLDER, NAMES, Classroom
from tcemu.classroom.spawner import BoxedSpawner

#: Ports that Linux gives to no outgoing connection, unless its range has been changed; how many are tried.
_PORTS, _TRIES = range(16384, 32768), 100
#: The service's name, and so its address: /services/classroom/.
SERVICE = "classroom"
#: The program of the service. The hub ends it with SIGINT, at any moment: that is no reason for a traceback.
_SERVE = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); from tcemu.classroom.service import run; run()"
#: Milliseconds between two looks at the proxy.
_LOOKS = 2000
#: The service's rights: see who is there, and call a learner's server in the learner's own name.
SCOPES = ("list:users", "read:users", "read:servers", "tokens", "access:servers")


class ClassroomProxy(TraefikFileProviderProxy):  # type: ignore[misc] # JupyterHub has no types
    """The proxy, started again if it ends. Its files still have the routes."""

    _looking: PeriodicCallback | None = None

    async def start(self) -> None:
        """Start it, and look after it."""
        await super().start()
        self._looking = PeriodicCallback(self._look, _LOOKS)
        self._looking.start()

    def _look(self) -> None:
        if self.traefik_process.poll() is not None:
            self.log.error("The proxy ended (%s) and is started again", self.traefik_process.returncode)
            self._start_traefik()

    async def _check_for_traefik_service(self, routespec: str, kind: str) -> bool:
        """Whether it knows a route; no, and without a traceback, while it starts again."""
        with suppress(OSError, HTTPClientError):
            await self._traefik_api_request("/api/overview")
            return bool(await super()._check_for_traefik_service(routespec, kind))
        return False

    async def stop(self) -> None:
        """Stop it."""
        if self._looking:
            self._looking.stop()
        await super().stop()


class ClassroomAuthenticator(SharedPasswordAuthenticator):  # type: ignore[misc] # JupyterHub has no types
    """The shared password, or a learner's own where there is one: then nobody can log in with another's name."""

    own = Dict(key_trait=Unicode(), value_trait=Unicode(), config=True, help="Passwords of single learners.")

    async def authenticate(self, handler: Any, data: dict[str, str]) -> Any:
        """Check the learner's own password if learners have their own, otherwise the shared one."""
        name = self.normalize_username(data["username"])
        if not self.own or name in self.admin_users:
            return await super().authenticate(handler, data)
        right = self.own.get(name)
        if right and compare_digest(data["password"].encode(), right.encode()):
            return {"name": name, "admin": False, "groups": []}
        return None


def configure(c: Any, classroom: Classroom) -> None:
    """Fill in JupyterHub's configuration `c`."""
    _hub(c, classroom)
    _logins(c, classroom)
    _servers(c, classroom)
    _proxy(c, classroom)
    _service(c, classroom)


def _hub(c: Any, classroom: Classroom) -> None:
    hub = classroom.hub.absolute()
    c.JupyterHub.bind_url = f"{'https' if classroom.certificate else 'http'}://{classroom.address}:{classroom.port}"
    c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{free_port()}"
    c.JupyterHub.db_url = f"sqlite:///{hub / 'hub.sqlite'}"
    c.JupyterHub.cookie_secret_file = str(hub / "cookie-secret")
    c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = classroom.certificate, classroom.key
    c.JupyterHub.log_level = "WARN"
    c.JupyterHub.default_url = _first_page


def _first_page(handler: Any) -> str:
    """Where a login leads: the teacher to the class, learners to their own servers, which "" stands for."""
    user = handler.current_user
    return f"{handler.base_url}services/{SERVICE}/board" if user and user.admin else ""


def _logins(c: Any, classroom: Classroom) -> None:
    c.JupyterHub.authenticator_class = ClassroomAuthenticator
    c.Authenticator.username_pattern = NAMES
    c.Authenticator.admin_users = {classroom.teacher}
    c.Authenticator.allow_all = not classroom.own
    # A database that was lost has everybody again who has a home.
    c.Authenticator.allowed_users = set(classroom.own) or set(_homes(classroom))
    if classroom.lti:
        lti.configure(c, classroom)
        return
    c.SharedPasswordAuthenticator.user_password = classroom.password
    c.SharedPasswordAuthenticator.admin_password = classroom.teacher_password
    c.ClassroomAuthenticator.own = dict(classroom.own)


def _homes(classroom: Classroom) -> Iterator[str]:
    yield from (place.name for place in classroom.learners.iterdir() if re.fullmatch(NAMES, place.name))


def _servers(c: Any, classroom: Classroom) -> None:
    c.JupyterHub.spawner_class = BoxedSpawner
    c.BoxedSpawner.classroom = classroom
    c.Spawner.default_url = "/lab/tree/START.md"
    # A whole class logs in at once. The hub rejects nobody; all wait, with a progress bar, for as long as it takes.
    c.JupyterHub.concurrent_spawn_limit = 0
    c.Spawner.http_timeout = c.Spawner.start_timeout = 600
    c.Spawner.mem_limit = classroom.limits.memory << 20  # Jupyter shows it; the box enforces it
    c.Spawner.cpu_limit = classroom.limits.cpus


def _proxy(c: Any, classroom: Classroom) -> None:
    hub = classroom.hub.absolute()
    c.JupyterHub.proxy_class = ClassroomProxy
    c.TraefikFileProviderProxy.traefik_api_url = f"http://127.0.0.1:{free_port()}"
    c.TraefikFileProviderProxy.traefik_api_username = "hub"
    c.TraefikFileProviderProxy.traefik_api_password = token_hex(16)
    c.TraefikFileProviderProxy.static_config_file = str(hub / "proxy.toml")
    c.TraefikFileProviderProxy.dynamic_config_file = str(hub / "routes.toml")


def _service(c: Any, classroom: Classroom) -> None:
    folder = str(classroom.folder.absolute())
    environment = {FOLDER: folder, COURSE: classroom.course, MARK: mark(classroom.folder)}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    c.JupyterHub.services = [
        {
            "name": SERVICE,
            "url": f"http://127.0.0.1:{free_port()}",
            "command": [sys.executable, "-c", _SERVE],
            "environment": environment,
            "oauth_no_confirm": True,
            "display": True,
        }
    ]
    own = f"access:services!service={SERVICE}"
    c.JupyterHub.load_roles = [
        {"name": SERVICE, "scopes": list(SCOPES), "services": [SERVICE]},
        {"name": "user", "scopes": ["self", own]},
    ]


def free_port() -> int:
    """A port that is free on this machine at this moment.

    It is none of those that systems give to outgoing connections: one of these may last as long as the classroom, and
    could have taken the port before the hub's service listens there.
    """
    tried = 0
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", _PORTS.start + randbelow(len(_PORTS))))
                return int(probe.getsockname()[1])
            except OSError:
                tried += 1
                if tried == _TRIES:
                    raise

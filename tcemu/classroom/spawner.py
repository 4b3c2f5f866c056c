"""A learner's server, started in a box."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from jupyterhub.spawner import SimpleLocalProcessSpawner
from traitlets import Instance

from tcemu.classroom import settings as of
from tcemu.classroom.box import COURSE, KERNELS, Box, modest, systemd_runs, user_for
from tcemu.classroom.running import MARK, mark
from tcemu.classroom.settings import Classroom
from tcemu.grade.syscalls import NAMESPACES, opened

#: The compiled kernels that this learner's processes use: links to the shared ones, and what is compiled in addition.
CACHE = "/tmp/kernels"  # noqa: S108 - in the box


class BoxedSpawner(SimpleLocalProcessSpawner):  # type: ignore[misc] # JupyterHub has no types
    """Starts a learner's server in a box of its own; `c.BoxedSpawner.classroom` says for which classroom."""

    classroom = Instance(Classroom, config=True)

    def _box(self) -> Box:
        settings, name = self.classroom, self.user.name
        home = settings.learners / name
        uid = user_for(home, os.geteuid() == 0)
        return Box(name, home, settings.limits, uid, settings.kernels, settings.course, systemd_runs())

    def make_preexec_fn(self, name: str) -> None:
        """Nothing: the box changes the user and the folder."""

    def load_state(self, state: dict[str, Any]) -> None:
        """What the database says, without the number of a process: no box outlives its hub, so it is another's."""
        super().load_state(state)
        self.pid = 0

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """The environment inside the box."""
        settings, box = self.classroom, self._box()
        mine = {"USER": self.user.name, "HOME": str(box.inside), "SHELL": "/bin/bash", **modest(settings.limits)}
        if settings.course:
            mine[of.COURSE] = str(COURSE)
        mine[MARK] = mark(settings.folder)
        return env | mine | {"NUMBA_CACHE_DIR": CACHE, "TCEMU_CLASSROOM_KERNELS": str(KERNELS)}

    async def start(self) -> Any:
        """Start the server; what it prints goes to a log of the hub."""
        logs = self.classroom.hub / "logs"
        logs.mkdir(exist_ok=True)
        seccomp = opened(NAMESPACES)
        self.cmd = self._box().command(sys.executable, "-m", "tcemu.classroom.learner", seccomp=seccomp)
        with (logs / f"{self.user.name}.log").open("wb") as log:
            self.popen_kwargs = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            self.popen_kwargs["pass_fds"] = [seccomp] if seccomp >= 0 else []
            try:
                return await super().start()
            finally:
                self.popen_kwargs = {}
                if seccomp >= 0:
                    os.close(seccomp)

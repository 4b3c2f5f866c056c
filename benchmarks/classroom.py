"""How much memory a learner of a class needs, and so how many a machine carries: python benchmarks/classroom.py [MOST]

Starts a class as `tcemu classroom` does, on loopback, and lets 1, 2, 4, ... learners log in, up to MOST (4), each with
a notebook that has imported tcemu and multiplied matrices. PSS counts memory that processes share in proportion; RSS
counts it for each. The number that a machine carries leaves an eighth of its memory for everything else.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from jupyter_client.session import Session
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tcemu.classroom.hub import free_port

PASSWORD = "tensor-core"  # noqa: S105 - of a hub that lives for one benchmark on this machine
NOTEBOOK = "notebooks/00_first_light.ipynb"
WORK = """
import numpy as np, tcemu
a, b = (np.ones((64, 64), np.float16) for _ in range(2))
mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
for _ in range(20):
    tcemu.matmul(a, b, instruction=mma, target="sm_90")
print("done")
"""


@contextmanager
def classroom(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A class that runs: its address, and the hub's process."""
    port = free_port()
    command = [sys.executable, "-m", "tcemu", "classroom", str(folder), "--no-warm"]
    command += ["--address=127.0.0.1", f"--port={port}"]
    with (folder.parent / "log").open("w") as log:
        hub = subprocess.Popen([*command, f"--password={PASSWORD}"], stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}", psutil.Process(hub.pid)
        finally:
            hub.send_signal(signal.SIGINT)
            hub.wait(60)


class Learner:
    """A learner without a browser: what a browser asks, in the same order."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name, self.cookies = address, name, dict[str, str]()

    async def ask(self, path: str, method: str = "GET", body: str | None = None, patience: float = 180) -> bytes:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        headers |= {"X-XSRFToken": self.cookies.get("_xsrf", ""), "Sec-Fetch-Mode": "navigate"}
        address = path if path.startswith("http") else self.address + path
        request = HTTPRequest(address, method, headers, body, follow_redirects=False, request_timeout=patience)
        answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        for cookie in answer.headers.get_list("Set-Cookie"):
            name, value = cookie.split(";")[0].split("=", 1)
            self.cookies[name] = value.strip('"') if value.startswith('"') else value
        if answer.code in (301, 302):
            return await self.ask(answer.headers["Location"])
        if answer.code >= 400:
            raise HTTPClientError(answer.code, f"{method} {path}")
        return answer.body

    async def log_in(self) -> float:
        """Log in and start the server; the seconds until it answers."""
        start = time.perf_counter()
        page = (await self.ask("/hub/login")).decode()
        token = re.findall(r'name="_xsrf" value="([^"]+)"', page)[0].replace("&#x3D;", "=")
        form = f"username={self.name}&password={PASSWORD}&_xsrf={token}"
        await self.ask("/hub/login", "POST", form)
        while time.perf_counter() - start < 180:
            with suppress(HTTPClientError):
                if b"jupyter" in await self.ask(f"/user/{self.name}/lab"):
                    return time.perf_counter() - start
            await asyncio.sleep(1)
        raise TimeoutError(f"{self.name}'s server does not answer")

    async def work(self) -> None:
        """Open the course's first notebook, and run a cell."""
        wanted = {"path": NOTEBOOK, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
        session = json.loads(await self.ask(f"/user/{self.name}/api/sessions", "POST", json.dumps(wanted)))
        kernel = session["kernel"]["id"]
        path = f"/user/{self.name}/api/kernels/{kernel}/channels?_xsrf={self.cookies['_xsrf']}"
        url = self.address.replace("http", "ws", 1) + path
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        socket = await websocket_connect(HTTPRequest(url, headers=headers), max_message_size=1 << 26)
        message = Session().msg("execute_request", {"code": WORK, "silent": False}) | {"channel": "shell"}
        await socket.write_message(json.dumps(message, default=str))
        while answer := await asyncio.wait_for(socket.read_message(), 180):
            said = json.loads(answer)
            if said["header"]["msg_type"] == "execute_reply":
                if said["content"]["status"] != "ok":
                    raise RuntimeError(said["content"])
                return


def memory(processes: list[psutil.Process]) -> tuple[float, float]:
    """MiB of RSS and PSS of processes together."""
    held = [each.memory_full_info() for each in processes]
    return sum(each.rss for each in held) / 2**20, sum(each.pss for each in held) / 2**20


def by_learner(hub: psutil.Process) -> dict[str, list[psutil.Process]]:
    """The processes below the hub, by learner; those of nobody under ""."""
    found: dict[str, list[psutil.Process]] = {"": [hub]}
    for each in hub.children(recursive=True):
        found.setdefault(each.environ().get("JUPYTERHUB_USER", ""), []).append(each)
    return found


async def main(most: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as place, classroom(Path(place) / "class") as (address, hub):
        for _ in range(900):
            with suppress(OSError, HTTPClientError):
                await AsyncHTTPClient().fetch(f"{address}/services/classroom/static/classroom.css")
                break
            await asyncio.sleep(1)
        print("learners   RSS each   PSS each  its kernel  hub, proxy, page   log in")
        count, there = 1, 0
        while count <= most:
            people = [Learner(address, f"learner{number}") for number in range(there, count)]
            waited = await asyncio.gather(*(each.log_in() for each in people))
            await asyncio.gather(*(each.work() for each in people))
            await asyncio.sleep(3)
            found = by_learner(hub)
            common = memory(found.pop(""))[1]
            rss, pss = (sum(part) / count for part in zip(*map(memory, found.values()), strict=True))
            kernels = [each for part in found.values() for each in part if "ipykernel_launcher" in each.cmdline()]
            kernel = memory(kernels)[1] / count
            row = f"{count:8} {rss:6.0f} MiB {pss:6.0f} MiB {kernel:7.0f} MiB {common:13.0f} MiB {max(waited):6.0f} s"
            print(row, flush=True)
            there, count = count, 2 * count
    total = psutil.virtual_memory().total / 2**20
    carried = int((total * 7 / 8 - common) / pss)
    print(f"A machine with {total / 1024:.0f} GiB carries {carried} learners with one notebook each.")


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("most", type=int, nargs="?", default=4, help="learners at most; 4 if not given")
    asyncio.run(main(options.parse_args().most))

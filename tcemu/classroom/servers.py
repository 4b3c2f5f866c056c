"""Sends requests to learners' servers, through the hub's proxy, with a token that the learner may know.

Learners can change what runs in their own servers, and so read whatever is sent there. A question to ada's server
therefore carries a token in ada's name that opens only ada's server, and an answer is taken as a stranger's: limited in
size and time, and read as plain data.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

#: Bytes of the longest answer, of the longest about progress, and seconds that an answer may take.
LONGEST, BRIEF, PATIENCE = 16 << 20, 2 << 20, 10.0
#: Seconds that a token for a learner's server lives, and after which the service asks for a new one.
LIFE, RENEW = 3600, 3000


class NoAnswerError(Exception):
    """A learner's server, or the hub, gave no usable answer. The text says why."""


@dataclass(frozen=True)
class Learner:
    """A user of the hub."""

    name: str
    teacher: bool
    #: Whether the learner's server runs.
    here: bool


@dataclass
class Hub:
    """The hub's API, and through its proxy the servers of the learners.

    `api`, `token` and `proxy` are the addresses and the token that the hub gives its services.
    """

    api: str
    token: str
    proxy: str
    #: The path below which the hub lives, with slashes around it.
    base: str = "/"
    _tokens: dict[str, tuple[float, str]] = field(default_factory=dict)

    @classmethod
    def of_environment(cls, proxy: str) -> Hub:
        """As the hub tells a service that it starts."""
        names = ("JUPYTERHUB_API_URL", "JUPYTERHUB_API_TOKEN")
        api, token = (os.environ[name] for name in names)
        return cls(api, token, proxy, os.environ.get("JUPYTERHUB_BASE_URL", "/"))

    async def learners(self) -> list[Learner]:
        """All users, in the order of their names. Raises NoAnswerError."""
        learners = []
        offset = 0
        while True:
            page = await self._ask(f"{self.api}/users?offset={offset}&limit=100", self.token)
            learners += [Learner(each["name"], bool(each["admin"]), bool(each["servers"])) for each in page]
            offset += len(page)
            if len(page) < 100:
                return sorted(learners, key=lambda each: each.name)

    async def contents(self, name: str, path: str, longest: int = 0) -> str:
        """A text file in a learner's home, of at most `longest` bytes. Raises NoAnswerError."""
        held = await self._server(name, f"api/contents/{quote(path)}?type=file&format=text&content=1", longest)
        text = held.get("content") if isinstance(held, dict) else None
        if not isinstance(text, str):
            raise NoAnswerError("the server's answer is not a file")
        return text

    async def sessions(self, name: str) -> list[Any]:
        """The notebooks with a kernel on a learner's server. Raises NoAnswerError."""
        held = await self._server(name, "api/sessions", BRIEF)
        return held if isinstance(held, list) else []

    async def _server(self, name: str, what: str, longest: int) -> Any:
        joint = "&" if "?" in what else "?"
        address = f"{self.proxy}{self.base}user/{quote(name)}/{what}{joint}no_track_activity=1"
        return await self._ask(address, await self._token(name), longest)

    async def _token(self, name: str) -> str:
        """A token in the learner's name, for the learner's server only."""
        until, token = self._tokens.get(name, (0.0, ""))
        if monotonic() >= until:
            wanted = {"expires_in": LIFE, "note": "classroom", "scopes": [f"access:servers!user={name}"]}
            address = f"{self.api}/users/{quote(name)}/tokens"
            made = await self._ask(address, self.token, method="POST", body=json.dumps(wanted))
            token = made["token"]
            self._tokens[name] = (monotonic() + RENEW, token)
        return token

    async def _ask(self, address: str, token: str, longest: int = 0, **more: Any) -> Any:
        headers = {"Authorization": f"token {token}"}
        # The proxy is on this machine, or in this cluster: whose certificate it has does not matter.
        request = HTTPRequest(
            address, headers=headers, request_timeout=PATIENCE, validate_cert=False, follow_redirects=False, **more
        )
        client = AsyncHTTPClient(force_instance=True, max_body_size=longest or LONGEST)
        try:
            return json.loads((await client.fetch(request)).body)
        except (HTTPClientError, OSError, ValueError, RecursionError) as error:
            raise NoAnswerError(str(error)) from error
        finally:
            client.close()

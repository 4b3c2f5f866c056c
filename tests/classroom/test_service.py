"""The classroom's service calls learners' servers safely, and shows untrusted text only as text."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import ClassVar

import pytest

pytest.importorskip("jupyterhub", reason="needs the extra classroom")

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tcemu.classroom import seen, servers
from tcemu.classroom.desk import Desk, lessons
from tcemu.classroom.servers import Hub, Learner, NoAnswerError
from tcemu.course.progress import PROGRESS

SECRET = "the service's own token"  # noqa: S105 - of a hub that is made up here


@pytest.fixture
def service():
    """The service. Importing JupyterHub takes a second in every worker."""
    from tcemu.classroom import service

    return service


class Api(RequestHandler):
    """The hub's API: two users and a teacher; it makes tokens."""

    asked: ClassVar[list] = []

    def get(self):
        people = [("bob", False, {}), ("ann", False, {"": {}}), ("teacher", True, {})]
        offset = int(self.get_argument("offset"))
        found = [{"name": name, "admin": admin, "servers": running} for name, admin, running in people]
        self.finish(json.dumps(found[offset:]))

    def post(self, name):
        assert self.request.headers["Authorization"] == f"token {SECRET}"
        self.asked.append((name, json.loads(self.request.body)))
        self.finish(json.dumps({"token": f"token of {name}"}))


class Server(RequestHandler):
    """A learner's server, which records its requests, and returns what `answers` specifies."""

    answers: ClassVar[dict] = {}
    tokens: ClassVar[list] = []

    async def get(self, name, path):
        self.tokens.append((name, self.request.headers["Authorization"]))
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        if answer == "elsewhere":
            self.redirect("/hub/api/users?offset=0")
        elif answer == "slow":
            await asyncio.sleep(5)
        else:
            self.finish(answer)


@pytest.fixture
def asked(monkeypatch):
    """A function that asks a hub and servers that are made up here."""
    monkeypatch.setattr(servers, "PATIENCE", 1.0)
    monkeypatch.setattr(servers, "LONGEST", 1 << 16)
    Api.asked, Server.answers, Server.tokens = [], {}, []

    async def session(question):
        api = [(r"/hub/api/users", Api), (r"/hub/api/users/(\w+)/tokens", Api)]
        app = Application([*api, (r"/user/(\w+)/(.*)", Server)])
        (socket,) = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(app)
        server.add_sockets([socket])
        address = f"http://127.0.0.1:{socket.getsockname()[1]}"
        try:
            return await question(Hub(f"{address}/hub/api", SECRET, address))
        finally:
            server.stop()

    return lambda question: asyncio.run(session(question))


def test_who_is_there(asked):
    found = asked(lambda hub: hub.learners())
    assert [(each.name, each.teacher, each.here) for each in found] == [
        ("ann", False, True), ("bob", False, False), ("teacher", True, False),
    ]  # fmt: skip


def test_a_server_gets_a_token_of_its_own_learner_and_no_other(asked):
    Server.answers = {f"api/contents/{PROGRESS}": json.dumps({"content": "{}"}), "api/sessions": "[]"}

    async def question(hub):
        await hub.sessions("ann")
        return await hub.contents("ann", PROGRESS), await hub.contents("bob", PROGRESS)

    assert asked(question) == ("{}", "{}")
    assert Server.tokens == [("ann", "token token of ann")] * 2 + [("bob", "token token of bob")]
    assert [(name, wanted["scopes"]) for name, wanted in Api.asked] == [
        ("ann", ["access:servers!user=ann"]), ("bob", ["access:servers!user=bob"]),
    ]  # fmt: skip
    assert all(wanted["expires_in"] <= 3600 for _, wanted in Api.asked)


@pytest.mark.parametrize(
    "answer",
    ["{", "[]", '{"content": 3}', '{"content": null}', '{"x": "' + "y" * (1 << 17) + '"}', "[" * 60_000, "elsewhere",
     "slow", ValueError("no")],
    ids=["half", "list", "number", "nothing", "long", "nested", "redirect", "slow", "error"],
)  # fmt: skip
def test_a_server_that_means_no_good_gives_no_answer(asked, answer):
    Server.answers = {"api/contents/x": answer}
    with pytest.raises(NoAnswerError):
        asked(lambda hub: hub.contents("ann", "x"))


class Tags(HTMLParser):
    """The tags of a page and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.text.append(data)


def test_words_of_learners_are_only_text(service, tmp_path):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    held = {"exercises": {"where_of_a": {"tries": 5, "mistakes": {evil: 1}}}}
    eve = seen.read("eve", json.dumps(held))
    values = service._view([eve], Desk(tmp_path, tmp_path))
    page = Tags(service._templates().get_template("board_part.html").render(values | {"prefix": "/"}))
    assert not {"script", "img"} & set(page.tags)
    assert evil in page.text


def test_the_board_has_those_who_are_stuck_first(service, tmp_path):
    desk = Desk(tmp_path, tmp_path)
    desk.take("ann", lessons()[0], '{"cells": []}')
    away = seen.Seen("cid", tries={"where_of_a": 9}, here=False)
    learners = [seen.Seen("ann"), seen.Seen("bob", tries={"where_of_a": 3}), away]
    values = service._view(learners, desk)
    assert [each.name for each in values["learners"]] == ["bob", "ann", "cid"]
    assert values["summary"] == "3 learners, 2 here now"
    assert values["handed"] == {"ann": [lessons()[0].label], "bob": [], "cid": []}


@pytest.mark.parametrize(
    ("minutes", "says"),
    [(0, "just now"), (1, "1 min ago"), (119, "119 min ago"), (120, "2 h ago"), (2880, "2 days ago")],
)
def test_how_long_ago(service, minutes, says):
    then = datetime(2026, 3, 1, tzinfo=UTC)
    assert service.ago(then, then + timedelta(minutes=minutes)) == says
    assert service.ago(None) == ""


LATEST = '{"exercises": {"where_of_a": {}}, "latest": {"exercise": "where_of_a", "at": "AT"}}'
#: What eve may put into her progress file, or have her server answer for it.
HOSTILE = {
    "latest a list": '{"exercises": {"where_of_a": {}}, "latest": {"exercise": []}}',
    "latest an object": '{"exercises": {"where_of_a": {}}, "latest": {"exercise": {}, "at": []}}',
    "half a character": '{"exercises": {"where_of_a": {"tries": 5, "mistakes": {"\\ud800": 1}}}}',
    "half a character itself": '{"exercises": {"where_of_a": {"mistakes": {"\ud800": 1}}}}',
    "huge numbers": '{"exercises": {"where_of_a": {"tries": 1e999, "mistakes": {"x": 1' + "0" * 4000 + "}}}}",
    "a number too long": '{"exercises": {"where_of_a": {"tries": 1' + "0" * 5000 + "}}}",
    "not a number": '{"exercises": {"where_of_a": {"tries": NaN, "solved": -Infinity}}}',
    "deep": '{"exercises": ' + "[" * 100_000,
    "deep but whole": '{"exercises": {"where_of_a": ' + '{"mistakes":' * 800 + "1" + "}" * 800 + "}}",
    "far away": LATEST.replace("AT", "9999-12-31T23:59:59-23:59"),
    "long ago": LATEST.replace("AT", "0001-01-01T00:00:00+23:59"),
    "a list": "[]",
    "nothing": "",
    "many": json.dumps({"exercises": {"where_of_a": {"mistakes": {str(n): n for n in range(50_000)}}}}),
    "a kernel that is none": "{}",
}  # fmt: skip
SESSIONS = [None, [], {"path": "\ud800.ipynb", "kernel": []}, {"path": {"a": [[]]}, "kernel": {"last_activity": 3}}]


class Made:
    """A hub that is made up: ann is honest, and eve is not."""

    base = "/"

    def __init__(self, text):
        self.text = text

    async def learners(self):
        return [Learner(name, False, True) for name in ("ann", "eve")]

    async def sessions(self, name):
        return SESSIONS if name == "eve" else []

    async def contents(self, name, path, longest):
        if name == "ann":
            return '{"exercises": {"where_of_a": {"tries": 7}}}'
        if isinstance(self.text, Exception):
            raise self.text
        return self.text if self.text is not None else await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("text", "word"),
    [*((text, None) for text in HOSTILE.values()), (NoAnswerError("x"), seen.SILENT), (ValueError("x"), seen.DAMAGED),
     ("{", seen.DAMAGED), (None, "")],
    ids=[*HOSTILE, "no answer", "a fault of ours", "half", "waits"],
)  # fmt: skip
def test_one_learner_does_not_hide_the_others(service, tmp_path, monkeypatch, text, word):
    monkeypatch.setattr(service, "FRESH", 0.05)

    async def board():
        classroom = service.Classroom(Made(text), Desk(tmp_path, tmp_path))
        found = await classroom.look()
        for task in classroom._asking.values():
            task.cancel()
        return found

    ann, eve = asyncio.run(board())
    assert ann.tries == {"where_of_a": 7}
    assert (ann.trouble, eve.name) == ("", "eve")
    assert word is None or eve.trouble == word
    values = service._view([ann, eve], Desk(tmp_path, tmp_path)) | {"prefix": "/"}
    page = service._templates().get_template("board_part.html").render(values)
    page.encode()  # as the service sends it
    assert "7 tries" in page
    assert eve.trouble in page


def test_a_name_that_is_no_folder_s_has_handed_in_nothing(service, tmp_path):
    eve = seen.Seen("eve/../ann o'neil")  # other authenticators than ours accept other names
    assert service._view([eve], Desk(tmp_path, tmp_path))["handed"] == {eve.name: []}
    assert Desk(tmp_path, tmp_path).feedback(eve.name) is None

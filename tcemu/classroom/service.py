"""The classroom's page, a service of the hub: learners hand in and read their feedback, the teacher sees the class.

The hub starts it with `python -m tcemu.classroom.service`. It never touches a learner's files: it asks the learner's
own server for them (`servers`), so it works the same where servers run in boxes and where they run in a cluster.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, select_autoescape
from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler, authenticated

from tcemu.classroom import seen
from tcemu.classroom.desk import Desk, NotTakenError, lessons
from tcemu.classroom.seen import DAMAGED, SILENT, Seen
from tcemu.classroom.servers import BRIEF, Hub, Learner, NoAnswerError
from tcemu.classroom.settings import FOLDER, course, from_environment
from tcemu.course import exercises
from tcemu.course.progress import PROGRESS
from tcemu.errors import counted

#: Seconds for which what was seen of the class is not asked again.
FRESH = 4.0
#: Servers that are asked at the same time.
AT_ONCE = 8
log = logging.getLogger(__name__)
_PAGES = Path(__file__).with_name("pages")
#: A page of ours runs our script and no other; a feedback page runs nothing.
_POLICY = "default-src 'none'; base-uri 'none'; " + "; ".join(
    f"{what} 'self'" for what in ("style-src", "script-src", "connect-src", "form-action")
)
_INERT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass
class Classroom:
    """What the pages share: the hub, the desk, and the class as it was seen last."""

    hub: Hub
    desk: Desk
    _seen: dict[str, Seen] = field(default_factory=dict)
    _asking: dict[str, asyncio.Task[Seen]] = field(default_factory=dict)
    _at: float = float("-inf")
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _turns: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))
    #: Those who gave trouble wait for each other, and not everybody for them.
    _slow_turns: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, AT_ONCE))

    async def look(self) -> list[Seen]:
        """The class now; for those who are not here, or have not answered yet, what was seen last."""
        async with self._looking:  # several teachers' pages cost one look
            loop = asyncio.get_running_loop()
            if loop.time() - self._at > FRESH:
                learners = [each for each in await self.hub.learners() if not each.teacher]
                for each in learners:
                    if each.name not in self._asking:
                        self._asking[each.name] = loop.create_task(self._look_at(each))
                if self._asking:
                    await asyncio.wait(self._asking.values(), timeout=FRESH)
                self._seen = {each.name: self._answer(each) for each in learners}
                self._at = loop.time()
        return list(self._seen.values())

    def _answer(self, learner: Learner) -> Seen:
        if self._asking[learner.name].done():
            return self._asking.pop(learner.name).result()
        return self._before(learner)

    def _before(self, learner: Learner) -> Seen:
        return replace(self._seen.get(learner.name, Seen(learner.name)), here=learner.here)

    async def _look_at(self, learner: Learner) -> Seen:
        before = self._before(learner)
        if not learner.here:
            return replace(before, trouble="")
        async with self._slow_turns if before.trouble else self._turns:
            try:
                sessions = await self.hub.sessions(learner.name)
                text = await self.hub.contents(learner.name, PROGRESS, BRIEF)
                return seen.read(learner.name, text, sessions)
            except NoAnswerError:  # a server that is just starting, or a file that is none
                return replace(before, trouble=SILENT)
            except Exception:  # whatever one learner's answer does here, the others are shown
                log.exception("%s's answer", learner.name)
                return replace(before, trouble=DAMAGED)

    async def teachers(self) -> set[str]:
        """Who may see the class."""
        return {each.name for each in await self.hub.learners() if each.teacher}


class _Page(HubOAuthenticated, RequestHandler):  # type: ignore[misc] # JupyterHub has no types
    """A page for a user of the hub."""

    policy: ClassVar[str] = _POLICY

    @property
    def classroom(self) -> Classroom:
        held: Classroom = self.settings["classroom"]
        return held

    @property
    def name(self) -> str:
        return str(self.current_user["name"])

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", self.policy + "; frame-ancestors 'none'")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def show(self, template: str, **values: Any) -> None:
        """Answer with a page."""
        values |= {"name": self.name, "prefix": self.settings["prefix"], "hub": self.classroom.hub.base}
        values["token"] = self.xsrf_token.decode()
        self.finish(_templates().get_template(template).render(values))


class HandIn(_Page):
    """A learner's page: hand in, and the way to the feedback."""

    @authenticated
    async def get(self) -> None:
        """Show what was handed in."""
        await self._show()

    @authenticated
    async def post(self) -> None:
        """Take one lesson from the learner's server."""
        lesson = next((each for each in lessons() if each.stem == self.get_body_argument("lesson")), None)
        if lesson is None:
            raise HTTPError(400, reason="No such lesson")
        try:
            text = await self.classroom.hub.contents(self.name, f"exercises/{lesson.stem}.ipynb")
            self.classroom.desk.take(self.name, lesson, text)
        except NoAnswerError:
            why = "your server does not answer, or the notebook is not there"
            what = "Start your server, save the notebook and try again"
            await self._show(failed=f"{lesson.label} was not handed in: {why}. {what}.")
        except NotTakenError as error:
            await self._show(failed=f"{lesson.label} was not handed in. {error}")
        else:
            await self._show(done=f"{lesson.label} is handed in.")

    async def _show(self, **said: str) -> None:
        desk = self.classroom.desk
        rows = [(lesson, desk.when(self.name, lesson)) for lesson in lessons()]
        teacher = self.name in await self.classroom.teachers()
        feedback = desk.feedback(self.name) is not None
        self.show("hand_in.html", rows=rows, feedback=feedback, teacher=teacher, **said)


class Feedback(_Page):
    """A learner's own feedback page, exactly as the grader wrote it, in a page that runs nothing."""

    policy = _INERT

    @authenticated
    def get(self) -> None:
        """Show it."""
        page = self.classroom.desk.feedback(self.name)
        if page is None:
            raise HTTPError(404, reason="No feedback yet")
        self.finish(page)


class Board(_Page):
    """The teacher's page, which updates itself."""

    @authenticated
    async def get(self) -> None:
        """Show the class, or only the part that changes."""
        if self.name not in await self.classroom.teachers():
            raise HTTPError(403, reason="Only the teacher can see the class")
        learners = await self.classroom.look()
        part = self.get_query_argument("part", "")
        self.show("board_part.html" if part else "board.html", **_view(learners, self.classroom.desk))


def _view(learners: list[Seen], desk: Desk) -> dict[str, Any]:
    """What the teacher's page shows."""
    handed = {each.name: [le.label for le in lessons() if desk.when(each.name, le)] for each in learners}
    here = sum(each.here for each in learners)
    ordered = sorted(learners, key=lambda each: (not each.here, -len(each.stuck), each.name))
    return {
        "summary": f"{counted(len(learners), 'learner')}, {here} here now",
        "learners": ordered,
        "handed": handed,
        "hurdles": seen.hurdles(learners),
        "slips": seen.slips(learners)[:30],
        "of": sum(len((*entry.tasks, *entry.exercises)) for entry in course().notebooks),
        "now": datetime.now(UTC),
    }


@cache
def _templates() -> Environment:
    environment = Environment(loader=PackageLoader("tcemu.classroom", "pages"), autoescape=select_autoescape())
    environment.filters["ago"] = ago
    environment.globals["titles"] = {name: exercise.title for name, exercise in exercises().items()}
    return environment


def ago(then: datetime | None, now: datetime | None = None) -> str:
    """How long ago something was, in words.

    >>> from datetime import UTC, datetime
    >>> from tcemu.classroom.service import ago
    >>> ago(datetime(2026, 1, 1, 9, tzinfo=UTC), datetime(2026, 1, 1, 9, 30, tzinfo=UTC))
    '30 min ago'
    """
    if then is None:
        return ""
    minutes = int(((now or datetime.now(UTC)) - then).total_seconds()) // 60
    units = ((2 * 1440, 1440, "days"), (120, 60, "h"), (1, 1, "min"))
    return next((f"{minutes // one} {unit} ago" for most, one, unit in units if minutes >= most), "just now")


def application(classroom: Classroom, prefix: str) -> Application:
    """The service at the path `prefix`."""
    return Application(
        [
            (prefix, HandIn),
            (f"{prefix}feedback", Feedback),
            (f"{prefix}board", Board),
            (f"{prefix}oauth_callback", HubOAuthCallbackHandler),
            (f"{prefix}static/(.*\\.(?:css|js))", StaticFileHandler, {"path": str(_PAGES)}),
        ],
        classroom=classroom,
        prefix=prefix,
        cookie_secret=os.urandom(32),
        xsrf_cookies=True,
        xsrf_cookie_kwargs={"path": prefix, "samesite": "Strict"},
    )


def _from_environment() -> Classroom:
    """The classroom of `tcemu classroom`, or of a cluster that names the folders and the proxy itself."""
    if os.environ.get(FOLDER):
        here = from_environment()
        return Classroom(Hub.of_environment(here.url), Desk(here.submitted, here.grades))
    kept = Path(os.environ["TCEMU_CLASSROOM_KEEPS"])
    return Classroom(Hub.of_environment(os.environ["TCEMU_CLASSROOM_PROXY"]), Desk(kept / "submitted", kept / "grades"))


async def main() -> None:
    """Serve until the hub stops this process."""
    where = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    application(_from_environment(), prefix).listen(where.port or 80, where.hostname or "127.0.0.1")
    await asyncio.Event().wait()


def run() -> None:
    """Serve until somebody ends this process."""
    asyncio.run(main())


if __name__ == "__main__":
    run()

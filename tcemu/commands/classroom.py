"""tcemu classroom: a class on this machine, with a JupyterHub."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import click

from tcemu.backend import backend
from tcemu.classroom import box, lti, settings
from tcemu.classroom.settings import Classroom, Kernels, Limits
from tcemu.commands.warm import warm_up
from tcemu.course import manifest
from tcemu.errors import CourseError, listing
from tcemu.extras import require


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--password", help="The password that all learners share; by default, a new one, which is printed.")
@click.option(
    "--learners",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file with a name on each line: only these log in, each with a password of their own.",
)
@click.option(
    "--course",
    type=click.Path(exists=True, file_okay=False),
    help="The course of this folder, which has a course.toml, in place of the installed one.",
)
@click.option(
    "--lti",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file about a site (Canvas, Moodle) from which learners log in with LTI 1.3, without passwords here.",
)
@click.option("--address", help="The address to listen on; by default all of this machine.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port, by default 8000.")
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False), help="A TLS certificate, for https.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="The certificate's private key.")
@click.option("--memory", type=click.IntRange(512), help="MiB of memory for each learner, by default 2048.")
@click.option("--cpus", type=click.FloatRange(0.1), help="Cores for each learner, by default 2.")
@click.option("--processes", type=click.IntRange(64), help="Processes and threads for each learner, by default 512.")
@click.option("--no-warm", is_flag=True, help="Do not compile the kernels first.")
def classroom(folder: Path, learners: Path | None, no_warm: bool, **changes: object) -> None:
    """Start a class on this machine; learners need only a browser.

    FOLDER holds everything: the learners' homes, what they hand in, passwords and settings. Run the command again to
    resume; options that you leave out keep their values.

    Learners log in with a name and the shared password or, with --learners, their own password. Each works in a
    separate box (bubblewrap) with the course laid out in it, and cannot read anybody else's work. At
    /services/classroom/ they hand in and find your feedback, and the teacher sees everybody's progress.

    Run it as root to give each learner a separate user as well. The repository's classroom/README.md is the guide.
    """
    _check_machine(folder)
    from tcemu.classroom import running

    with running.alone(folder):
        if ended := running.end(folder):
            click.echo(f"Ended what an earlier start left behind (processes: {ended})")
        here = _settings(folder, {name: value for name, value in changes.items() if value is not None}, learners)
        running.check_port(here.address, here.port)
        here.save()
        if not no_warm and (warmed := warm_up()):
            click.echo(warmed)
        here = replace(here, kernels=_kernels())
        here.save()
        for damage in running.mend(here.hub):
            click.echo(damage)
        click.echo(_welcome(here))
        config = str(Path(settings.__file__).with_name("jupyter") / "jupyterhub_config.py")
        # The proxy, traefik, is beside this interpreter.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        environment = os.environ | {settings.FOLDER: str(here.folder.absolute()), "PATH": path}
        running.watch(folder, [sys.executable, "-m", "jupyterhub", f"--config={config}"], environment, click.echo)


def _check_machine(folder: Path) -> None:
    """Raise CourseError for a machine that cannot hold a classroom, or a folder that learners could read."""
    if not sys.platform.startswith("linux"):
        raise CourseError("a classroom needs Linux: it keeps learners apart with bubblewrap")
    require("classroom", "a classroom", "jupyterhub", "jupyterhub_traefik_proxy")
    require("course", "a classroom", "jupyterlab")
    if lacking := box.missing():
        raise CourseError(
            f"this machine lacks {listing(lacking, 'and')}, which a classroom needs to keep learners apart. Install "
            "bubblewrap and util-linux (Debian and Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"
        )
    if trouble := box.trouble():
        raise CourseError(
            f"bubblewrap cannot make boxes ({trouble}). Run the command as root, or allow user namespaces (Debian: "
            "sysctl kernel.unprivileged_userns_clone=1, Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
        )
    inside = Path(os.path.realpath(folder))
    for place in map(os.path.realpath, box.installed()):
        if Path(place) in (inside, *inside.parents):
            raise CourseError(f"{folder} is inside {place}, which all learners can read; choose another folder")


def _settings(folder: Path, changes: dict[str, object], learners: Path | None) -> Classroom:
    """The classroom as it was, or a new one, with the options that were given."""
    before = settings.load(folder) or Classroom(
        folder, settings.new_password(10), settings.new_password(settings.SHORTEST_TEACHER)
    )
    limits = {name: changes.pop(name) for name in Limits.__dataclass_fields__ if name in changes}
    for name in ("certificate", "key", "course"):
        if name in changes:
            changes[name] = str(Path(str(changes[name])).absolute())
    if "lti" in changes:
        site = lti.read(Path(str(changes["lti"])))
        changes |= {"lti": site, "teacher": site["teacher"]}
    after = replace(before, limits=replace(before.limits, **limits), **changes)  # type: ignore[arg-type]
    if len(after.password) < settings.SHORTEST:
        raise CourseError(f"the password has {len(after.password)} characters; it needs at least {settings.SHORTEST}")
    manifest(Path(after.course) if after.course else None)  # which says what is wrong with it
    if bool(after.certificate) != bool(after.key):
        raise CourseError("a certificate and its key belong together: give --certificate and --key")
    return replace(after, own=settings.with_learners(_names(learners), before.own)) if learners else after


def _names(path: Path) -> list[str]:
    """The names in a file, one on each line. Raises CourseError for one that the login page would reject."""
    names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for name in names:
        if not re.fullmatch(settings.NAMES, name):
            raise CourseError(
                f"{path}: nobody can log in as {name!r}. Names begin with a small letter, have up to 32 "
                "small letters, digits, - and _, and do not end with - or _"
            )
    return names


def _kernels() -> Kernels | None:
    """Where the compiled kernels are, for the boxes."""
    if backend() != "numba":
        return None
    from tcemu.kernels.host.compiling import below_cache_dir, cache_folder

    folder = cache_folder()
    return Kernels(str(folder), below_cache_dir()) if folder else None


def _welcome(here: Classroom) -> str:
    """What the teacher needs to know."""
    limits = here.limits
    together = "for each learner" if box.systemd_runs() else "for each process (systemd does not run this machine)"
    rows = [
        f"The classroom is {here.url}. Learners open this machine's name or address in a browser.",
        *(_from_site(here) if here.lti else _with_passwords(here)),
        f"  limits: {limits.memory} MiB of memory {together}, {limits.processes} processes and threads",
        f"  what they hand in: {here.submitted}",
    ]
    if not here.certificate and here.address != "127.0.0.1":
        rows.append("  Passwords travel unencrypted: in a network that you do not trust, give --certificate and --key.")
    return "\n".join([*rows, "Stop it with Ctrl + C; the learners' work stays in the folder."])


def _with_passwords(here: Classroom) -> list[str]:
    """How one logs in."""
    rows = [f"  learners log in with any name and the password  {here.password}"]
    if here.own:
        rows = ["  learners and their passwords:", *(f"    {name:32}  {own}" for name, own in here.own.items())]
    return [*rows, f"  you log in as {here.teacher} with the password  {here.teacher_password}"]


def _from_site(here: Classroom) -> list[str]:
    """How one logs in from a site."""
    who = f"the {len(here.own)} learners of your list log" if here.own else "everybody whom the site sends logs"
    return [
        f"  {who} in from {here.lti['issuer']}, and you do as {here.teacher}",
        f"  initiate login URL there: {here.url}/hub/lti13/oauth_login",
        f"  redirect URI there:       {here.url}/hub/lti13/oauth_callback",
        "  both with the name by which learners reach this machine",
    ]

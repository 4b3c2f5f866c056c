"""Starts in the box as `python -S __main__.py SETTINGS`: gives up what it does not need, then runs a notebook.

The box of CUDA's compiler starts in the same way.

It uses the standard library alone until the path is set: without `site`, no .pth file and no sitecustomize runs.
"""

import json
import os
import resource
import sys


def limited(limits: dict[str, int]) -> None:
    """Set the limits of this process and of all that it starts."""
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def expendable() -> None:
    """Be the first process to be killed if the machine runs out of memory."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:  # noqa: PTH123 - pathlib takes time to load
        score.write("1000")


def unprivileged(user: int) -> None:
    """Become another user for good: root's processes have no limit on their number."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def pipes() -> tuple[int, int]:
    """The two pipe ends that lead outside, separate from standard output: what the notebook prints is discarded."""
    held = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    return held


def main() -> None:
    """Run until the pipe from outside is closed."""
    settings = json.loads(sys.argv[1])
    sys.argv[1:] = []
    if settings["boxed"]:
        expendable()
    limited(settings["limits"])
    if settings["user"]:
        unprivileged(settings["user"])
    sys.path += settings["path"]
    if settings["library"]:
        from tcemu.cuda.nvrtc import main as compile_requests

        compile_requests(settings["library"])
        return
    from tcemu.grade.inside.session import Session

    Session(*pipes(), settings["alone"]).serve()


if __name__ == "__main__":
    main()

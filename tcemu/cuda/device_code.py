"""What of a source is for the device, as NVRTC compiles it: in which dialect, and without what belongs to the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tcemu.cuda import compiler, messages
from tcemu.cuda.headers import HOST, TORCH, beside, for_host, hosts, near
from tcemu.cuda.host_code import Files, Macros, device_side, directives, mentions_device, without_restrict
from tcemu.cuda.nvrtc import Answer, Request
from tcemu.errors import CompilationError

#: What a source is compiled as if it is not C++17.
NEWER = "-std=c++20"
#: What was asked last, the answer, the names of what was left out, the files.
Compiled = tuple[Request, Answer, tuple[str, ...], Files]
#: Parts of C++'s library that g++ brings along with others.
_STD = "-include=tcemu_std.h"
#: What PyTorch builds extensions with: there, a Half becomes a __half in one way only.
_EXTENSION = ("-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__")
#: Times that host code and headers which a source lacks are left out, at most.
_TRIES = 24
#: Answers that are kept, and what was asked: running a cell again costs nothing.
_KEPT = 64
_answers: dict[Any, Answer] = {}


def in_either_dialect(
    source: str, name: str, places: Sequence[Path], flags: tuple[str, ...], *, kept: bool
) -> Compiled:
    """Compile what is for the device: as C++17 or else as C++20, unless the flags name a dialect.

    `places` are folders for what it includes in quotes. `kept` says that an answer to the same question will do. Raises
    CompilationError with the messages of the dialect that fits better.
    """
    ask = _asked if kept else compiler.ask
    if any(re.match(r"--?std=", flag) for flag in flags):
        return _device_code(source, name, places, flags, ask)
    try:
        return _device_code(source, name, places, (*flags, "-std=c++17"), ask)
    except CompilationError as error:
        if not error.verbatim or messages.absent_header(str(error)):
            raise
        try:
            return _device_code(source, name, places, (*flags, NEWER), ask)
        except CompilationError as newer:
            raise (error if _first_line(error) == _first_line(newer) else newer) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _device_code(
    source: str,
    name: str,
    places: Sequence[Path],
    flags: tuple[str, ...],
    ask: Callable[[Request], Answer],
) -> Compiled:
    """Compile what is for the device; host code that NVRTC stumbles over, and headers for it, are left out in turn."""
    text, files = beside(source, places)
    wrong: dict[str, frozenset[int]] = {}
    absent = hosts([text, *(inner for _, inner in files.values())], places)  # each would cost a compilation
    logs: list[str] = []
    for _ in range(_TRIES):
        macros = Macros.of(text, *(inner for _, inner in files.values()))
        side = device_side(text, wrong.get(name, frozenset()), macros)
        sides = {key: device_side(inner, wrong.get(path, frozenset()), macros) for key, (path, inner) in files.items()}
        headers = {key: each.text for key, each in sides.items()}
        request = Request(side.text, name, flags, {**HOST, **headers, **absent})
        answer = ask(request)
        if not answer.failed:
            return request, answer, side.left_out, files
        header = messages.absent_header(answer.log)
        if for_host(header) and header not in absent:
            absent[header] = TORCH
            continue
        logs.append(answer.log)
        if messages.lacks_std(answer.log) and _STD not in flags:
            flags = (*flags, _STD)
            continue
        if TORCH in absent.values() and messages.ambiguous(answer.log) and _EXTENSION[0] not in flags:
            flags = (*flags, *_EXTENSION)
            continue
        if header and header not in absent and (side.left_out or any(each.left_out for each in sides.values())):
            absent[header] = ""
            continue
        if _far(answer.log, name, files, places):
            text, files = beside(source, places, angles=True)
            continue
        if messages.refuses_restrict(answer.log) and (freed := without_restrict(text, files)) != (text, files):
            text, files = freed
            continue
        more = {
            file: messages.wrong_lines(answer.log, called) | messages.wrong_lines(answer.log, file)
            for file, called in _called(name, files)
        }
        grown = {file: wrong.get(file, frozenset()) | lines for file, lines in more.items()}
        if header:
            break
        if messages.gave_up(answer.log) or grown == {file: wrong.get(file, frozenset()) for file in grown}:
            # nothing more can be left out of a file, or it has no end; a header without a device's code can go whole
            whole = [key for key, (path, inner) in files.items() if grown.get(path) and not mentions_device(inner)]
            if not whole and not messages.gave_up(answer.log):
                break
            files |= {key: (path, directives(inner)) for key, (path, inner) in files.items() if key in whole}
            grown = {file: lines for file, lines in grown.items() if file not in {files[key][0] for key in whole}}
        wrong = grown
    for path, called in _called(name, files):
        how = re.compile(rf"^{re.escape(called)}\(", re.MULTILINE)
        logs = [how.sub(lambda _, path=path: f"{path}(", each) for each in logs]  # type: ignore[misc]
    lost = [header for header, text in absent.items() if not text]
    header = messages.absent_header(logs[-1]) or (lost[0] if lost else "")
    there = near(header, places[0] if places else None) if header else None
    advice = f"{header} lies in {there}: include={str(there)!r}" if there else messages.not_found(lost)
    raise messages.error(logs[-1], answer.failed, advice, logs[:-1], source, side.lines)


def _far(log: str, name: str, files: Files, places: Iterable[Path]) -> bool:
    """Whether there are errors in files of the user's folders that the compiler has found by itself."""
    known = {each for pair in _called(name, files) for each in pair}
    others = messages.wrong_files(log) - known
    return any(Path(each).is_relative_to(place) for each in others for place in places)


def _called(name: str, files: Files) -> list[tuple[str, str]]:
    """The source and its own headers: what they are and what NVRTC calls them."""
    return [(name, name), *((path, key) for key, (path, _) in files.items())]


def _asked(request: Request) -> Answer:
    """NVRTC's answer; the same question is asked once."""
    key = request.source, request.name, request.options, tuple(request.headers.items()), request.expressions
    if key not in _answers:
        answer = compiler.ask(request)
        if len(_answers) == _KEPT:
            _answers.clear()
        _answers[key] = answer
    return _answers[key]

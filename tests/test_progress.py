"""The bar that shows how much of the work is done."""

import io
from types import SimpleNamespace

import pytest

import tcemu
from tcemu.errors import GpuUnavailable
from tcemu.progress import Progress, rest


def test_nothing_is_shown_where_nobody_looks(capsys):
    with Progress("seeds", 5) as progress:
        for done in range(6):
            progress.show(done)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    """What was drawn in a terminal in place of standard error."""

    def __init__(self, monkeypatch):
        super().__init__()
        monkeypatch.setattr("sys.stderr", self)
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.delenv("TCEMU_QUIET", raising=False)

    def isatty(self):
        return True


def test_a_launch_shows_its_blocks_and_only_the_outer_of_two_bars_is_shown(monkeypatch):
    """Without patience, as if the launch took long."""
    monkeypatch.setattr("tcemu.machine.launch.PATIENCE", 0.0)

    def kernel(warp):
        warp.bar_sync()

    alone, inside = Terminal(monkeypatch), Terminal(monkeypatch)
    monkeypatch.setattr("sys.stderr", alone)
    tcemu.launch(kernel, grid=40)
    assert "kernel" in alone.getvalue()
    assert "40 of 40 blocks" in alone.getvalue()
    monkeypatch.setattr("sys.stderr", inside)
    with Progress("seeds", 2) as progress:
        progress.show(1)
        tcemu.launch(kernel, grid=40)
    assert "seeds" in inside.getvalue()
    assert "blocks" not in inside.getvalue()


def test_progress_in_a_notebook(monkeypatch):
    shown = []

    class Handle:
        def __init__(self, line, **_):
            self.update(line)

        def update(self, line, **_):
            shown.append(line["text/html"])

    monkeypatch.setattr("tcemu.progress._PAUSE", 0)
    monkeypatch.delenv("TCEMU_QUIET", raising=False)
    monkeypatch.setattr("tcemu.progress.shell", lambda: SimpleNamespace(kernel=True))
    monkeypatch.setattr("IPython.display.display", Handle)
    now = iter([0.0, 40.0, 50.0, 60.0, 80.0])
    monkeypatch.setattr("tcemu.progress.time.monotonic", lambda: next(now))
    with Progress("seeds", 1000) as progress:
        progress.show(1)
        Progress("inside").show(1)
        progress.show(1000)
    assert shown == [
        '<label>seeds: 1 of 1,000, about 11 h left <progress value="1" max="1000"></progress></label>',
        '<label>seeds: 1,000 of 1,000 <progress value="1000" max="1000"></progress></label>',
        "",
    ]


def test_how_long_the_rest_takes():
    words_of = {1: "1 s", 89.6: "90 s", 100: "2 min", 5400: "90 min", 5500: "2 h", 170_000: "47 h", 200_000: "2 days"}
    for seconds, words in words_of.items():
        assert rest(seconds) == words


def test_a_bar_in_a_terminal_says_what_is_done_and_is_taken_away(monkeypatch):
    terminal = Terminal(monkeypatch)
    with Progress("comparing", unit="cases") as progress:
        progress.show(3, 1700, note="3 [of] them new")
    drawn = terminal.getvalue()
    assert "comparing" in drawn
    assert "3 of 1,700 cases" in drawn
    assert "3 [of] them new" in drawn
    assert drawn.rstrip().endswith("\x1b[2K"), "the line is erased"


def test_no_bar_is_drawn_before_work_begins(monkeypatch):
    terminal = Terminal(monkeypatch)
    with pytest.raises(GpuUnavailable), Progress("comparing", 7):
        raise GpuUnavailable
    assert terminal.getvalue() == ""


def test_a_bar_waits_before_it_appears(monkeypatch):
    terminal = Terminal(monkeypatch)
    with Progress("seeds", 5, patience=3600) as progress:
        progress.show(1)
        assert terminal.getvalue() == ""
        progress._next = 0
        progress.show(2)
    assert "2 of 5" in terminal.getvalue()


def test_quiet_is_quiet(monkeypatch):
    terminal = Terminal(monkeypatch)
    monkeypatch.setenv("TCEMU_QUIET", "1")
    with Progress("seeds", 5) as progress:
        progress.show(3)
    assert terminal.getvalue() == ""

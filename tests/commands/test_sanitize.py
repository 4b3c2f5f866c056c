"""tcemu sanitize: its output and files, its exit codes, and its errors for scripts that it cannot run."""

import json
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from tcemu.cli import commands
from tcemu.commands.sanitize import sanitize
from tcemu.errors import TcemuError

FILE = """
import numpy as np
import tcemu


def racing(warp):
    warp.st_shared(4 * warp.threads, warp.threads)
    warp.ld_shared(4 * (63 - warp.threads))  # the race


def early(warp, out):
    if warp.warpid:
        while (warp.ld_global(out.at(1), order="acquire") == 0).any():
            warp.nanosleep(20)
        warp.st_global(out.at(2), warp.ld_global(out.at(0), order="relaxed"))
    else:
        with warp.only(warp.laneid == 0):
            warp.st_global(out.at(1), 1, order="release")
            warp.st_global(out.at(0), 7, order="relaxed")  # too late


def wrong(warp):
    warp.bar_sync(77)


def outside(warp):
    warp.ld_shared(4096 + 4 * warp.threads)


def endless(warp, out):
    while (warp.atom_global("add.u32", out.at(0), 1) >= 0).all():
        pass


def turning(warp, out):
    warp.st_shared(4 * warp.threads, warp.threads)
    warp.bar_sync()
    warp.st_global(out.at(warp.threads), warp.ld_shared(4 * (63 - warp.threads)))


def good():
    out = np.zeros(64, np.uint32)
    for _ in range(2):
        tcemu.launch(turning, block=64, args=(out,), shared=256)
        assert (out == np.arange(64)[::-1]).all(), "the function goes on with the results"


def race():
    tcemu.launch(racing, block=64, shared=256)


def rare():
    tcemu.launch(early, block=64, args=(np.zeros(3, np.uint32),))


def fault():
    tcemu.launch(outside, block=32, shared=256)


def race_and_misuse():
    tcemu.launch(lambda warp: (racing(warp), warp.warpid and wrong(warp)), block=64, shared=256)


def misuse():
    tcemu.launch(wrong)
    raise RuntimeError("not reached")


def livelock():
    tcemu.launch(endless, args=(np.zeros(1, np.uint32),))


def twice():
    race()
    rare()
    race()


def never():
    tcemu.launch(racing, block=1 << 20)


def nothing():
    pass
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    return path


def line(mark):
    (found,) = [number for number, text in enumerate(FILE.splitlines(), 1) if text.endswith(f"# {mark}")]
    return found


def sanitized(name, *more):
    return CliRunner().invoke(commands, ["sanitize", f"kernels.py:{name}", *map(str, more)])


def test_a_clean_kernel(file):
    done = sanitized("good", "--budget", 6)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("1. turning: clean; searched: all 4 orders without a delay; 1 of ")
    assert lines[1] == "2. turning: clean; searched: with an earlier launch"
    assert lines[2] == "2 launches, 0 with errors"


def test_a_report_fails(file):
    done = sanitized("race")
    assert done.exit_code == 1, done.output
    assert done.output.startswith("1. racing: error\n  error shared-race: a race in shared memory between warps\n")
    assert f"kernels.py:{line('the race')} in racing" in done.output


@pytest.mark.slow
def test_the_search_finds_what_the_policies_do_not(file):
    done = sanitized("rare", "--seeds", 1)
    assert done.exit_code == 1, done.output
    assert "error result-depends-on-order: argument 0 at [2] is np.uint32(7) under late" in done.output
    assert 'to reproduce it: tcemu.launch(..., schedule="late 0.0@2")' in done.output
    assert sanitized("rare", "--seeds", 1, "--budget", 0).exit_code == 0, "without a search"


def test_errors_of_kernels(file):
    done = sanitized("fault")
    assert done.exit_code == 1
    assert "4096" in done.output
    done = sanitized("misuse")
    assert done.exit_code == 1, done.output
    told = "error launch-error: OperandError: bar.sync: a block has barriers 0 to 15; got 77"
    assert told in done.output
    done = sanitized("race_and_misuse")
    assert done.exit_code == 1, done.output
    assert done.output.index("error shared-race") < done.output.index(told), "a report and an error: both are told"


def test_a_kernel_without_an_end_fails(file):
    done = sanitized("livelock", "--operations", 2000)
    assert done.exit_code == 1, done.output
    assert "Unending: warp 0 of block 0 has executed more than 2,000 operations" in done.output
    assert "to reproduce it: tcemu.launch(..., seed=0, operations=2000)" in done.output


def test_repeats_are_told_once(file):
    done = sanitized("twice", "--seeds", 1)
    assert done.exit_code == 1
    assert done.output.count("fix: ") == 1
    assert "3. racing: error\n  error shared-race: a race in shared memory between warps, as above" in done.output
    assert done.output.endswith("3 launches, 3 with errors\n")


# ------------------------------------------------------------------------------------------------ files

#: What SARIF 2.1.0 demands of the objects that tcemu writes: the required and the other properties (OASIS Standard,
#: 27 March 2020, 3.13 to 3.49). Its schema allows no others.
SARIF = {
    "log": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"results", "columnKind"}),
    "driver": ({"name"}, {"version", "rules"}),
    "rule": ({"id"}, {"shortDescription", "fullDescription", "help", "defaultConfiguration"}),
    "result": ({"message"}, {"ruleId", "ruleIndex", "level", "locations", "relatedLocations", "properties"}),
    "location": (set(), {"id", "physicalLocation", "logicalLocations", "message"}),
    "physicalLocation": (set(), {"artifactLocation", "region"}),
}


def obeys(kind, thing):
    required, others = SARIF[kind]
    assert required <= set(thing) <= required | others, kind


def test_sarif(file):
    sanitized("twice", "--seeds", 1, "--sarif", "out.sarif")
    log = json.loads((file.parent / "out.sarif").read_text())
    obeys("log", log)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    obeys("run", run)
    assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}
    driver = run["tool"]["driver"]
    obeys("driver", driver)
    assert [rule["id"] for rule in driver["rules"]] == ["shared-race", "result-depends-on-order"]
    for rule in driver["rules"]:
        obeys("rule", rule)
        assert rule["shortDescription"]["text"]
    race, result = run["results"]
    for each in run["results"]:
        obeys("result", each)
        assert driver["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        assert each["level"] in {"none", "note", "warning", "error"}
        assert each["message"]["text"]
        for place in (*each["locations"], *each.get("relatedLocations", ())):
            obeys("location", place)
            obeys("physicalLocation", place["physicalLocation"])
            assert place["physicalLocation"]["region"]["startLine"] >= 1
    (place,) = race["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "kernels.py"},
        "region": {"startLine": line("the race")},
    }
    assert place["logicalLocations"] == [{"name": "racing"}]
    assert race["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == line("the race") - 1
    assert result["properties"]["replay"] == 'tcemu.launch(..., schedule="late 0.0@2")'


def test_junit(file):
    sanitized("twice", "--seeds", 1, "--junit", "out.xml")
    suites = ElementTree.parse(file.parent / "out.xml").getroot()  # noqa: S314 - tcemu has just written it
    (suite,) = suites
    assert (suites.tag, suite.tag) == ("testsuites", "testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "3", "0")
    cases = list(suite)
    assert [case.get("name") for case in cases] == ["racing (launch 1)", "early (launch 2)", "racing (launch 3)"]
    assert {case.get("classname") for case in cases} == {"kernels.py:twice"}
    assert all(float(case.get("time")) >= 0 for case in cases)
    failure = cases[0].find("failure")
    assert failure.get("type") == "shared-race"
    assert failure.get("message") == "a race in shared memory between warps"
    assert "fix: " in failure.text
    assert 'schedule="late 0.0@2"' in cases[1].find("failure").text


def test_hints_do_not_fail(file):
    done = sanitized("good", "--budget", 0, "--junit", "out.xml", "--sarif", "out.sarif")
    assert done.exit_code == 0
    (suite,) = ElementTree.parse(file.parent / "out.xml").getroot()  # noqa: S314 - likewise
    assert suite.get("failures") == "0"
    assert json.loads((file.parent / "out.sarif").read_text())["runs"][0]["results"] == []


# ------------------------------------------------------------------------------------------------ what it cannot do


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (["rare"], "does not name a function in a file; write FILE:FUNCTION"),
        (["kernels.py:rar"], "has no function rar. Did you mean 'rare'"),
        (["kernels.py:racing"], r"racing takes warp; tcemu sanitize needs .* def run\(\): tcemu.launch\(racing, "),
        (["kernels.py:nothing"], "did not launch a kernel"),
        (["kernels.py:never"], "block must be one to three numbers"),
        (["kernels.py:race", "--policies", "late,soon"], "policy must be 'early', 'late' or 'random'; got 'soon'"),
        (["kernels.py:race", "--sarif", "no/out.sarif"], "cannot write"),
    ],
)
def test_it_says_what_it_cannot_do(file, what, told):
    with pytest.raises(TcemuError, match=told):
        sanitize.main(what, standalone_mode=False)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("k.cubin", "", "k.cubin is machine code, which tcemu does not read"),
        ("k.ipynb", "{}", "k.ipynb is a notebook: write its cells to a Python file"),
        ("k.py", "x = 1\nusing namespace nvcuda;", "k.py is not Python in line 2: invalid syntax"),
    ],
)
def test_a_file_of_another_language_is_answered_in_a_sentence(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(TcemuError, match=told):
        sanitize.main([f"{tmp_path / name}:gemm"], standalone_mode=False)

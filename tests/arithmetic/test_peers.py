"""Other models of tensor cores as witnesses: what they answered, and where they are installed, what they answer."""

import json
import secrets
from importlib.util import find_spec

import pytest
from dots import compute_dots, dots
from peers import PEERS, RECORDED, differences, digest, version_of
from quick import spread, turn

import tcemu
from tcemu.instructions import target_named

FILES = {path.stem: json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json"))}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.slow
def test_what_the_peer_answered(row, name):
    provenance, answers = FILES[name]["provenance"], FILES[name]["answers"]
    peer = PEERS[name.split("-")[0]]
    for case, answered in spread(answers.items(), 4, turn(4)):
        with row(case):
            target, opcode = case.split("|")
            instruction = tcemu.parse(opcode, target=target)
            operation = instruction.operation(target_named(target))
            assert set(answered) == set(peer.kinds(instruction))
            wrong = []
            for kind, expected in answered.items():
                given = peer.asked(instruction, dots(instruction, kind, provenance["series"], provenance["count"]))
                if digest(peer.told(instruction, compute_dots(operation, *given))) != expected:
                    wrong.append(kind)
            assert not wrong, f"{peer.about} {provenance['version']} answers otherwise"


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_peer_says_what_it_is(name):
    provenance = FILES[name]["provenance"]
    assert name == f"{name.split('-')[0]}-{provenance['version']}"
    assert {"about", "version", "series", "count", "packages"} <= set(provenance)
    assert provenance["about"] == PEERS[name.split("-")[0]].about


def installed():
    """The peers that are packages, skipped where they are not installed."""
    for name in PEERS:
        reason = f"{name} is not installed; the extra `peers` has it"
        absent = pytest.mark.skipif(find_spec(name) is None, reason=reason)
        if name != "octave":
            yield pytest.param(name, marks=[pytest.mark.slow, absent])


@pytest.mark.parametrize("name", list(installed()))
def test_the_peer_on_fresh_inputs(row, name):
    """Every instruction both have and every class, on inputs that nobody has seen."""
    peer, failed, series = PEERS[name], {}, secrets.token_hex(4)
    for case, kind, _, answered, ours in differences(peer, series, 64):
        failed.setdefault(case, []).extend([kind] * int((answered != ours).any()))
    for case, kinds in failed.items():
        with row(case):
            assert not kinds, f"{name} {version_of(peer)} answers otherwise to the series {series}"

"""Runs of bytes that copies access, against sets of bytes."""

import numpy as np

from tcemu.sanitizer.spans import Runs, Span, Spans

RANDOM = np.random.default_rng(7)


def spans_of(addresses, size):
    return {int(address) + byte for address in addresses for byte in range(size)}


def test_runs_are_the_bytes(row):
    for trial in range(60):
        with row(trial):
            size = int(RANDOM.integers(1, 9))
            places = RANDOM.integers(0, 400 // size, RANDOM.integers(1, 30))
            addresses = size * places  # in any order, some twice
            runs, there = Runs.of(addresses, size), spans_of(addresses, size)
            held = {byte for first, end in zip(runs.first, runs.end, strict=True) for byte in range(first, end)}
            assert held == there
            assert (runs.first[1:] > runs.end[:-1]).all(), "runs that touch are one"
            assert set(runs.units(16).tolist()) == {byte // 16 for byte in there}
            first, width = RANDOM.integers(0, 420, 50), int(RANDOM.integers(1, 20))
            expected = [not there.isdisjoint(range(at, at + width)) for at in first.tolist()]
            assert runs.touched(first, first + width).tolist() == expected


def test_spans_are_found_by_their_bytes():
    spans = Spans()
    for number in range(100):
        spans.add(Span(None, number, Runs.of(np.arange(64 * number, 64 * number + 32), 1)))
    assert len(spans) == 100
    assert [span.lane for span in spans.between(64, 200)] == [1, 2, 3]
    assert [span.lane for span in spans.between(96, 128)] == []
    assert spans.between(10_000, 20_000) == []


def test_the_oldest_spans_are_forgotten(monkeypatch):
    monkeypatch.setattr("tcemu.sanitizer.spans._MOST", 8)
    spans = Spans()
    for number in range(20):
        spans.add(Span(None, number, Runs.of(np.array([16 * number]), 16)))
    assert len(spans) <= 8
    assert [span.lane for span in spans.between(16 * 19, 16 * 20)] == [19]
    assert spans.between(0, 16) == []

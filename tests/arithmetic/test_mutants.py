"""Every number of the arithmetic table is held by a recorded answer, or its row says that it is not."""

import pytest
from mutants import evidence, label, names_of, shown_by


@pytest.mark.slow
def test_every_change_of_a_row_is_seen_by_some_recording(row):
    """Fraction bits, blocks, floors, rounding and the rest, each changed a little: an input shows it, or none could."""
    for held, found in evidence().items():
        if found and held.known != "silicon":  # golden files of sm_90 are replayed whole; mutants.py asks them too
            with row(label(held)):
                unseen = [name for name in names_of(held) if not shown_by(held, name)]
                assert not unseen, "no recorded input tells these from the row"


def test_a_row_without_recordings_says_what_it_rests_on():
    """It is inferred, or computes as a recorded row of mma.sync (wmma is the same HMMA), or its note says it."""
    recorded = {(held.architectures, held.model) for held, found in evidence().items() if found}
    for held, found in evidence().items():
        if not found and held.known != "inferred":
            same = (held.architectures, held.model) in recorded
            assert same or "rest on" in held.note, label(held)


def test_a_changed_row_is_told():
    """The check can fail: what no instruction of the row has is shown by nobody."""
    held, _ = next((held, found) for held, found in evidence().items() if found and 75 in held.architectures)
    assert "mmasim" in shown_by(held, "fraction +1")
    assert not shown_by(held, "no such change")

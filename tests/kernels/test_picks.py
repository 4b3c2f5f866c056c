"""A table picks the words that it was made for, one by one or by permutations of whole vectors."""

import numpy as np
import pytest
from rows import rows

import tcemu

pytest.importorskip("numba")

from tcemu.kernels import picks
from tcemu.kernels.lanes import WIDTH, whole_vectors_of_words


def picked(table, words):
    """What a kernel selects by a table, as its docstring says."""
    _, together, units, half, twice = (int(each) for each in table[:5])
    if not together:
        return words[table[picks.HEADER :]]
    stages = together.bit_length() - 1
    taken, every, starts = np.split(table[picks.HEADER :], [WIDTH, WIDTH * (1 + 2 * stages)])
    loaded = [words[start:][taken if half else np.arange(WIDTH)] for start in starts]
    made = np.array(loaded).reshape(units, together, WIDTH)
    for stage, (even, odd) in enumerate(every.reshape(stages, 2, WIDTH)):
        groups = made.reshape(units, -1, 2, 1 << stage, WIDTH)
        both = np.concatenate([groups[:, :, 0], groups[:, :, 1]], axis=-1)
        made = np.stack([both[..., even], both[..., odd]], axis=-2).reshape(units, together, WIDTH)
    return np.repeat(made, 1 + twice)


def layouts():
    """The words that instructions pick: by the layouts, as vectors along m."""
    for shape, types in (("m16n8k16", "f32.f16.f16.f32"), ("m16n8k8", "f32.tf32.tf32.f32")):
        mma = tcemu.parse(f"mma.sync.aligned.{shape}.row.col.{types}")
        for role in "ac":
            fragment = mma.fragments[role]
            words = fragment.places[0].reshape(fragment.shape).T
            yield words[:: fragment.elements_per_register].ravel() if role == "a" else words.ravel()
    # wmma's fragments of f16 have every element twice
    wmma = tcemu.parse("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32", target="sm_90a")
    wmma = wmma.on(tcemu.instructions.target_named("sm_90a"))
    yield wmma.fragments["b"].places[0].reshape(8, 2, 16)[:, 0].ravel()
    # two columns of Volta's B lie in a word
    volta = tcemu.parse("mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32")
    yield volta.fragments["b"].places[0]


def others():
    """Words in any order, repeated ones, those of parts of vectors, and of so many vectors that a gather is better."""
    rng = np.random.default_rng(0)
    yield np.arange(WIDTH)
    yield rng.permutation(128)
    yield rng.integers(0, 128, 64)
    yield np.arange(0, 128, 2)
    yield np.arange(40)
    yield np.arange(1024).reshape(64, 16).T.ravel()
    yield np.arange(48).reshape(16, 3).T.ravel()
    yield 7 + np.arange(64).reshape(16, 4).T.ravel()


@rows("number words", enumerate([*layouts(), *others()]), ids=lambda number, words: f"{number}: {words.size} words")
def test_a_table_picks_its_words(number, words):
    held = np.random.default_rng(1).integers(0, 1 << 32, words.max() + 1, dtype=np.uint64)
    assert np.array_equal(picked(picks.picks(words), held), held[words])


@pytest.mark.skipif(not whole_vectors_of_words(), reason="the processor permutes no vectors of 16 words")
def test_layouts_are_picked_by_networks():
    for words in layouts():
        assert picks.picks(words)[1] > 0


def test_a_network_reads_no_word_beyond_those_that_it_picks():
    for words in (*layouts(), *others()):
        table = picks.picks(words)
        _, together, _, half = table[:4]
        if together:
            starts = table[picks.HEADER + WIDTH * (2 * int(together).bit_length() - 1) :]
            assert starts.max() + WIDTH * (1 + half) <= picks.words_read(words)

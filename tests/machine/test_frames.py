"""Copies of frames, which tell where a warp waits when its own must not be read: in a browser."""

import sys

from tcemu.machine.sites import frames


def outer(function):
    return function()


def test_a_copy_has_the_lines_of_the_frames():
    def inner():
        frame, copy = sys._getframe(), frames(sys._getframe())
        while frame is not None:
            assert (copy.f_code, copy.f_lasti > 0) == (frame.f_code, frame.f_lasti > 0)
            if frame.f_code is not inner.__code__:  # its own goes on meanwhile
                assert (copy.f_lasti, copy.f_lineno) == (frame.f_lasti, frame.f_lineno)
            frame, copy = frame.f_back, copy.f_back
        return copy

    assert outer(lambda: [inner() for _ in range(2)]) == [None, None]

"""Grading: student code runs in a box that holds nothing else, and its answers are marked outside, as plain data."""

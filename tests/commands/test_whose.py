"""`tcemu whose`, in this process."""

import numpy as np
import pytest
from click.testing import CliRunner

from tcemu.cli import commands
from tcemu.recipes import Recipe, multiply, probe

BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


def asked(*arguments):
    return CliRunner().invoke(commands, ["whose", *map(str, arguments)])


@pytest.mark.slow
def test_a_file_with_the_bytes_of_bf16_is_explained(tmp_path):
    a, b = probe("bf16", 64, 64, 80)
    d = multiply(Recipe(BF16, splits=2, size=48), a, b)
    raw = {name: np.ascontiguousarray(x).view(np.uint8) for name, x in (("a", a), ("b", b), ("d", d))}
    np.savez(tmp_path / "p.npz", **raw, types="torch.bfloat16 torch.bfloat16 torch.float32")
    told = asked(tmp_path / "p.npz", "--svg", tmp_path / "p.svg")
    assert told.exit_code == 0, told.output
    assert "    16: joined by k = 1-15\n" in told.output
    assert f"  {BF16} sm_90a splits=2 size=48\n" in told.output
    assert (tmp_path / "p.svg").read_text().startswith("<svg")


def test_bits_of_nobody_end_with_1(tmp_path):
    a = np.arange(64, dtype=np.float16).reshape(8, 8)
    np.savez(tmp_path / "p.npz", a=a, b=a, d=np.zeros((8, 8), np.float32))
    told = asked(tmp_path / "p.npz")
    assert told.exit_code == 1
    assert "No recipe gives these bits. The nearest:" in told.output


def test_a_file_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / "p.npz", a=np.ones(3))
    told = asked(tmp_path / "p.npz")
    assert str(told.exception) == f"{tmp_path / 'p.npz'} has no b and d; it has a"
    (tmp_path / "q.npz").write_text("no archive")
    assert "is not an .npz file" in str(asked(tmp_path / "q.npz").exception)
    np.save(tmp_path / "one.npy", np.ones(3))
    assert "numpy.savez(FILE, a=A, b=B, d=D)" in str(asked(tmp_path / "one.npy").exception)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "p.npz").read_bytes()[:-30])
    assert "is not an .npz file" in str(asked(tmp_path / "cut.npz").exception)
    one = np.ones((2, 2), np.uint8)
    np.savez(tmp_path / "r.npz", a=one, b=one, d=one, types="float16 float17 float32")
    assert "types must be three of" in str(asked(tmp_path / "r.npz").exception)


def test_the_code_is_printed():
    assert "jnp.bfloat16" in asked("--code", "jax", "--type", "bf16").output
    assert "there is code for" in str(asked("--code", "numpy").exception)

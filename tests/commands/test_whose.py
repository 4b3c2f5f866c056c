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


@pytest.mark.slow
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


@pytest.mark.slow
def test_names_in_capitals_are_those_of_the_readme(tmp_path):
    a = np.arange(64, dtype=np.float16).reshape(8, 8)
    d = multiply(Recipe(BF16.replace("bf16", "f16")), a, a)
    np.savez(tmp_path / "p.npz", A=a, B=a, D=d)
    told = asked(tmp_path / "p.npz")
    assert told.exit_code == 0, told.output
    np.savez(tmp_path / "q.npz", A=a, a=a, B=a, D=d)
    says = "has A and a, and case does not count here: which is A? Save the file with one of them"
    assert says in str(asked(tmp_path / "q.npz").exception)


@pytest.mark.slow
def test_a_file_with_scales_and_a_bias_is_explained(tmp_path):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 64), (64, 16)))
    more = {
        "scale_a": rng.uniform(1e-3, 2e-3, (16, 1)).astype(np.float32),
        "scale_b": rng.uniform(0.5, 1, (1, 16)).astype(np.float32),
        "bias": np.arange(16, dtype=np.float32),
        "scale_d": 4.0,
    }
    sums = a.astype(int) @ b.astype(int)
    right = 4 * (more["scale_a"].astype(float) * more["scale_b"] * sums + more["bias"])
    recipe = Recipe("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", output="s8")
    d = multiply(recipe, a, b, **more)
    assert np.abs(np.clip(right, -128, 127) - d).max() <= 0.5 + 1e-4
    np.savez(tmp_path / "p.npz", A=a, B=b, D=d, **more)
    assert asked(tmp_path / "p.npz").exit_code == 0
    raw = more["bias"].astype(np.float16).view(np.uint8)
    np.savez(tmp_path / "p.npz", A=a, B=b, D=d, **more | {"bias": raw}, types="int8 int8 int8 bias=float16")
    assert asked(tmp_path / "p.npz").exit_code == 0


def test_the_code_is_printed():
    assert "jnp.bfloat16" in asked("--code", "jax", "--type", "bf16").output
    assert "there is code for" in str(asked("--code", "numpy").exception)
    assert "torch._int_mm(A, B)" in asked("--code", "torch", "--type", "s8").output
    for scale in ("tensor", "row", "block"):
        program = asked("--code", "torch", "--type", "e4m3", "--scale", scale).output
        assert "torch._scaled_mm(A, B, scale_a=scale_a, scale_b=scale_b" in program
        compile(program, scale, "exec")
    assert "for torch's products of e4m3 or e5m2" in str(asked("--code", "jax", "--scale", "row").exception)
    assert "torch's matrices must have elements of" in str(asked("--code", "torch", "--type", "u8").exception)

"""The process that holds the GPU: what may be missing, what goes wrong on a GPU, and that the next call works."""

import subprocess
import sys

import fake_gpus
import numpy as np
import pytest
from fake_gpus import MMA
from quick import some

from tcemu import live
from tcemu.errors import CompilationError, GpuError, GpuUnavailable
from tcemu.live.process import client, device, troubles

PIP = "in the clone of tcemu run: python3 -m pip --python .venv install"
#: As the README writes it.
INSTALL = f'{PIP} -c requirements.lock -e ".[gpu]"'
UPGRADE, TWELVE = f'{PIP} --upgrade -e ".[gpu]"', f'{PIP} -e ".[gpu]" "cuda-bindings==12.*" "cuda-toolkit==12.*"'

# ------------------------------------------------------------------------------------------------ what is missing


def test_importing_live_loads_nothing_of_cuda():
    probe = "import tcemu.live, sys; print([name for name in sys.modules if name.split('.')[0] in ('cuda', 'cupy')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    probe = "import tcemu, sys; print('tcemu.live' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_the_packages_it_says_which_extra(monkeypatch):
    monkeypatch.setattr(device, "_installed", lambda module: module != "cuda.core")
    monkeypatch.setattr(client, "current", lambda: pytest.fail("a process was started"))
    assert live.available() is False
    assert live.why_not() == f"cuda-core is not installed; {troubles.INSTALL}"
    for ask in (lambda: live.run(MMA), lambda: live.compare(MMA), lambda: live.cuda("", "f", 1, 1)):
        with pytest.raises(GpuUnavailable, match=r"-c requirements.lock -e \"\.\[gpu\]\""):
            ask()


def test_what_installs_the_extra_depends_on_how_tcemu_was_installed(tmp_path):
    requires = ["numpy>=2.1", "cuda-core>=0.3; (sys_platform != 'darwin') and extra == 'gpu'", "ruff; extra == 'test'"]
    elsewhere = troubles.commands(tmp_path, tmp_path / ".venv", requires)
    assert elsewhere[0].endswith(' install "cuda-core>=0.3"')
    assert all("tcemu[" not in each and "lock" not in each and "-e" not in each.split() for each in elsewhere)
    (tmp_path / "requirements.lock").touch()
    assert troubles.commands(tmp_path, tmp_path / ".venv", [])[:3] == (INSTALL, UPGRADE, TWELVE)
    elsewhere = troubles.commands(tmp_path, tmp_path / "env", [])[0]
    assert elsewhere == INSTALL.replace(".venv", str(tmp_path / "env"))


MISSING = {
    "no_driver": "NVIDIA's driver is not installed, or this process does not find it (libcuda.so.1 not found)",
    "no_device": "the driver is installed, but it finds no GPU: is CUDA_VISIBLE_DEVICES set",
    "too_old_a_device": "Tesla P100 has compute capability 6.0; tensor cores came with 7.0",
    "too_new_a_device": "NVIDIA X1 has compute capability 99.0, which this version of tcemu does not know",
    "ends_at_once": "the process that holds the GPU ended unexpectedly (exit code 3)",
}


@pytest.mark.slow
@pytest.mark.parametrize(("card", "message"), some(MISSING.items(), 2), ids=some(MISSING, 2), indirect=["card"])
def test_what_is_missing_is_reported(card, message):
    assert live.why_not().startswith(message)
    assert live.available() is False
    fake_gpus.RUNNING.clear()


@pytest.mark.slow
def test_the_real_worker_without_a_driver(monkeypatch):
    """If NVIDIA's packages or the driver are missing, the process reports that and ends."""
    fake_gpus.RUNNING.clear()
    monkeypatch.setattr(device, "_installed", lambda _module: True)
    client.close()
    if not live.available():
        # tests/cuda is found as a package of the name cuda, too
        assert "driver" in live.why_not() or "No module named 'cuda" in live.why_not()
    client.close()


@pytest.mark.parametrize("name", sorted(troubles._SENTENCES))
def test_every_trouble_has_a_sentence(name):
    told = troubles.in_words(name, 2.0)
    assert len(told) > 25
    assert "{" not in told
    assert told.endswith(f"({name})") == name.startswith("CUDA_")
    assert troubles.after(told).endswith(troubles.AFTERWARDS)


def test_an_error_without_a_sentence_keeps_its_name():
    assert troubles.in_words("CUDA_ERROR_NEW") == "the driver reports an error (CUDA_ERROR_NEW)"
    assert troubles.missing(["a", "b"]) == f"a and b are not installed; {troubles.INSTALL}"


# ------------------------------------------------------------------------------------------------ what goes wrong

TROUBLE = {
    "hang": (GpuError, r"did not finish within 0\.5 s and was stopped: .* never reach\? Your session continues"),
    "illegal_address": (GpuError, r"an address outside every array; .*CUDA_ERROR_ILLEGAL_ADDRESS\)\. Your session"),
    "illegal_instruction": (GpuError, r"CUDA_ERROR_ILLEGAL_INSTRUCTION\)\. Your session continues"),
    "crash": (GpuError, r"ended unexpectedly \(exit code 7\)\. Your session continues"),
    "deaf": (GpuError, r"did not answer within .* s and was stopped\. Your session continues"),
    "syntax": (CompilationError, r'1 error:\nline 2: error: identifier "y" is undefined\n    x\[0\] = y;'),
}


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
@pytest.mark.parametrize("name", some(TROUBLE, 3))
def test_trouble_is_reported_and_the_next_call_works(card, name, monkeypatch):
    monkeypatch.setattr(client, "AROUND", 2.0)
    error, message = TROUBLE[name]
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(error, match=message):
        live.cuda("__global__ void f(float* x) {\n    x[0] = y;\n}", name, 1, 1, x, seconds=0.5)
    live.cuda("", "twice", 1, 1, x)
    assert x.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_an_interrupt_stops_the_kernel_too(card, monkeypatch):
    worker = client.current()

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_next", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.cuda("", "deaf", 1, 1)
    assert not worker.alive
    live.cuda("", "twice", 1, 1, np.zeros(1))


@pytest.mark.parametrize("card", ["Troubled"], indirect=True)
def test_what_a_kernel_prints_is_printed(card, capsys):
    for _ in range(2):
        live.cuda("", "says", 1, 1)
        assert capsys.readouterr().out == "hello from a thread\n"

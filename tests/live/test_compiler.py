"""CUDA C++ for any card: which NVRTC fits it, the error for a missing header, and NVRTC itself, if it is installed."""

import sys
from types import SimpleNamespace

import pytest

from tcemu.live import Device
from tcemu.live.process.job import Failed, Job
from tcemu.live.process.troubles import INSTALL, TWELVE, UPGRADE, unfit
from tcemu.live.runner.cuda import explained, header

#: What nvrtcGetSupportedArchs answers in these versions.
OLD = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90)
NEW = (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)
FITS = [("Tesla T4", (7, 5)), ("NVIDIA A100-SXM4-40GB", (8, 0)), ("NVIDIA L4", (8, 9)), ("NVIDIA H200", (9, 0))]
UNFIT = {
    ("Tesla V100", (7, 0), 13000, (13, 5), NEW): "NVRTC 13.5 no longer compiles for Tesla V100, which has compute "
    f"capability 7.0; NVRTC 12 does: {TWELVE}",
    ("NVIDIA B200", (10, 0), 12080, (12, 4), OLD): "NVRTC 12.4 does not yet compile for NVIDIA B200, which has compute "
    f"capability 10.0; {UPGRADE}",
    ("Tesla T4", (7, 5), 12040, (13, 5), NEW): "NVRTC 13.5 compiles for drivers of CUDA 13, and this one is for CUDA "
    f"12.4: update the driver, or {TWELVE}",
}


@pytest.mark.parametrize(("name", "capability"), FITS)
def test_an_nvrtc_that_fits_the_card_and_its_driver(name, capability):
    assert unfit(name, capability, 13000, (13, 5), NEW) == ""
    assert unfit(name, capability, 12040, (12, 4), OLD) == ""
    assert unfit(name, capability, 13000, (12, 4), OLD) == ""


def test_volta_has_an_nvrtc_too():
    assert unfit("Tesla V100", (7, 0), 13000, (12, 4), OLD) == ""


@pytest.mark.parametrize(("case", "message"), UNFIT.items())
def test_an_nvrtc_that_does_not_fit_is_reported(case, message):
    assert unfit(*case) == message


def test_a_missing_nvrtc_is_reported(monkeypatch):
    from tcemu.live.process import compiler

    def absent():
        raise RuntimeError("Failed to dlopen libnvrtc.so.13.\nTraceback")

    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", SimpleNamespace(nvrtcVersion=absent))
    with pytest.raises(Failed, match=r"NVRTC, .* does not load \(Failed to dlopen libnvrtc\.so\.13\); in the clone"):
        compiler.compiled(None, T4, job(""))


HEADERS = {
    "crt/mma.h": f"<crt/mma.h> comes with the extra `gpu`; {INSTALL}; for CUDA 12, ",
    "cstdio": "NVRTC has no standard library, so there is no <cstdio>: printf and assert need no header",
    "stdint.h": "NVRTC has no standard library, so there is no <stdint.h>",
    "mma.h": f"CUDA's headers come with the extra `gpu`; {INSTALL}; options=",
    "cuda/barrier": "CUDA's headers come with",
}


@pytest.mark.parametrize(("name", "message"), HEADERS.items(), ids=HEADERS)
def test_a_header_that_is_not_there(name, message):
    assert header(name).startswith(message)
    log = f'kernel.cu(1): catastrophic error: cannot open source file "{name}"\n  #include <{name}>\n'
    text = explained(f"#include <{name}>", "f", log)
    assert text.startswith(f'the source does not compile, 1 error:\nline 1: error: cannot open source file "{name}"\n')
    assert text.endswith(header(name))


def test_an_error_inside_a_header_names_the_header():
    log = '/there/mma.h(55): catastrophic error: cannot open source file "crt/mma.h"\n    #include "crt/mma.h"\n'
    text = explained("#include <mma.h>", "f", log)
    assert '1 error:\n/there/mma.h, line 55: error: cannot open source file "crt/mma.h"\n<crt/mma.h> comes' in text


# ------------------------------------------------------------------------------------------ NVRTC needs no GPU

T4 = Device("Tesla T4", (7, 5), 13000, "", 65536)
SOURCE = 'template <int n> __global__ void f(float* x) { x[threadIdx.x] *= n * N; printf("%f", x[0]); }'


def job(source, kernel="f<3>"):
    return Job("c++", source, kernel, (1,), (1,), (), options=("-DN=2",))


@pytest.fixture(scope="module")
def compile_for():
    """The real compiler for a card, or a skip: the extra `gpu` is needed, a GPU is not."""
    try:
        from tcemu.live.process import compiler, gpu

        core, (_, chips) = gpu._core(), compiler._nvrtc()
    except (ImportError, Failed) as missing:
        pytest.skip(f"NVRTC is not here: {missing}")

    def compiled(capability, source, name="f<3>"):
        return compiler.compiled(core, Device("card", capability, 13000, "", 65536), job(source, name))

    try:
        compiled((8, 0), SOURCE)
    except Exception as needs:  # noqa: BLE001 - each version has errors of its own
        pytest.skip(f"this cuda-core compiles only beside a driver: {needs}")
    return chips, compiled


@pytest.mark.parametrize("capability", [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)], ids=str)
def test_nvrtc_compiles_for_every_card_that_it_knows(compile_for, capability):
    chips, compiled = compile_for
    if capability[0] * 10 + capability[1] in chips:
        assert len(compiled(capability, SOURCE).code) > 1000
    else:
        with pytest.raises(Failed, match=r"NVRTC .* (does not yet compile|no longer compiles) for card"):
            compiled(capability, SOURCE)


@pytest.mark.parametrize("name", ["f", "g"])
def test_a_real_complaint_has_its_line(compile_for, name):
    source = "__global__ void f() {\n    x = 1;\n}"
    with pytest.raises(Exception, match="error") as complaint:
        compile_for[1]((8, 0), source, name)
    text = explained(source, name, str(complaint.value))
    assert text == 'the source does not compile, 1 error:\nline 2: error: identifier "x" is undefined\n    x = 1;'


def test_a_real_kernel_that_is_not_there(compile_for):
    with pytest.raises(Exception, match="error") as complaint:
        compile_for[1]((8, 0), SOURCE, "g<3>")
    assert explained(SOURCE, "g<3>", str(complaint.value)).startswith("the source compiles, but has no kernel 'g<3>'")

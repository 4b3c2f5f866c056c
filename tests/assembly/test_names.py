"""Names of C++ functions. The expected ones are those of c++filt 2.40, without the type of the result."""

import pytest

from tcemu.assembly.names import abridged, demangle
from tcemu.machine.events import By, Site
from tcemu.sanitizer.report import Report


@pytest.mark.parametrize(
    ("name", "short", "parameters"),
    [
        ("scale", "scale", None),
        ("_Z5scalePffi", "scale", ("float*", "float", "int")),
        ("_Z1fv", "f", ()),
        ("_Z4gemmILi64EEvPfi", "gemm<64>", ("float*", "int")),
        ("_Z6kernelI6__halfLb1EEvPT_", "kernel<__half, true>", ("__half*",)),
        ("_Z1aILin5EEvv", "a<-5>", ()),
        ("_Z4gemm14CUtensorMap_stS_Pfi", "gemm", ("CUtensorMap_st", "CUtensorMap_st", "float*", "int")),
        ("_Z1fIJiffEEvDpT_", "f<int, float, float>", ("int", "float", "float")),
        ("_Z1fI4PairIifEJiS1_EEvT_DpT0_", "f<Pair<int, float>, int, Pair<int, float> >",
         ("Pair<int, float>", "int", "Pair<int, float>")),
        ("_ZN42_GLOBAL__N__6f4f9d2c_4_k_cu_a0b1c2d3_123451hEv", "(anonymous namespace)::h", ()),
        ("_ZZ4gemmILi64EEvPfiE5tileA", "gemm<64>(float*, int)::tileA", None),
        # c++filt's, without the namespace in which nvcc and NVRTC put what is static
        ("_ZN41_INTERNAL_00000000_5_st_cu_5726a0aa_209833mulEN43_GLOBAL__N__00000000_5_st_cu_5726a0aa_209832OpEPi",
         "mul", ("(anonymous namespace)::Op", "int*")),
        ("_Z1fIN41_INTERNAL_00000000_5_st_cu_5726a0aa_209832OpEEvPT_", "f<Op>", ("Op*",)),
        ("_ZZN41_INTERNAL_00000000_5_st_cu_5726a0aa_209833mulEPiE4tile", "mul(int*)::tile", None),
        ("_Z5arrayRA64_f", "array", ("float (&) [64]",)),
        ("_Znot_mangled", "_Znot_mangled", None),
        ("_Z", "_Z", None),
    ],
)  # fmt: skip
def test_names(name, short, parameters):
    found = demangle(name)
    assert found == (short, parameters)
    assert str(found) == (short if parameters is None else f"{short}({', '.join(parameters)})")


INTS = ", ".join(["cute::C<64>"] * 10)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gemm<64, cute::C<8> >", "gemm<64, cute::C<8> >"),
        (f"cutlass::device_kernel<Kernel<{INTS}>, Other>", "cutlass::device_kernel<...>"),
        (f"cute::Copy<{INTS}>::operator()<float>", "cute::Copy<...>::operator()<...>"),
        (f"cute::Copy<{INTS}>::operator->", "cute::Copy<...>::operator->"),
        (f"cute::Copy<{INTS}>::operator<", "cute::Copy<...>::operator<"),
        ("a" * 100, "a" * 100),
    ],
)
def test_long_names_in_messages(name, wanted):
    assert abridged(name) == wanted


def test_a_report_abridges_the_names_of_functions_and_keeps_them():
    site = Site("gemm.cuh", 7, f"gemm<{INTS}>", (Site("gemm.cu", 9, f"kernel<{INTS}>"),))
    report = Report("lanes-disagree", "", By(0, 0, 1, site))
    assert "at gemm.cuh:7 in gemm<...> (block 0" in str(report)
    assert "called at gemm.cu:9 in kernel<...>\n" in str(report)
    assert report.site.function == f"gemm<{INTS}>"

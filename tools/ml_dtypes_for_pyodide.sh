#!/usr/bin/env bash
# Builds ml_dtypes for Pyodide 0.27 (Python 3.12), as tcemu/commands/lite/ has it: no registry has that wheel.
#
#     tools/ml_dtypes_for_pyodide.sh FOLDER    # ends with FOLDER/_ml_dtypes_ext.cpython-312-wasm32-emscripten.so
#
# Everything comes from PyPI (ziglang: clang, wasm-ld, libc++ and musl's headers), and from a Python 3.12 with headers.
# The wheel is that module with ml_dtypes' own Python files and licences.
set -euo pipefail
mkdir -p "$1" && cd "$1"
python3.12 -m venv zig
zig/bin/pip install -q ziglang==0.17.1 setuptools wheel numpy==2.0.2
zig/bin/pip download -q --no-deps --no-build-isolation --no-binary :all: ml_dtypes==0.5.4 -d source
tar xf source/ml_dtypes-0.5.4.tar.gz
zl=$(echo zig/lib/python3.12/site-packages/ziglang)
# musl's headers, with the types of wasm32
cp -r "$zl/lib/libc/include/generic-musl" musl && cp -r "$zl/lib/libc/include/arm-linux-musl/." musl/
sed -i 's/#define _Addr int/#define _Addr long/' musl/bits/alltypes.h
# Python's and numpy's headers, with pointers of 32 bits
cp -r "$(zig/bin/python -c 'import sysconfig; print(sysconfig.get_path("include"))')" py
sed -i -E 's/(define (ALIGNOF_LONG|ALIGNOF_SIZE_T|SIZEOF_LONG|SIZEOF_PTHREAD_T|SIZEOF_SIZE_T|SIZEOF_UINTPTR_T|SIZEOF_VOID_P)) [0-9]+/\1 4/' py/pyconfig.h
sed -i -E 's/(define ALIGNOF_MAX_ALIGN_T) [0-9]+/\1 8/' py/pyconfig.h
cp -r zig/lib/python3.12/site-packages/numpy/_core/include numpy
sed -i -E 's/(NPY_SIZEOF_(LONG|PY_INTPTR_T|INTP|UINTP)) 8/\1 4/' numpy/numpy/_numpyconfig.h
# libc++'s settings of emscripten, which has no threads here
mkdir -p cfg && cat > cfg/__config_site <<'SITE'
#ifndef _LIBCPP___CONFIG_SITE
#define _LIBCPP___CONFIG_SITE
#define _LIBCPP_ABI_VERSION 2
#define _LIBCPP_ABI_NAMESPACE __2
#define _LIBCPP_HAS_THREADS 0
#define _LIBCPP_HAS_MONOTONIC_CLOCK 1
#define _LIBCPP_HAS_TERMINAL 1
#define _LIBCPP_HAS_MUSL_LIBC 1
#define _LIBCPP_HAS_THREAD_API_PTHREAD 0
#define _LIBCPP_HAS_THREAD_API_EXTERNAL 0
#define _LIBCPP_HAS_THREAD_API_WIN32 0
#define _LIBCPP_HAS_THREAD_API_C11 0
#define _LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS 0
#define _LIBCPP_HAS_FILESYSTEM 1
#define _LIBCPP_HAS_RANDOM_DEVICE 1
#define _LIBCPP_HAS_LOCALIZATION 1
#define _LIBCPP_HAS_UNICODE 1
#define _LIBCPP_HAS_WIDE_CHARACTERS 1
#define _LIBCPP_HAS_TIME_ZONE_DATABASE 0
#define _LIBCPP_INSTRUMENTED_WITH_ASAN 0
#define _LIBCPP_PSTL_BACKEND_SERIAL
#define _LIBCPP_HARDENING_MODE_DEFAULT _LIBCPP_HARDENING_MODE_NONE
#define _LIBCPP_ASSERTION_SEMANTIC_DEFAULT _LIBCPP_ASSERTION_SEMANTIC_IGNORE
#define _LIBCPP_LIBC_PICOLIBC 0
#define _LIBCPP_LIBC_NEWLIB 0
#endif
SITE
flags="--target=wasm32-unknown-emscripten -D__EMSCRIPTEN__ -fPIC -fvisibility=hidden -O2 -std=c++17 -DEIGEN_MPL2_ONLY
-fno-exceptions -ftrapping-math -nostdinc -nostdinc++ -DEIGEN_NO_DEBUG -Wno-everything -D_GNU_SOURCE
-include cfg/__config_site -isystem cfg -isystem $zl/lib/libcxx/include -isystem $zl/lib/include -isystem musl
-Iml_dtypes-0.5.4 -Iml_dtypes-0.5.4/third_party/eigen -Inumpy -Ipy"
for file in dtypes numpy; do
    # shellcheck disable=SC2086
    "$zl/zig" clang --driver-mode=g++ $flags -c "ml_dtypes-0.5.4/ml_dtypes/_src/$file.cc" -o "$file.o"
done
"$zl/zig" wasm-ld -shared --experimental-pic --export=PyInit__ml_dtypes_ext --allow-undefined \
    --unresolved-symbols=import-dynamic -o _ml_dtypes_ext.cpython-312-wasm32-emscripten.so dtypes.o numpy.o

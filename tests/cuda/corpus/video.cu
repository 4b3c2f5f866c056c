// SIMD video instructions: every form, and some of the ways to select parts.

#define EACH int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; int row = 0
#define PUT(text, d, a, b) { u32 r; asm(text " " d ", " a ", " b ", %3;" : "=r"(r) : "r"(p), "r"(q), "r"(s)); out[row++ * n + i] = r; }
typedef unsigned int u32;

#define PLAIN(text) PUT(text, "%0", "%1", "%2")
#define MODES(text) PLAIN(text) PLAIN(text ".sat") PLAIN(text ".add")
#define SOURCES(op, to) MODES(op to ".u32.u32") MODES(op to ".u32.s32") MODES(op to ".s32.u32") MODES(op to ".s32.s32")
#define ARITHMETIC(op) SOURCES(op, ".u32") SOURCES(op, ".s32")
#define HOW(op, how) PLAIN(op how) PLAIN(op how ".add")
#define COMPARED(op) HOW(op, ".eq") HOW(op, ".ne") HOW(op, ".lt") HOW(op, ".le") HOW(op, ".gt") HOW(op, ".ge")
#define COMPARISON(op) COMPARED(op ".u32.u32") COMPARED(op ".u32.s32") COMPARED(op ".s32.u32") COMPARED(op ".s32.s32")
#define KERNEL(name, body) \
    extern "C" __global__ void name(const u32* x, const u32* y, const u32* z, u32* out, int n) { \
        EACH; \
        u32 p = x[i], q = y[i], s = z[i]; \
        body \
    }

KERNEL(vadd, ARITHMETIC("vadd2") ARITHMETIC("vadd4"))
KERNEL(vsub, ARITHMETIC("vsub2") ARITHMETIC("vsub4"))
KERNEL(vavrg, ARITHMETIC("vavrg2") ARITHMETIC("vavrg4"))
KERNEL(vabsdiff, ARITHMETIC("vabsdiff2") ARITHMETIC("vabsdiff4"))
KERNEL(vmin, ARITHMETIC("vmin2") ARITHMETIC("vmin4"))
KERNEL(vmax, ARITHMETIC("vmax2") ARITHMETIC("vmax4"))
KERNEL(vset, COMPARISON("vset2") COMPARISON("vset4"))

#define HALVES(op) \
    PUT(op, "%0.h0", "%1", "%2") PUT(op, "%0.h1", "%1.h01", "%2") PUT(op, "%0", "%1.h23", "%2.h20") \
    PUT(op, "%0.h10", "%1.h31", "%2.h00") PUT(op, "%0.h0", "%1.h33", "%2.h12")
#define BYTES(op) \
    PUT(op, "%0.b0", "%1", "%2") PUT(op, "%0.b20", "%1.b0123", "%2") PUT(op, "%0.b321", "%1", "%2.b0246") \
    PUT(op, "%0", "%1.b7531", "%2.b4444") PUT(op, "%0.b31", "%1.b0765", "%2.b1111")
#define SELECTED(op, parts, types) parts(op types) parts(op types ".add")

KERNEL(selected,
    SELECTED("vadd2", HALVES, ".u32.s32.u32") SELECTED("vsub2", HALVES, ".s32.u32.u32") SELECTED("vabsdiff2", HALVES, ".u32.u32.u32")
    SELECTED("vset2", HALVES, ".s32.u32.lt") SELECTED("vadd4", BYTES, ".s32.s32.u32") SELECTED("vavrg4", BYTES, ".u32.u32.u32")
    SELECTED("vmin4", BYTES, ".s32.s32.s32") SELECTED("vset4", BYTES, ".u32.u32.ge") HALVES("vadd2.s32.s32.s32.sat")
    BYTES("vsub4.u32.u32.s32.sat"))

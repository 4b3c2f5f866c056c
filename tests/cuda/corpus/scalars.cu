// Scalar video instructions: parts of every operand, what is merged, and the signs of vmad.

#define EACH int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; int row = 0
#define PUT(text, operands) { u32 r; asm(text " " operands ";" : "=r"(r) : "r"(p), "r"(q), "r"(s)); out[row++ * n + i] = r; }
typedef unsigned int u32;

#define KERNEL(name, body) \
    extern "C" __global__ void name(const u32* x, const u32* y, const u32* z, u32* out, int n) { \
        EACH; \
        u32 p = x[i], q = y[i], s = z[i]; \
        body \
    }

#define MERGED(op) \
    PUT(op, "%0.b0, %1, %2.h1, %3") PUT(op, "%0.b1, %1.b0, %2, %3") PUT(op, "%0.b2, %1.h0, %2.b3, %3") \
    PUT(op, "%0.b3, %1.b1, %2.b2, %3") PUT(op, "%0.h0, %1.h1, %2.b1, %3") PUT(op, "%0.h1, %1, %2, %3")
#define PLAIN(op) PUT(op, "%0, %1, %2") PUT(op, "%0, %1.b2, %2.h0") PUT(op, "%0, %1.h1, %2.b0") PUT(op, "%0, %1, %2, %3")
#define AND(op) \
    PUT(op ".add", "%0, %1.b3, %2.h0, %3") PUT(op ".min", "%0, %1.h0, %2.h1, %3") PUT(op ".max", "%0, %1.h1, %2.b1, %3") \
    PUT(op ".min", "%0, %1, %2, %3") PUT(op ".max", "%0, %1, %2, %3")
#define ALL(op) MERGED(op) PLAIN(op) AND(op)

#define SOURCES(op, how) ALL(op ".u32.u32" how) ALL(op ".u32.s32" how) ALL(op ".s32.u32" how) ALL(op ".s32.s32" how)
#define ARITHMETIC(op, how) SOURCES(op ".u32", how) SOURCES(op ".s32", how)
KERNEL(vadd, ARITHMETIC("vadd", "") ARITHMETIC("vadd", ".sat"))
KERNEL(vsub, ARITHMETIC("vsub", "") ARITHMETIC("vsub", ".sat"))
KERNEL(vabsdiff, ARITHMETIC("vabsdiff", "") ARITHMETIC("vabsdiff", ".sat"))
KERNEL(vmin, ARITHMETIC("vmin", "") ARITHMETIC("vmin", ".sat"))
KERNEL(vmax, ARITHMETIC("vmax", "") ARITHMETIC("vmax", ".sat"))

#define MODES(op) ALL(op ".clamp") ALL(op ".wrap") ALL(op ".sat.clamp") ALL(op ".sat.wrap")
#define SHIFT(op) MODES(op ".u32.u32.u32") MODES(op ".u32.s32.u32") MODES(op ".s32.u32.u32") MODES(op ".s32.s32.u32")
KERNEL(vshl, SHIFT("vshl"))
KERNEL(vshr, SHIFT("vshr"))

#define COMPARED(op) ALL(op ".eq") ALL(op ".ne") ALL(op ".lt") ALL(op ".le") ALL(op ".gt") ALL(op ".ge")
KERNEL(vset, COMPARED("vset.u32.u32") COMPARED("vset.u32.s32") COMPARED("vset.s32.u32") COMPARED("vset.s32.s32"))

#define POSITIVE(op) \
    PUT(op, "%0, %1, %2, %3") PUT(op, "%0, %1.h0, %2.h1, %3") PUT(op, "%0, %1.b3, %2, %3") PUT(op, "%0, %1, %2.h0, %3")
#define SIGNS(op) \
    POSITIVE(op) PUT(op, "%0, -%1, %2, %3") PUT(op, "%0, %1.h1, -%2.b0, %3") PUT(op, "%0, -%1.b1, -%2.h0, %3") \
    PUT(op, "%0, -%1, -%2, %3") PUT(op, "%0, %1, %2, -%3") PUT(op, "%0, %1.h0, %2.h0, -%3")
#define SCALES(to, op, how) to(op how) to(op how ".shr7") to(op how ".shr15")
#define MAD(to, op, how) \
    SCALES(to, op ".u32.u32", how) SCALES(to, op ".u32.s32", how) SCALES(to, op ".s32.u32", how) SCALES(to, op ".s32.s32", how)
#define BOTH(to, how) MAD(to, "vmad.u32", how) MAD(to, "vmad.s32", how)
KERNEL(vmad, BOTH(SIGNS, "") BOTH(SIGNS, ".sat"))
KERNEL(plus_one, BOTH(POSITIVE, ".po") BOTH(POSITIVE, ".po.sat"))

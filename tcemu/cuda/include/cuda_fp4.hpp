#include <cuda_fp4.h>

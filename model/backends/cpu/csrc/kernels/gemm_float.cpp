// float32 tiles of kTileColumns outputs.
#include "kernels/gemm.h"

namespace attentive {

namespace {

template <int R>
void float32(const float* a, size_t a_stride, const float* b, size_t b_stride, int k,
             const float* bias, float* c, size_t c_stride) {
    Register acc[R][kTileRegisters];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < kTileRegisters; ++j)
            acc[r][j] = bias ? load_register(bias + kWidth * j) : fill_register(0.0f);
    }
    for (int i = 0; i < k; ++i, b += b_stride) {
        Register w[kTileRegisters];
#pragma GCC unroll 4
        for (int j = 0; j < kTileRegisters; ++j) w[j] = load_register(b + kWidth * j);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const Register x = fill_register(a[r * a_stride + i]);
#pragma GCC unroll 4
            for (int j = 0; j < kTileRegisters; ++j) acc[r][j] = fma(x, w[j], acc[r][j]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < kTileRegisters; ++j)
            store_register(c + r * c_stride + kWidth * j, acc[r][j]);
    }
}

constexpr decltype(&float32<1>) kFloat32[kFloatTileRows] = {float32<1>, float32<2>, float32<3>,
                                                            float32<4>, float32<5>, float32<6>};

}  // namespace

void tile_float(int rows, const float* a, size_t a_stride, const float* b, size_t b_stride, int k,
                const float* bias, float* c, size_t c_stride) {
    kFloat32[rows - 1](a, a_stride, b, b_stride, k, bias, c, c_stride);
}

}  // namespace attentive

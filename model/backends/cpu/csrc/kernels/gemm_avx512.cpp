// AVX-512 VNNI tiles: 6 rows by 64 columns are 24 accumulators; with 4 weights and 1 broadcast they
// use 29 of 32 registers.
#include "kernels/gemm.h"

#if defined(__AVX512F__)

#include <cstring>

namespace attentive {

namespace {

// acc[i] += sum of four u8 * s8 products. Inline assembly keeps the accumulators of a tile in
// registers; with the intrinsic GCC 12 stores them to the stack in every iteration.
__m512i dot_u8s8(__m512i acc, __m512i unsigned_bytes, __m512i signed_bytes) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(unsigned_bytes), "v"(signed_bytes));
    return acc;
}

// A register of weights. Without the assembly GCC loads it again for every row of a tile of three.
__m512i load_weights(const int8_t* p) {
    __m512i weights = _mm512_load_si512(p);
    asm("" : "+v"(weights));
    return weights;
}

// Prefetches kLines cache lines of `ahead`, which is not cached yet, with every four values of k.
template <int R, int kLines>
void int8(const Int8Block& block, const int8_t* ahead, const uint8_t* a, size_t stride,
          const float* row_scales, float* out, size_t out_stride) {
    const int8_t* weights = block.weights;
    const int k = block.k;
    __m512i acc[R][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) acc[r][j] = _mm512_load_si512(block.corrections + 16 * j);
    }
    for (int i = 0; i < k; i += 4, weights += 256) {
#pragma GCC unroll 4
        for (int j = 0; j < kLines; ++j)
            _mm_prefetch(ahead + (i / 4 * kLines + j) * 64, _MM_HINT_T1);
        const __m512i w0 = load_weights(weights), w1 = load_weights(weights + 64);
        const __m512i w2 = load_weights(weights + 128), w3 = load_weights(weights + 192);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            int32_t four;
            std::memcpy(&four, a + r * stride + i, sizeof four);
            const __m512i x = _mm512_set1_epi32(four);
            acc[r][0] = dot_u8s8(acc[r][0], x, w0);
            acc[r][1] = dot_u8s8(acc[r][1], x, w1);
            acc[r][2] = dot_u8s8(acc[r][2], x, w2);
            acc[r][3] = dot_u8s8(acc[r][3], x, w3);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) store_outputs(acc[r], block, row_scales[r], out + r * out_stride);
}

template <int kLines>
constexpr decltype(&int8<1, 0>) kInt8[kTileRows] = {int8<1, kLines>, int8<2, kLines>,
                                                    int8<3, kLines>, int8<4, kLines>,
                                                    int8<5, kLines>, int8<6, kLines>};

}  // namespace

void tile_int8(const Int8Block& block, const AheadPart& ahead, int rows, const Quantized* a,
               size_t a_stride, const float* row_scales, float* out, size_t out_stride) {
    static_assert(kAheadParts == 4);
    const auto& kernels = ahead.parts == 0   ? kInt8<0>
                          : ahead.parts == 1 ? kInt8<4>
                          : ahead.parts == 2 ? kInt8<2>
                                             : kInt8<1>;
    kernels[rows - 1](block, ahead.weights, a, a_stride, row_scales, out, out_stride);
}

}  // namespace attentive

#endif

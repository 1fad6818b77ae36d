// NEON tiles of 16 columns (four registers of four). An integer product is an SDOT, four values of
// k of four columns times a row, or with i8mm an SMMLA, eight values of k of two columns times two
// rows.
#include "kernels/gemm.h"

#if defined(__aarch64__)

#include <utility>

namespace attentive {

namespace {

constexpr int kStep = 16;  // values of k in a register of activations

// Calls body(std::integral_constant<int, i>) for i in [0, N): lanes are immediate operands.
template <int N, typename Body>
void unrolled(Body&& body) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
        (body(std::integral_constant<int, I>()), ...);
    }(std::make_integer_sequence<int, N>());
}

#if defined(__ARM_FEATURE_MATMUL_INT8)
// Sums of two rows. A register has two rows of two columns.
struct Sums {
    int32x4_t two[8];
    // The sums of columns 4 j to 4 j + 3.
    int32x4_t upper(int j) const { return pairs(vzip1q_s64(half(2 * j), half(2 * j + 1))); }
    int32x4_t lower(int j) const { return pairs(vzip2q_s64(half(2 * j), half(2 * j + 1))); }

  private:
    int64x2_t half(int j) const { return vreinterpretq_s64_s32(two[j]); }
    static int32x4_t pairs(int64x2_t x) { return vreinterpretq_s32_s64(x); }
};

// Sums of R rows; an odd last row is paired with itself. `prefetch(bytes)` is called for every 64
// bytes of weights.
template <int R, typename Prefetch>
void add_products(const int8_t* weights, int k, const int8_t* a, size_t stride,
                  Sums (&sums)[(R + 1) / 2], Prefetch&& prefetch) {
    for (int i = 0; i < k; i += kStep, weights += kStep * kTileColumns) {
        int8x16_t x[2][(R + 1) / 2];  // eight values of k of two rows
#pragma GCC unroll 8
        for (int p = 0; p < (R + 1) / 2; ++p) {
            const int64x2_t upper = vreinterpretq_s64_s8(vld1q_s8(a + 2 * p * stride + i));
            const int64x2_t lower =
                2 * p + 1 < R ? vreinterpretq_s64_s8(vld1q_s8(a + (2 * p + 1) * stride + i))
                              : upper;
            x[0][p] = vreinterpretq_s8_s64(vzip1q_s64(upper, lower));
            x[1][p] = vreinterpretq_s8_s64(vzip2q_s64(upper, lower));
        }
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j) {
                if (j % 4 == 0) prefetch(i * kTileColumns + 128 * half + 16 * j);
                const int8x16_t w = vld1q_s8(weights + 128 * half + 16 * j);
#pragma GCC unroll 8
                for (int p = 0; p < (R + 1) / 2; ++p)
                    sums[p].two[j] = vmmlaq_s32(sums[p].two[j], x[half][p], w);
            }
        }
    }
}

template <int R>
int32x4_t row_sums(const Sums (&sums)[(R + 1) / 2], int row, int j) {
    return row % 2 ? sums[row / 2].lower(j) : sums[row / 2].upper(j);
}

template <int R>
using TileSums = Sums[(R + 1) / 2];
#else
template <int R>
using TileSums = int32x4_t[R][4];

// `prefetch(bytes)` is called for every 64 bytes of weights.
template <int R, typename Prefetch>
void add_products(const int8_t* weights, int k, const int8_t* a, size_t stride, TileSums<R>& sums,
                  Prefetch&& prefetch) {
    for (int i = 0; i < k; i += kStep, weights += kStep * kTileColumns) {
        int8x16_t x[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) x[r] = vld1q_s8(a + r * stride + i);
        unrolled<4>([&](auto group) {
            prefetch((i + 4 * group) * kTileColumns);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const int8x16_t w = vld1q_s8(weights + 64 * group + 16 * j);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r)
                    sums[r][j] = vdotq_laneq_s32(sums[r][j], w, x[r], group);
            }
        });
    }
}

template <int R>
int32x4_t row_sums(const TileSums<R>& sums, int row, int j) {
    return sums[row][j];
}
#endif

// Prefetches `ahead`, which is not cached yet, during the product.
template <int R, bool Ahead>
void int8(const Int8Block& block, const int8_t* ahead, const Quantized* a, size_t stride,
          const float* row_scales, float* out, size_t out_stride) {
    TileSums<R> sums{};
    add_products<R>(block.weights, block.k, a, stride, sums, [ahead](int bytes) {
        if constexpr (Ahead) __builtin_prefetch(ahead + bytes, 0, 2);
    });
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
        const IntRegister row[4] = {row_sums<R>(sums, r, 0), row_sums<R>(sums, r, 1),
                                    row_sums<R>(sums, r, 2), row_sums<R>(sums, r, 3)};
        store_outputs(row, block, row_scales[r], out + r * out_stride);
    }
}

constexpr decltype(&int8<1, false>) kInt8[2][kTileRows] = {
    {int8<1, false>, int8<2, false>, int8<3, false>, int8<4, false>},
    {int8<1, true>, int8<2, true>, int8<3, true>, int8<4, true>},
};

}  // namespace

void tile_int8(const Int8Block& block, const AheadPart& ahead, int rows, const Quantized* a,
               size_t a_stride, const float* row_scales, float* out, size_t out_stride) {
    kInt8[ahead.parts != 0][rows - 1](block, ahead.weights, a, a_stride, row_scales, out,
                                      out_stride);
}

}  // namespace attentive

#endif

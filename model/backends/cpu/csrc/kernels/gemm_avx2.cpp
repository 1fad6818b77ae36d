// AVX2 tiles of 16 columns (two registers of eight). An integer product takes one instruction with
// AVX-VNNI and four without, three for activations that are not negative.
#include "kernels/gemm.h"

#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(ATTENTIVE_EMULATED_TILES)

#include <cstring>

namespace attentive {

namespace {

__m256i four_bytes(const Quantized* p) {
    int32_t value;
    std::memcpy(&value, p, sizeof value);
    return _mm256_set1_epi32(value);
}

// Adds the products of four activations of a row with four weights of 16 columns (w0, w1).
// `Signed`: activations may be negative. Inline assembly keeps the accumulators of a tile in
// registers; with intrinsics GCC 12 stores them to the stack.
#if defined(__AVXVNNI__)
template <bool Signed>
void multiply(const Quantized* a, __m256i w0, __m256i w1, __m256i& sum0, __m256i& sum1) {
    const __m256i x = four_bytes(a);
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum0) : "x"(x), "x"(w0));
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum1) : "x"(x), "x"(w1));
}
#else
template <bool Signed>
void multiply(const Quantized* a, __m256i w0, __m256i w1, __m256i& sum0, __m256i& sum1) {
    const __m256i magnitudes = four_bytes(a + 2), one = _mm256_set1_epi16(1);
    __m256i p0, p1;
    if constexpr (Signed) {
        p1 = four_bytes(a);
        asm("vpsignb %3, %5, %2\n\t"  // weights with the signs of the activations
            "vpsignb %3, %6, %3\n\t"
            "vpmaddubsw %2, %4, %2\n\t"  // sums of two, in 16 bits
            "vpmaddubsw %3, %4, %3\n\t"
            "vpmaddwd %7, %2, %2\n\t"  // sums of four, in 32 bits
            "vpmaddwd %7, %3, %3\n\t"
            "vpaddd %2, %0, %0\n\t"
            "vpaddd %3, %1, %1"
            : "+x"(sum0), "+x"(sum1), "=&x"(p0), "+x"(p1)
            : "x"(magnitudes), "x"(w0), "x"(w1), "x"(one));
    } else {
        asm("vpmaddubsw %5, %4, %2\n\t"
            "vpmaddubsw %6, %4, %3\n\t"
            "vpmaddwd %7, %2, %2\n\t"
            "vpmaddwd %7, %3, %3\n\t"
            "vpaddd %2, %0, %0\n\t"
            "vpaddd %3, %1, %1"
            : "+x"(sum0), "+x"(sum1), "=&x"(p0), "=&x"(p1)
            : "x"(magnitudes), "x"(w0), "x"(w1), "x"(one));
    }
}
#endif

// Prefetches `ahead`, which is not cached yet, during the product.
template <int R, bool Ahead, bool Signed>
void int8(const Int8Block& block, const int8_t* ahead, const Quantized* a, size_t stride,
          const float* row_scales, float* out, size_t out_stride) {
    __m256i acc[R][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j)
            acc[r][j] =
                _mm256_load_si256(reinterpret_cast<const __m256i*>(block.corrections + 8 * j));
    }
    const int8_t* weights = block.weights;
    const int k = block.k;
    for (int i = 0; i < k; i += 4, weights += 64) {
        if constexpr (Ahead) _mm_prefetch(ahead + i * kTileColumns, _MM_HINT_T1);
        const __m256i* w = reinterpret_cast<const __m256i*>(weights);
        const __m256i w0 = _mm256_load_si256(w), w1 = _mm256_load_si256(w + 1);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            multiply<Signed>(a + r * stride + i, w0, w1, acc[r][0], acc[r][1]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) store_outputs(acc[r], block, row_scales[r], out + r * out_stride);
}

template <bool Ahead, bool Signed>
constexpr decltype(&int8<1, false, true>) kInt8[] = {
    int8<1, Ahead, Signed>, int8<2, Ahead, Signed>, int8<3, Ahead, Signed>,
    int8<4, Ahead, Signed>, int8<5, Ahead, Signed>, int8<6, Ahead, Signed>};

}  // namespace

void tile_int8(const Int8Block& block, const AheadPart& ahead, int rows, const Quantized* a,
               size_t a_stride, const float* row_scales, float* out, size_t out_stride) {
    const auto& signs = ahead.parts ? kInt8<true, true> : kInt8<false, true>;
    const auto& nonnegative = ahead.parts ? kInt8<true, false> : kInt8<false, false>;
    (block.nonnegative ? nonnegative : signs)[rows - 1](block, ahead.weights, a, a_stride,
                                                        row_scales, out, out_stride);
}

}  // namespace attentive

#endif

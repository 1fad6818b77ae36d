// int8 tiles of x86: AVX-512 VNNI (6 rows by 64 columns are 24 accumulators; with 4 weights and 1
// broadcast they use 29 of 32 registers), AVX-VNNI and AVX2 (16 columns). An integer product takes
// one instruction with VNNI and four without, three for activations that are not negative.
#include "kernels/gemm.h"

#if defined(__AVX2__) && !defined(ATTENTIVE_EMULATED_TILES)

#include <cstring>

namespace attentive {

namespace {

constexpr int kStepLines = kTileColumns / 16;  // cache lines of four values of k

#if defined(__AVX512F__)
__m512i load_ints(const void* p) { return _mm512_load_si512(p); }
__m512i fill_ints(int32_t x) { return _mm512_set1_epi32(x); }
#else
__m256i load_ints(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
__m256i fill_ints(int32_t x) { return _mm256_set1_epi32(x); }
#endif

IntRegister four_bytes(const Quantized* p) {
    int32_t value;
    std::memcpy(&value, p, sizeof value);
    return fill_ints(value);
}

// A register of weights. Without the assembly GCC loads it again for every row of a tile of three.
IntRegister load_weights(const int8_t* p) {
    IntRegister weights = load_ints(p);
#if defined(__AVX512F__)
    asm("" : "+v"(weights));
#endif
    return weights;
}

// Adds the products of four activations of a row with four weights of each column to `sums`.
// `Signed`: activations may be negative. Inline assembly keeps the accumulators of a tile in
// registers; with intrinsics GCC 12 stores them to the stack.
#if defined(__AVX512F__) || defined(__AVXVNNI__)
template <bool Signed>
void multiply(const Quantized* a, const IntRegister (&w)[kTileRegisters],
              IntRegister (&sums)[kTileRegisters]) {
    const IntRegister x = four_bytes(a);
#pragma GCC unroll 4
    for (int j = 0; j < kTileRegisters; ++j) {
#if defined(__AVX512F__)
        asm("vpdpbusd %2, %1, %0" : "+v"(sums[j]) : "v"(x), "v"(w[j]));
#else
        asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums[j]) : "x"(x), "x"(w[j]));
#endif
    }
}
#else
template <bool Signed>
void multiply(const Quantized* a, const __m256i (&w)[2], __m256i (&sums)[2]) {
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
            : "+x"(sums[0]), "+x"(sums[1]), "=&x"(p0), "+x"(p1)
            : "x"(magnitudes), "x"(w[0]), "x"(w[1]), "x"(one));
    } else {
        asm("vpmaddubsw %5, %4, %2\n\t"
            "vpmaddubsw %6, %4, %3\n\t"
            "vpmaddwd %7, %2, %2\n\t"
            "vpmaddwd %7, %3, %3\n\t"
            "vpaddd %2, %0, %0\n\t"
            "vpaddd %3, %1, %1"
            : "+x"(sums[0]), "+x"(sums[1]), "=&x"(p0), "=&x"(p1)
            : "x"(magnitudes), "x"(w[0]), "x"(w[1]), "x"(one));
    }
}
#endif

// Prefetches kLines cache lines of `ahead`, which is not cached yet, with every four values of k.
template <int R, int kLines, bool Signed>
void int8(const Int8Block& block, const int8_t* ahead, const Quantized* a, size_t stride,
          const float* row_scales, float* out, size_t out_stride) {
    IntRegister acc[R][kTileRegisters];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < kTileRegisters; ++j)
            acc[r][j] = load_ints(block.corrections + kWidth * j);
    }
    const int8_t* weights = block.weights;
    const int k = block.k;
    for (int i = 0; i < k; i += 4, weights += 4 * kTileColumns) {
#pragma GCC unroll 4
        for (int j = 0; j < kLines; ++j)
            _mm_prefetch(ahead + (i / 4 * kLines + j) * 64, _MM_HINT_T1);
        IntRegister w[kTileRegisters];
#pragma GCC unroll 4
        for (int j = 0; j < kTileRegisters; ++j) w[j] = load_weights(weights + 4 * kWidth * j);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) multiply<Signed>(a + r * stride + i, w, acc[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) store_outputs(acc[r], block, row_scales[r], out + r * out_stride);
}

template <int kLines, bool Signed>
constexpr decltype(&int8<1, 0, true>) kInt8[] = {int8<1, kLines, Signed>, int8<2, kLines, Signed>,
                                                 int8<3, kLines, Signed>, int8<4, kLines, Signed>,
                                                 int8<5, kLines, Signed>, int8<6, kLines, Signed>};

template <bool Signed>
constexpr decltype(&kInt8<0, Signed>[0]) kByParts[] = {kInt8<0, Signed>, kInt8<kStepLines, Signed>,
                                                       kInt8<kStepLines / 2, Signed>, nullptr,
                                                       kInt8<kStepLines / 4, Signed>};

}  // namespace

void tile_int8(const Int8Block& block, const AheadPart& ahead, int rows, const Quantized* a,
               size_t a_stride, const float* row_scales, float* out, size_t out_stride) {
    const auto& kernels = block.nonnegative ? kByParts<false> : kByParts<true>;
    kernels[ahead.parts][rows - 1](block, ahead.weights, a, a_stride, row_scales, out, out_stride);
}

}  // namespace attentive

#endif

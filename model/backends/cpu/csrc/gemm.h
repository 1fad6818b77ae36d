// The innermost loops of products: a few rows times kTileColumns outputs. Sums are exact in int8 and in the order of k in
// float32, so that they do not depend on the tile. One of tiles_avx512.cpp and tiles_avx2.cpp is compiled to something.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd.h"

namespace attentive {

// How a row of activations is stored for an integer product, and how many rows and columns a tile has.
#if defined(__AVX512F__)
using Quantized = uint8_t;  // int8 + 128: the instruction multiplies unsigned by signed bytes
constexpr const char* kIsa = "avx512";
constexpr int kOffset = 128, kTileColumns = 64, kTileRows = 6, kFloatTileRows = 6;
#elif defined(__AVXVNNI__)
using Quantized = uint8_t;
constexpr const char* kIsa = "avxvnni";
constexpr int kOffset = 128, kTileColumns = 16, kTileRows = 6, kFloatTileRows = 6;
#else
// Two bytes each: of every four values the four as int8, then their four magnitudes. Magnitudes times weights that took over the
// signs are at most 2 * 127 * 127 for a pair, which 16 bits hold: nothing saturates, as it would with int8 + 128.
using Quantized = int16_t;
constexpr const char* kIsa = "avx2";
constexpr int kOffset = 0, kTileColumns = 16, kTileRows = 4, kFloatTileRows = 6;
#endif

// One block of kTileColumns outputs of an int8 weight. `ahead`, if not null, is as many weights that will be read next.
struct Int8Block {
    const int8_t* weights;       // (k / 4, kTileColumns, 4)
    const int32_t* corrections;  // -kOffset * sum of each output's weights
    const float* scales;
    const float* bias;
    int k;
};

// Writes (rows, kTileColumns) outputs for 1 to kTileRows rows.
void tile_int8(const Int8Block& block, const int8_t* ahead, int rows, const Quantized* a, size_t a_stride, const float* row_scales,
               float* out, size_t out_stride);

// c (rows, kTileColumns) = a (rows, k) b (k, kTileColumns), plus a bias if there is one, for 1 to kFloatTileRows rows.
void tile_float(int rows, const float* a, size_t a_stride, const float* b, size_t b_stride, int k, const float* bias, float* c,
                size_t c_stride);

// Sixteen int8 values as an integer product reads them.
inline void store_quantized(Quantized* p, Ints q) {
#if defined(__AVX512F__) || defined(__AVXVNNI__)
    store_bytes(p, plus(q, kOffset));
#else
    const __m256i words = to_int16(q);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    const __m128i magnitudes = _mm_abs_epi8(bytes);
    __m128i* target = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(target, _mm_unpacklo_epi32(bytes, magnitudes));
    _mm_storeu_si128(target + 1, _mm_unpackhi_epi32(bytes, magnitudes));
#endif
}

}  // namespace attentive

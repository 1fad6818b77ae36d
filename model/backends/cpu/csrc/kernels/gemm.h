// Matrix product kernels: tiles of a few rows by kTileColumns outputs. int8 sums are exact and
// float32 sums are in the order of k, so results do not depend on the tile size. gemm_float.cpp has
// the float32 products, gemm_x86.cpp or gemm_neon.cpp those of int8, and gemm_amx.cpp those of 16
// rows and more with AMX.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd.h"

#if defined(__AMX_INT8__) || defined(ATTENTIVE_EMULATED_TILES)
#define ATTENTIVE_TILES
#endif

namespace attentive {

// The storage of quantised activations, the numbers of rows and columns of a tile, and from how
// many rows for each thread on a thread takes rows of its own through a step (0: never).
#if defined(__AVX512F__) || defined(ATTENTIVE_TILES)
using Quantized = uint8_t;  // int8 + 128: the instructions multiply unsigned by signed bytes
constexpr int kOffset = 128, kTileColumns = 64, kTileRows = 6, kFloatTileRows = 6, kThreadRows = 0;
#elif defined(__AVXVNNI__)
using Quantized = uint8_t;
constexpr const char* kIsa = "avxvnni";
constexpr int kOffset = 128, kTileColumns = 16, kTileRows = 6, kFloatTileRows = 6, kThreadRows = 0;
#elif defined(__aarch64__)
using Quantized = int8_t;  // the instructions multiply signed by signed bytes
constexpr int kOffset = 0, kTileColumns = 16, kTileRows = 4, kFloatTileRows = 6, kThreadRows = 0;
#else
// Two bytes per value: groups of four int8 values, each followed by their four magnitudes. The
// signs are moved to the weights, so the sum of a pair is at most 2 * 127 * 127 and fits into 16
// bits. With int8 + 128 it would saturate.
using Quantized = int16_t;
constexpr const char* kIsa = "avx2";
constexpr int kOffset = 0, kTileColumns = 16, kTileRows = 4, kFloatTileRows = 6, kThreadRows = 16;
#endif
constexpr int kTileRegisters = kTileColumns / kWidth;  // of a row

#if defined(ATTENTIVE_EMULATED_TILES)
constexpr const char* kIsa = "emulated amx";
#elif defined(ATTENTIVE_TILES)
constexpr const char* kIsa = "amx";
#elif defined(__AVX512F__)
constexpr const char* kIsa = "avx512";
#elif defined(__ARM_FEATURE_MATMUL_INT8)
constexpr const char* kIsa = "neon-i8mm";
#elif defined(__aarch64__)
constexpr const char* kIsa = "neon-dotprod";
#endif

// Values of k whose weights lie together for each output: as many as an integer product adds.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kDepthGroup = 8;
#else
constexpr int kDepthGroup = 4;
#endif

// kMatrixRows: the least rows of a product by tiles of a matrix unit; 0 without one. Weights are
// packed with zeros up to a multiple of kDepthStep values of k, and as many bytes may be read after
// the last row of activations.
#if defined(ATTENTIVE_TILES)
constexpr int kMatrixRows = 16, kDepthStep = 64;
#else
constexpr int kMatrixRows = 0, kDepthStep = 1;
#endif

// One block of kTileColumns outputs of an int8 weight matrix.
struct Int8Block {
    const int8_t* weights;       // (k / kDepthGroup, kTileColumns, kDepthGroup)
    const int32_t* corrections;  // -kOffset * sum of each output's weights
    const float* scales;
    const float* bias;
    int k;
    bool nonnegative;  // no activation is negative
};

// Weights to prefetch during a product: 1 / parts of a block. parts is 0 (nothing), or a power of
// two up to kAheadParts.
struct AheadPart {
    const int8_t* weights;
    int parts;
};
#if defined(__AVX512F__)
constexpr int kAheadParts = 4;  // cache lines of four values of k
#else
constexpr int kAheadParts = 1;
#endif

// Writes (rows, kTileColumns) outputs for 1 to kTileRows rows.
void tile_int8(const Int8Block& block, const AheadPart& ahead, int rows, const Quantized* a,
               size_t a_stride, const float* row_scales, float* out, size_t out_stride);

#if defined(ATTENTIVE_TILES)
// The same for kMatrixRows rows or more, on a thread that has a MatrixUnit.
void matrix_int8(const Int8Block& block, const int8_t* ahead, int rows, const Quantized* a,
                 size_t a_stride, const float* row_scales, float* out, size_t out_stride);

// Prepares the matrix unit for the calling thread and releases it.
struct MatrixUnit {
    MatrixUnit();
    ~MatrixUnit();
};
#else
struct MatrixUnit {};
#endif

// Stores a row of outputs from its integer sums.
inline void store_outputs(const IntRegister (&sums)[kTileRegisters], const Int8Block& block,
                          float row_scale, float* out) {
    const Register scale = fill_register(row_scale);
#pragma GCC unroll 4
    for (int j = 0; j < kTileRegisters; ++j) {
        const Register factor = scale * load_register(block.scales + kWidth * j);
        store_register(out + kWidth * j,
                       fma(to_floats(sums[j]), factor, load_register(block.bias + kWidth * j)));
    }
}

// c (rows, kTileColumns) = a (rows, k) b (k, kTileColumns) + bias, for 1 to kFloatTileRows rows.
// bias may be null.
void tile_float(int rows, const float* a, size_t a_stride, const float* b, size_t b_stride, int k,
                const float* bias, float* c, size_t c_stride);

// Stores sixteen int8 values in the format of integer products.
inline void store_quantized(Quantized* p, Ints q) {
#if defined(__AVX512F__) || defined(__AVXVNNI__) || defined(ATTENTIVE_TILES)
    store_bytes(p, plus(q, kOffset));
#elif defined(__aarch64__)
    store_bytes(p, q);
#else
    const __m256i words = to_int16(q);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    const __m128i magnitudes = _mm_abs_epi8(bytes);
    __m128i* target = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(target, _mm_unpacklo_epi32(bytes, magnitudes));
    _mm_storeu_si128(target + 1, _mm_unpackhi_epi32(bytes, magnitudes));
#endif
}

}  // namespace attentive

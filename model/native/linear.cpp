#include "linear.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "simd.h"

namespace attentive {

namespace {

constexpr int kTile = 6;  // rows of a tile: 6 x 4 accumulators, 4 weights and 1 broadcast fill 29 of 32 registers
constexpr size_t kHuge = size_t{1} << 21;

// `ahead`, if the tile has one, is asked for along the way: the panel that this thread reads next, still far from the caches.
template <int R, bool Ahead>
void tile_int8(const uint8_t* a, size_t stride, const int8_t* weights, int k, const int32_t* corrections, const float* row_scales,
               const float* column_scales, const float* bias, float* out, size_t out_stride, const int8_t* ahead) {
    __m512i acc[R][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) acc[r][j] = _mm512_load_si512(corrections + 16 * j);
    }
    for (int i = 0; i < k; i += 4, weights += 256) {
        if constexpr (Ahead) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) _mm_prefetch(ahead + i * kPanel + 64 * j, _MM_HINT_T1);
        }
        const __m512i w0 = _mm512_load_si512(weights), w1 = _mm512_load_si512(weights + 64);
        const __m512i w2 = _mm512_load_si512(weights + 128), w3 = _mm512_load_si512(weights + 192);
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
    for (int r = 0; r < R; ++r) {
        const __m512 scale = _mm512_set1_ps(row_scales[r]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const __m512 factor = _mm512_mul_ps(scale, _mm512_load_ps(column_scales + 16 * j));
            const __m512 y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][j]), factor, _mm512_load_ps(bias + 16 * j));
            _mm512_storeu_ps(out + r * out_stride + 16 * j, y);
        }
    }
}

template <int R>
void tile_float(const float* a, size_t a_stride, const float* b, size_t b_stride, int k, const float* bias, float* c, size_t c_stride) {
    __m512 acc[R][4];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) acc[r][j] = bias ? _mm512_load_ps(bias + 16 * j) : _mm512_setzero_ps();
    }
    for (int i = 0; i < k; ++i, b += b_stride) {
        const __m512 w0 = _mm512_loadu_ps(b), w1 = _mm512_loadu_ps(b + 16);
        const __m512 w2 = _mm512_loadu_ps(b + 32), w3 = _mm512_loadu_ps(b + 48);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const __m512 x = _mm512_set1_ps(a[r * a_stride + i]);
            acc[r][0] = _mm512_fmadd_ps(x, w0, acc[r][0]);
            acc[r][1] = _mm512_fmadd_ps(x, w1, acc[r][1]);
            acc[r][2] = _mm512_fmadd_ps(x, w2, acc[r][2]);
            acc[r][3] = _mm512_fmadd_ps(x, w3, acc[r][3]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) _mm512_storeu_ps(c + r * c_stride + 16 * j, acc[r][j]);
    }
}

using TileInt8 = decltype(&tile_int8<1, false>);
constexpr TileInt8 kTileInt8[2][kTile] = {
    {tile_int8<1, false>, tile_int8<2, false>, tile_int8<3, false>, tile_int8<4, false>, tile_int8<5, false>, tile_int8<6, false>},
    {tile_int8<1, true>, tile_int8<2, true>, tile_int8<3, true>, tile_int8<4, true>, tile_int8<5, true>, tile_int8<6, true>},
};
constexpr decltype(&tile_float<1>) kTileFloat[] = {tile_float<1>, tile_float<2>, tile_float<3>,
                                                   tile_float<4>, tile_float<5>, tile_float<6>};

// Calls body(row, rows) for blocks of nearly equal height, at most kTile.
template <typename Body>
void blocks(int rows, Body&& body) {
    for (int row = 0; row < rows;) {
        const int left = rows - row, count = (left + kTile - 1) / kTile, height = (left + count - 1) / count;
        body(row, height);
        row += height;
    }
}

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
    const size_t alignment = bytes >= kHuge ? kHuge : 64;
    const size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
    memory_.reset(std::aligned_alloc(alignment, rounded));
    if (!memory_) throw std::bad_alloc();
    if (alignment == kHuge) madvise(memory_.get(), rounded, MADV_HUGEPAGE);
    std::memset(memory_.get(), 0, rounded);
}

void Buffer::reserve(size_t bytes) {
    if (bytes <= bytes_) return;
    memory_.reset();
    *this = Buffer(bytes);
}

void Buffer::Free::operator()(void* memory) const { std::free(memory); }

Linear::Linear(Precision precision, const float* weight, const float* bias, int out, int in)
    : precision_(precision), out_(out), in_(in), panels_((out + kPanel - 1) / kPanel) {
    const size_t columns = static_cast<size_t>(panels_) * kPanel;
    bias_ = Buffer(columns * sizeof(float));
    if (bias) std::memcpy(bias_.as<float>(), bias, out * sizeof(float));
    if (precision == Precision::Int8) {
        pack_int8(weight);
    } else {
        pack_float(weight);
    }
}

void Linear::pack_int8(const float* weight) {
    const size_t columns = static_cast<size_t>(panels_) * kPanel;
    weights_ = Buffer(columns * in_);
    scales_ = Buffer(columns * sizeof(float));
    corrections_ = Buffer(columns * sizeof(int32_t));
    alignas(64) int32_t quantized[16];
    for (int n = 0; n < out_; ++n) {
        const float* source = weight + static_cast<size_t>(n) * in_;
        const float top = max_magnitude(source, in_), inverse = inverse_scale(top);
        int8_t* target = weights_.as<int8_t>() + static_cast<size_t>(n / kPanel) * kPanel * in_ + n % kPanel * 4;
        int32_t sum = 0;
        for (int k = 0; k < in_; k += 16) {
            _mm512_store_si512(quantized, round_to_int8(_mm512_loadu_ps(source + k), inverse));
            for (int i = 0; i < 16; ++i) {
                target[static_cast<size_t>(k + i) / 4 * (kPanel * 4) + i % 4] = static_cast<int8_t>(quantized[i]);
                sum += quantized[i];
            }
        }
        scales_.as<float>()[n] = forward_scale(top);
        corrections_.as<int32_t>()[n] = -128 * sum;
    }
}

void Linear::pack_float(const float* weight) {
    weights_ = Buffer(static_cast<size_t>(panels_) * kPanel * in_ * sizeof(float));
    for (int n = 0; n < out_; ++n) {
        float* target = weights_.as<float>() + static_cast<size_t>(n / kPanel) * kPanel * in_ + n % kPanel;
        for (int k = 0; k < in_; ++k) target[static_cast<size_t>(k) * kPanel] = weight[static_cast<size_t>(n) * in_ + k];
    }
}

void Linear::panel(const Rows& rows, int panel, int next, int first, int last, float* out, size_t stride) const {
    const size_t column = static_cast<size_t>(panel) * kPanel;
    const float* bias = bias_.as<float>() + column;
    if (precision_ == Precision::Int8) {
        const int8_t* weights = weights_.as<int8_t>() + column * in_;
        const int8_t* ahead = weights_.as<int8_t>() + static_cast<size_t>(std::min(next, panels_ - 1)) * kPanel * in_;
        int block = 0;  // the first block waits for its own panel, the second has time to ask for the next one
        blocks(last - first, [&](int row, int height) {
            kTileInt8[block++ == 1 && next < panels_][height - 1](rows.quantized + (first + row) * rows.stride, rows.stride, weights, in_,
                                  corrections_.as<int32_t>() + column, rows.scales + first + row, scales_.as<float>() + column, bias,
                                  out + row * stride, stride, ahead);
        });
    } else {
        const float* weights = weights_.as<float>() + column * in_;
        blocks(last - first, [&](int row, int height) {
            kTileFloat[height - 1](rows.values + (first + row) * rows.stride, rows.stride, weights, kPanel, in_, bias,
                                   out + row * stride, stride);
        });
    }
}

void Linear::row(int index, float* values) const {
    const size_t offset = static_cast<size_t>(index / kPanel) * kPanel * in_;
    if (precision_ == Precision::Float32) {
        const float* source = weights_.as<float>() + offset + index % kPanel;
        for (int k = 0; k < in_; ++k) values[k] = source[static_cast<size_t>(k) * kPanel];
        return;
    }
    const int8_t* source = weights_.as<int8_t>() + offset + index % kPanel * 4;
    const float scale = scales_.as<float>()[index];
    for (int k = 0; k < in_; k += 4) {
        for (int i = 0; i < 4; ++i) values[k + i] = source[static_cast<size_t>(k) * kPanel + i] * scale;
    }
}

void multiply_panel(const float* a, size_t a_stride, const float* b, size_t b_stride, int k, int rows, float* c, size_t c_stride) {
    blocks(rows, [&](int row, int height) {
        kTileFloat[height - 1](a + row * a_stride, a_stride, b, b_stride, k, nullptr, c + row * c_stride, c_stride);
    });
}

}  // namespace attentive

#include "layers/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/simd.h"

namespace attentive {

namespace {

constexpr int kContextColumns = 4 * kRegisters;  // features summed together, in registers
constexpr int kQueries = 48;  // queries scored together: bounds the scratch memory

int round_up(int value, int step) { return (value + step - 1) / step * step; }

void store_elements(const float* x, int dim, float, float* out, int step) {
    for (int d = 0; d < dim; ++d) out[d * step] = x[d];
}
void store_elements(const float* x, int dim, float inverse, int8_t* out, int step) {
    alignas(64) int8_t quantized[kLanes];
    for (int d = 0; d < dim; d += kLanes) {
        store_bytes(quantized, round_to_int8(load(x + d), inverse));
        for (int i = 0; i < kLanes; ++i) out[(d + i) * step] = quantized[i];
    }
}

template <typename E>
void write_heads(const AttentionShape& shape, const PageLayout& layout, char* layer, int position,
                 const float* key, const float* value) {
    const int dim = shape.dim;
    for (int h = 0; h < shape.heads; ++h) {
        E* keys = reinterpret_cast<E*>(layer + h * layout.head_bytes);
        E* values = keys + kPage * dim;
        float* scales = reinterpret_cast<float*>(values + kPage * dim);
        float inverse_key = 0.0f, inverse_value = 0.0f;
        if constexpr (sizeof(E) == 1) {
            const float top_key = max_magnitude(key + h * dim, dim),
                        top_value = max_magnitude(value + h * dim, dim);
            scales[position] = forward_scale(top_key);
            scales[kPage + position] = forward_scale(top_value);
            inverse_key = inverse_scale(top_key);
            inverse_value = inverse_scale(top_value);
        }
        store_elements(key + h * dim, dim, inverse_key, keys + position, kPage);
        store_elements(value + h * dim, dim, inverse_value, values + position * dim, 1);
    }
}

// Dot products of one query with the keys (D, 16) of a page.
template <typename E, int D>
Floats page_scores(const E* keys, const float* query) {
    Floats sums[4] = {fill(0.0f), fill(0.0f), fill(0.0f), fill(0.0f)};
#pragma GCC unroll 4
    for (int d = 0; d < D; d += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
            sums[i] = fma(fill(query[d + i]), load(keys + (d + i) * kPage), sums[i]);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Features [first, first + C) of a head's context: values (16, D) of each page times weights. Even
// and odd positions have separate sums.
template <typename E, int D, int C>
void weighted_values(const char* const* pages, size_t offset, int length, const float* weights,
                     float share, int first, float* context) {
    Floats sums[2][C / kLanes];
    for (auto& half : sums)
        for (Floats& part : half) part = fill(0.0f);
    for (int begin = 0; begin < length; begin += kPage) {
        const E* values =
            reinterpret_cast<const E*>(pages[begin / kPage] + offset) + kPage * D + first;
        const int live = std::min(kPage, length - begin);
        int p = 0;
        for (; p + 2 <= live; p += 2) {
#pragma GCC unroll 2
            for (int half = 0; half < 2; ++half) {
                const Floats w = fill(weights[begin + p + half]);
#pragma GCC unroll 8
                for (int j = 0; j < C / kLanes; ++j)
                    sums[half][j] =
                        fma(w, load(values + (p + half) * D + kLanes * j), sums[half][j]);
            }
        }
        if (p < live) {
            const Floats w = fill(weights[begin + p]);
#pragma GCC unroll 8
            for (int j = 0; j < C / kLanes; ++j)
                sums[0][j] = fma(w, load(values + p * D + kLanes * j), sums[0][j]);
        }
    }
    for (int j = 0; j < C / kLanes; ++j)
        store(context + first + kLanes * j, (sums[0][j] + sums[1][j]) * fill(share));
}

// One head of one row. `Captured`: also writes the attention weights.
template <typename E, int D, bool Captured>
void attend_head(const char* const* pages, size_t offset, int length, const float* query,
                 float* scores, float* context, [[maybe_unused]] float* weights) {
    constexpr bool kInt8 = sizeof(E) == 1;
    constexpr int kColumns =
        D % std::min(D, kContextColumns) ? kLanes : std::min(D, kContextColumns);  // divides D
    const Floats factor = fill(1.0f / std::sqrt(static_cast<float>(D))),
                 never = fill(-std::numeric_limits<float>::infinity());
    Floats top = never;
    for (int first = 0; first < length; first += kPage) {
        const E* keys = reinterpret_cast<const E*>(pages[first / kPage] + offset);
        Floats score = page_scores<E, D>(keys, query) * factor;
        if constexpr (kInt8)
            score = score * load(reinterpret_cast<const float*>(keys + 2 * kPage * D));
        score = keep_first(std::min(kPage, length - first), score, never);
        top = max(top, score);
        store(scores + first, score);
    }
    const Floats highest = fill(largest(top));
    Floats total = fill(0.0f);
    for (int first = 0; first < length; first += kPage) {
        Floats weight = exponential(load(scores + first) - highest);
        total = total + weight;
        if constexpr (Captured)
            store_first(std::min(kPage, length - first), weights + first, weight);
        if constexpr (kInt8) {
            const E* keys = reinterpret_cast<const E*>(pages[first / kPage] + offset);
            weight = weight * load(reinterpret_cast<const float*>(keys + 2 * kPage * D) + kPage);
        }
        store(scores + first, weight);
    }
    const float share = 1.0f / sum(total);
    if constexpr (Captured)
        for (int p = 0; p < length; ++p) weights[p] *= share;
    for (int first = 0; first < D; first += kColumns)
        weighted_values<E, D, kColumns>(pages, offset, length, scores, share, first, context);
}

// Prefetches the keys and values of a head while the previous head is computed. They are read once
// a step and are not cached.
void fetch_head(const char* const* pages, int count, size_t offset, size_t bytes) {
    for (int page = 0; page < count; ++page)
        for (size_t line = 0; line < bytes; line += 64)
            __builtin_prefetch(pages[page] + offset + line);
}

template <typename E, bool Captured>
decltype(&attend_head<E, 64, Captured>) head_kernel(int dim) {
    switch (dim) {
        case 16: return attend_head<E, 16, Captured>;
        case 32: return attend_head<E, 32, Captured>;
        case 48: return attend_head<E, 48, Captured>;
        case 64: return attend_head<E, 64, Captured>;
        case 96: return attend_head<E, 96, Captured>;
        default: return attend_head<E, 128, Captured>;
    }
}

template <bool Captured>
auto head_kernel(const AttentionShape& shape) {
    return shape.precision == Precision::Int8 ? head_kernel<int8_t, Captured>(shape.dim)
                                              : head_kernel<float, Captured>(shape.dim);
}

// Softmax of scores (rows, padded) over the first `length` columns; the other columns become 0.
void softmax_rows(float* scores, int rows, int length, int padded, float factor) {
    for (int r = 0; r < rows; ++r) {
        float* row = scores + static_cast<size_t>(r) * padded;
        for (int s = length; s < padded; ++s) row[s] = -std::numeric_limits<float>::infinity();
        Floats top = fill(-std::numeric_limits<float>::infinity());
        for (int s = 0; s < padded; s += kLanes) top = max(top, load(row + s));
        const Floats highest = fill(largest(top));
        Floats total = fill(0.0f);
        for (int s = 0; s < padded; s += kLanes) {
            const Floats e = exponential((load(row + s) - highest) * fill(factor));
            total = total + e;
            store(row + s, e);
        }
        const Floats share = fill(1.0f / sum(total));
        for (int s = 0; s < padded; s += kLanes) store(row + s, load(row + s) * share);
    }
}

}  // namespace

void write_position(const AttentionShape& shape, const PageLayout& layout, char* layer,
                    int position, const float* key, const float* value) {
    if (shape.precision == Precision::Int8)
        write_heads<int8_t>(shape, layout, layer, position, key, value);
    else
        write_heads<float>(shape, layout, layer, position, key, value);
}

void read_position(const AttentionShape& shape, const PageLayout& layout, const char* layer,
                   int position, int head, float* key, float* value) {
    const char* keys = layer + head * layout.head_bytes;
    const char* values = keys + kPage * shape.dim * layout.element;
    const float* scales =
        reinterpret_cast<const float*>(values + kPage * shape.dim * layout.element);
    for (int d = 0; d < shape.dim; ++d) {
        const int at = d * kPage + position, to = position * shape.dim + d;
        if (shape.precision == Precision::Int8) {
            key[d] = reinterpret_cast<const int8_t*>(keys)[at] * scales[position];
            value[d] = reinterpret_cast<const int8_t*>(values)[to] * scales[kPage + position];
        } else {
            key[d] = reinterpret_cast<const float*>(keys)[at];
            value[d] = reinterpret_cast<const float*>(values)[to];
        }
    }
}

void attend_pages(const AttentionShape& shape, const PageLayout& layout, const char* const* pages,
                  size_t offset, int length, const float* query, float* scores, float* context,
                  float* weights, size_t weights_stride) {
    const auto kernel = weights ? head_kernel<true>(shape) : head_kernel<false>(shape);
    const int count = (length + kPage - 1) / kPage;
    fetch_head(pages, count, offset, layout.head_bytes);
    for (int h = 0; h < shape.heads; ++h) {
        if (h + 1 < shape.heads)
            fetch_head(pages, count, offset + (h + 1) * layout.head_bytes, layout.head_bytes);
        kernel(pages, offset + h * layout.head_bytes, length, query + h * shape.dim, scores,
               context + h * shape.dim, weights + h * weights_stride);
    }
}

size_t encoder_scratch(int length, int dim) {
    const size_t padded = round_up(length, kPanel), panels = round_up(dim, kPanel);
    return padded * dim + length * panels + kQueries * padded + kQueries * panels;
}

void attend_sentence(int dim, int length, const float* query, const float* key, const float* value,
                     size_t stride, float* context, size_t context_stride, float* scratch,
                     float* weights) {
    const int padded = round_up(length, kPanel), width = round_up(dim, kPanel);
    float* keys = scratch;                                            // (padded / 64, dim, 64)
    float* values = keys + static_cast<size_t>(padded) * dim;         // (length, width)
    float* scores = values + static_cast<size_t>(length) * width;     // (queries, padded)
    float* output = scores + static_cast<size_t>(kQueries) * padded;  // (queries, width)
    std::memset(keys, 0, static_cast<size_t>(padded) * dim * sizeof(float));
    std::memset(values, 0, static_cast<size_t>(length) * width * sizeof(float));
    for (int s = 0; s < length; ++s) {
        float* column = keys + static_cast<size_t>(s / kPanel) * dim * kPanel + s % kPanel;
        for (int d = 0; d < dim; ++d) column[d * kPanel] = key[s * stride + d];
        std::memcpy(values + static_cast<size_t>(s) * width, value + s * stride,
                    dim * sizeof(float));
    }
    for (int first = 0; first < length; first += kQueries) {
        const int rows = std::min(kQueries, length - first);
        for (int s = 0; s < padded; s += kPanel) {
            multiply_panel(query + first * stride, stride, keys + static_cast<size_t>(s) * dim,
                           kPanel, dim, rows, scores + s, padded);
        }
        softmax_rows(scores, rows, length, padded, 1.0f / std::sqrt(static_cast<float>(dim)));
        for (int r = 0; weights && r < rows; ++r) {
            std::memcpy(weights + static_cast<size_t>(first + r) * length,
                        scores + static_cast<size_t>(r) * padded, length * sizeof(float));
        }
        for (int d = 0; d < width; d += kPanel)
            multiply_panel(scores, padded, values + d, width, length, rows, output + d, width);
        for (int r = 0; r < rows; ++r) {
            std::memcpy(context + (first + r) * context_stride,
                        output + static_cast<size_t>(r) * width, dim * sizeof(float));
        }
    }
}

}  // namespace attentive

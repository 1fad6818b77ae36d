#include "layers/linear.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/gemm.h"

namespace attentive {

namespace {

constexpr size_t kHuge = size_t{1} << 21;
constexpr size_t kArenaBlock =
    size_t{1} << 25;  // so large that malloc maps it and returns it to the system when freed
constexpr int kBlocks = kPanel / kTileColumns;  // of a panel

// Copies `count` groups of kBytes bytes into one column of a tile, from every kStep bytes.
template <int kBytes, int kStep>
void copy_groups(const char* source, char* target, int count) {
    for (int i = 0; i < count; ++i, source += kStep, target += kTileColumns * kBytes)
        std::memcpy(target, source, kBytes);
}

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Memory aligned to 64 bytes, or if large to a huge page and advised as such.
std::shared_ptr<void> allocate_aligned(size_t bytes) {
    const size_t alignment = bytes >= kHuge ? kHuge : 64;
    const size_t rounded = round_up(std::max(bytes, alignment), alignment);
    std::shared_ptr<void> memory(std::aligned_alloc(alignment, rounded), std::free);
    if (!memory) throw std::bad_alloc();
    if (alignment == kHuge) madvise(memory.get(), rounded, MADV_HUGEPAGE);
    return memory;
}

// Calls body(row, rows) for tiles of nearly equal height, at most kHighest.
template <int kHighest, typename Body>
void tiles(int rows, Body&& body) {
    for (int row = 0; row < rows;) {
        const int left = rows - row, count = (left + kHighest - 1) / kHighest,
                  height = (left + count - 1) / count;
        body(row, height);
        row += height;
    }
}

constexpr int kAheadBytes = 2048;  // so far ahead a first tile prefetches its own weights

// The number of tiles that prefetch a block, out of `count`: few lines in each keep the memory busy
// all the time.
int ahead_parts(int count) { return std::min(kAheadParts, count > 4 ? 4 : count > 2 ? 2 : 1); }

}  // namespace

std::shared_ptr<void> Arena::allocate(size_t bytes) {
    const size_t rounded = round_up(bytes, 64);
    if (size_ - used_ < rounded) {
        const size_t size = std::max(rounded, kArenaBlock);
        block_ = allocate_aligned(size);
        size_ = size;
        used_ = 0;
    }
    void* part = static_cast<char*>(block_.get()) + used_;
    used_ += rounded;
    return {block_, part};
}

Buffer::Buffer(size_t bytes, Arena* arena)
    : memory_(arena ? arena->allocate(bytes) : allocate_aligned(bytes)), bytes_(bytes) {
    std::memset(memory_.get(), 0, round_up(bytes, 64));
}

void Buffer::reserve(size_t bytes) {
    if (bytes <= bytes_) return;
    *this = Buffer();  // both would need memory at the same time
    *this = Buffer(bytes);
}

Linear::Linear(Precision precision, const float* weight, const float* ranges, const float* bias,
               int out, int in, Arena& arena)
    : precision_(precision),
      out_(out),
      in_(in),
      panels_((out + kPanel - 1) / kPanel),
      depth_(precision == Precision::Int8 ? (in + kDepthStep - 1) / kDepthStep * kDepthStep : in) {
    allocate(&arena);
    if (bias) std::memcpy(bias_.as<float>(), bias, out * sizeof(float));
    if (precision == Precision::Int8)
        pack_int8(weight, ranges);
    else
        pack_float(weight);
}

Linear::Linear(const Linear& all, const int32_t* chosen, int count, Arena* arena)
    : precision_(all.precision_),
      out_(count),
      in_(all.in_),
      panels_((count + kPanel - 1) / kPanel),
      depth_(all.depth_) {
    const bool int8 = precision_ == Precision::Int8;
    allocate(arena);
    for (int n = 0; n < count; ++n) {
        const int from = chosen[n];
        bias_.as<float>()[n] = all.bias_.as<float>()[from];
        if (int8) {
            scales_.as<float>()[n] = all.scales_.as<float>()[from];
            corrections_.as<int32_t>()[n] = all.corrections_.as<int32_t>()[from];
            const char* source = all.rows_.as<char>() + static_cast<size_t>(from) * in_;
            copy_groups<kDepthGroup, kDepthGroup>(
                source, weights_.as<char>() + place(n, kDepthGroup), in_ / kDepthGroup);
        } else {
            const char* source = all.weights_.as<char>() + all.place(from, 1) * sizeof(float);
            copy_groups<sizeof(float), kTileColumns * sizeof(float)>(
                source, weights_.as<char>() + place(n, 1) * sizeof(float), in_);
        }
    }
}

void Linear::keep_rows() {
    if (precision_ != Precision::Int8 || rows_.bytes()) return;
    rows_ = Buffer(static_cast<size_t>(out_) * in_);
    for (int n = 0; n < out_; ++n) {
        const char* source = weights_.as<char>() + place(n, kDepthGroup);
        for (int k = 0; k < in_; k += kDepthGroup) {
            std::memcpy(rows_.as<char>() + static_cast<size_t>(n) * in_ + k,
                        source + static_cast<size_t>(k) * kTileColumns, kDepthGroup);
        }
    }
}

void Linear::allocate(Arena* arena) {
    const size_t columns = static_cast<size_t>(panels_) * kPanel;
    const bool int8 = precision_ == Precision::Int8;
    weights_ = Buffer(columns * depth_ * (int8 ? 1 : sizeof(float)), arena);
    bias_ = Buffer(columns * sizeof(float), arena);
    if (int8) {
        scales_ = Buffer(columns * sizeof(float), arena);
        corrections_ = Buffer(columns * sizeof(int32_t), arena);
    }
}

void Linear::pack_int8(const float* weight, const float* ranges) {
    alignas(64) int8_t quantized[kLanes];
    for (int n = 0; n < out_; ++n) {
        const float* source = weight + static_cast<size_t>(n) * in_;
        const float inverse = inverse_scale(ranges[n]);
        int8_t* target = weights_.as<int8_t>() + place(n, kDepthGroup);
        int32_t sum = 0;
        for (int k = 0; k < in_; k += kLanes) {
            store_bytes(quantized, round_to_int8(load(source + k), inverse));
            for (int i = 0; i < kLanes; ++i) {
                target[static_cast<size_t>(k + i) / kDepthGroup * (kTileColumns * kDepthGroup) +
                       i % kDepthGroup] = quantized[i];
                sum += quantized[i];
            }
        }
        scales_.as<float>()[n] = forward_scale(ranges[n]);
        corrections_.as<int32_t>()[n] = -kOffset * sum;
    }
}

void Linear::pack_float(const float* weight) {
    for (int n = 0; n < out_; ++n) {
        float* target = weights_.as<float>() + place(n, 1);
        for (int k = 0; k < in_; ++k)
            target[static_cast<size_t>(k) * kTileColumns] =
                weight[static_cast<size_t>(n) * in_ + k];
    }
}

// Index of an output's first weight. Its weights lie in groups of `group`, interleaved with those
// of the other columns of its tile.
size_t Linear::place(int output, int group) const {
    return static_cast<size_t>(output / kTileColumns) * kTileColumns * depth_ +
           output % kTileColumns * group;
}

void Linear::panel(const Rows& rows, int panel, int next, int first, int last, float* out,
                   size_t stride) const {
    for (int block = 0; block < kBlocks; ++block, out += kTileColumns) {
        const size_t column = static_cast<size_t>(panel) * kPanel + block * kTileColumns;
        const float* bias = bias_.as<float>() + column;
        if (precision_ == Precision::Int8) {
            const Int8Block weights{weights_.as<int8_t>() + column * depth_,
                                    corrections_.as<int32_t>() + column,
                                    scales_.as<float>() + column,
                                    bias,
                                    in_,
                                    rows.nonnegative};
            const size_t following =
                (static_cast<size_t>(next) * kPanel + block * kTileColumns) * depth_;
            const int8_t* ahead = kAheadParts == 1 ? weights.weights + kAheadBytes
                                  : next < panels_ ? weights_.as<int8_t>() + following
                                                   : nullptr;
#if defined(ATTENTIVE_TILES)
            if (last - first >= kMatrixRows) {
                matrix_int8(weights, ahead, last - first, rows.quantized + first * rows.stride,
                            rows.stride, rows.scales + first, out, stride);
                continue;
            }
#endif
            const int parts = ahead ? ahead_parts((last - first + kTileRows - 1) / kTileRows) : 0;
            int part = kAheadParts == 1 ? 0 : -1;  // else the first tile waits for its own panel
            tiles<kTileRows>(last - first, [&](int row, int height) {
                const bool fetches = part >= 0 && part < parts;
                const size_t begun = fetches ? in_ * kTileColumns / parts * size_t(part) : 0;
                ++part;
                tile_int8(weights, AheadPart{ahead + begun, fetches ? parts : 0}, height,
                          rows.quantized + (first + row) * rows.stride, rows.stride,
                          rows.scales + first + row, out + row * stride, stride);
            });
        } else {
            const float* weights = weights_.as<float>() + column * in_;
            tiles<kFloatTileRows>(last - first, [&](int row, int height) {
                tile_float(height, rows.values + (first + row) * rows.stride, rows.stride, weights,
                           kTileColumns, in_, bias, out + row * stride, stride);
            });
        }
    }
}

void Linear::row(int index, float* values) const {
    if (precision_ == Precision::Float32) {
        const float* source = weights_.as<float>() + place(index, 1);
        for (int k = 0; k < in_; ++k) values[k] = source[static_cast<size_t>(k) * kTileColumns];
        return;
    }
    const int8_t* source = weights_.as<int8_t>() + place(index, kDepthGroup);
    const float scale = scales_.as<float>()[index];
    for (int k = 0; k < in_; k += kDepthGroup)
        for (int i = 0; i < kDepthGroup; ++i)
            values[k + i] = source[static_cast<size_t>(k) * kTileColumns + i] * scale;
}

void multiply_panel(const float* a, size_t a_stride, const float* b, size_t b_stride, int k,
                    int rows, float* c, size_t c_stride) {
    for (int column = 0; column < kPanel; column += kTileColumns) {
        tiles<kFloatTileRows>(rows, [&](int row, int height) {
            tile_float(height, a + row * a_stride, a_stride, b + column, b_stride, k, nullptr,
                       c + row * c_stride + column, c_stride);
        });
    }
}

}  // namespace attentive

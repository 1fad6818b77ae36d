// y = x W^T + b with packed weights, in float32 or in int8 with exact integer sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/gemm.h"

namespace attentive {

enum class Precision { Float32 = 0, Int8 = 1 };

constexpr int kPanel = 64;  // outputs per task: a whole number of tiles

// The number of features rounded up to whole panels.
inline size_t padded_width(int features) {
    return static_cast<size_t>((features + kPanel - 1) / kPanel) * kPanel;
}

// Memory for weights: parts of blocks that are advised as huge pages, so that a step that reads all
// weights needs few entries of the TLB. A block is freed with its last part. The memory after the
// last part of a block is never written, so it is not resident.
class Arena {
  public:
    // Memory aligned to 64 bytes. Throws std::bad_alloc.
    std::shared_ptr<void> allocate(size_t bytes);

  private:
    std::shared_ptr<void> block_;
    size_t size_ = 0, used_ = 0;
};

// Zeroed memory, aligned to 64 bytes: a part of `arena`, or without one on its own (2 MiB and
// advised as huge pages when large).
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(size_t bytes, Arena* arena = nullptr);
    Buffer(Buffer&&) = default;
    Buffer& operator=(Buffer&&) = default;
    template <typename T>
    T* as() const {
        return static_cast<T*>(memory_.get());
    }
    size_t bytes() const { return bytes_; }
    // Grows to at least `bytes`; growing discards the contents.
    void reserve(size_t bytes);

  private:
    std::shared_ptr<void> memory_;
    size_t bytes_ = 0;
};

// Input of a Linear: float32 (rows, stride), or int8 (rows, stride) in the format of gemm.h with
// one scale per row.
struct Rows {
    const float* values;
    const Quantized* quantized;
    const float* scales;
    size_t stride;
    bool nonnegative = false;  // after ReLU
};

class Linear {
  public:
    // weight (out, in) row-major; ranges (out), the magnitudes that become 127 in int8, null for
    // float32; bias (out) or null. in must be a multiple of 16.
    Linear(Precision precision, const float* weight, const float* ranges, const float* bias,
           int out, int in, Arena& arena);

    // The outputs `chosen` of another Linear that has kept its rows, with the same weights. Without
    // an arena it has its own memory.
    Linear(const Linear& all, const int32_t* chosen, int count, Arena* arena = nullptr);

    // Keeps a copy of int8 weights in row-major order, from which outputs are copied: a packed row
    // lies in many cache lines.
    void keep_rows();

    // Outputs [panel * 64, panel * 64 + 64) of rows [first, last): out[(row - first) * stride + j].
    // Columns past `out` are 0. `next` is the panel to prefetch: the one this thread will probably
    // compute next (panels() for none).
    void panel(const Rows& rows, int panel, int next, int first, int last, float* out,
               size_t stride) const;
    // One row of the weight matrix as float32 (embedding lookup).
    void row(int index, float* values) const;

    int in() const { return in_; }
    int out() const { return out_; }
    int panels() const { return panels_; }

  private:
    void allocate(Arena* arena);
    void pack_int8(const float* weight, const float* ranges);
    void pack_float(const float* weight);
    size_t place(int output, int group) const;

    Precision precision_;
    int out_, in_, panels_;
    int depth_;           // in, for int8 rounded up to a multiple of kDepthStep
    Buffer weights_;      // with C = kTileColumns, int8: (columns / C, depth / G, C, G) with G =
                          // kDepthGroup; float32: (columns / C, in, C)
    Buffer rows_;         // (out, in), int8 only; empty until keep_rows
    Buffer scales_;       // (panels * 64) float32, int8 only
    Buffer corrections_;  // (panels * 64) int32: see Int8Block
    Buffer bias_;         // (panels * 64) float32
};

// c (rows, 64) = a (rows, k) b (k, 64) in float32, sums in the order of k.
void multiply_panel(const float* a, size_t a_stride, const float* b, size_t b_stride, int k,
                    int rows, float* c, size_t c_stride);

}  // namespace attentive

// Plain C++ in place of gemm_x86.cpp, for the emulation of AMX on processors without AVX-512, and functions for its tests.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "kernels/gemm.h"
#include "layers/linear.h"
#include "kernels/tile_unit.h"

namespace attentive {

void tile_int8(const Int8Block& block, const AheadPart&, int rows, const Quantized* a, size_t a_stride, const float* row_scales, float* out,
               size_t out_stride) {
    for (int r = 0; r < rows; ++r) {
        int32_t sums[kTileColumns];
        std::copy_n(block.corrections, kTileColumns, sums);
        for (int k = 0; k < block.k; ++k) {
            const int8_t* weights = block.weights + k / 4 * 4 * kTileColumns + k % 4;
            for (int n = 0; n < kTileColumns; ++n) sums[n] += a[r * a_stride + k] * weights[4 * n];
        }
        for (int n = 0; n < kTileColumns; ++n) {
            out[r * out_stride + n] = std::fma(static_cast<float>(sums[n]), row_scales[r] * block.scales[n], block.bias[n]);
        }
    }
}

}  // namespace attentive

using namespace attentive;

extern "C" {

// out (rows, outputs rounded up to 64): the int8 product of activations (rows, k), already quantised and with scales, by float32
// weights (outputs, k), `together` rows at a time. counts: executed loads, stores and products of tiles.
void emulated_product(int rows, int outputs, int k, int together, const int8_t* activations, const float* row_scales, const float* weights,
                      const float* bias, float* out, int64_t* counts) {
    const Buffer ranges(outputs * sizeof(float));
    for (int n = 0; n < outputs; ++n) ranges.as<float>()[n] = max_magnitude(weights + static_cast<size_t>(n) * k, k);
    Arena arena;
    const Linear linear(Precision::Int8, weights, ranges.as<float>(), bias, outputs, k, arena);
    const Buffer bytes(static_cast<size_t>(rows) * k + kDepthStep);
    Quantized* quantized = bytes.as<Quantized>();
    for (int i = 0; i < rows * k; ++i) quantized[i] = static_cast<Quantized>(activations[i] + kOffset);
    std::memset(quantized + rows * k, 0xff, kDepthStep);
    const Rows input{nullptr, quantized, row_scales, static_cast<size_t>(k)};
    const size_t stride = padded_width(outputs);
    const MatrixUnit unit;
    emulated_tiles.loads = emulated_tiles.stores = emulated_tiles.products = 0;
    for (int first = 0; first < rows; first += together) {
        const int last = std::min(rows, first + together);
        for (int panel = 0; panel < linear.panels(); ++panel) linear.panel(input, panel, panel + 1, first, last, out + first * stride + panel * kPanel, stride);
    }
    counts[0] = emulated_tiles.loads;
    counts[1] = emulated_tiles.stores;
    counts[2] = emulated_tiles.products;
}

// Returns 1 if the emulation refuses a load with 16 rows of `bytes` bytes in tile 0, or without a configuration (bytes = -1), and a
// product whose weights have `depth` rows.
int emulated_refusal(int bytes, int depth) {
    alignas(64) char memory[1024] = {};
    TileShapes shapes{};
    shapes.palette = 1;
    for (int tile = 0; tile < 3; ++tile) {
        shapes.rows[tile] = static_cast<uint8_t>(tile == 2 ? depth : 16);
        shapes.row_bytes[tile] = static_cast<uint16_t>(tile == 0 ? bytes : 64);
    }
    release_tiles();
    try {
        if (bytes >= 0) set_tile_shapes(shapes);
        load_tile<0>(memory, 64);
        multiply_tiles<0, 1, 2>();
    } catch (const std::exception&) {
        release_tiles();
        return 1;
    }
    release_tiles();
    return 0;
}

}  // extern "C"

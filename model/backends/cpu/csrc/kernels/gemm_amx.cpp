// AMX products of 16 rows and more: tiles of 16 rows by 16 outputs, 64 values of k at a time, two
// by two or one by four.
#include "kernels/gemm.h"

#if defined(ATTENTIVE_TILES)

#include "kernels/tile_unit.h"

namespace attentive {

namespace {

constexpr size_t kGroupBytes = 4 * kTileColumns;  // of four values of k for all outputs of a block
constexpr size_t kStepBytes = kDepthStep * kTileColumns;  // of 64 values of k
constexpr int kStoredColumns = 32;                        // of the sums that are stored together
static_assert(kDepthStep == kTileBytes && kMatrixRows == kTileHeight && kTileColumns == 64);

struct Product {
    const Int8Block& block;
    const int8_t* ahead;
    const Quantized* a;
    size_t a_stride;
    const float* row_scales;
    float* out;
    size_t out_stride;

    // 64 values of k of 16 rows
    const Quantized* activations(int row, int step) const {
        return a + row * a_stride + step * kDepthStep;
    }
    // 64 values of k of 16 outputs
    const int8_t* weights(int column, int step) const {
        return block.weights + step * kStepBytes + 4 * column;
    }
    int steps() const { return (block.k + kDepthStep - 1) / kDepthStep; }

    // The sums start with the corrections, which are equal in all rows.
    template <int kTile>
    void start(int column) const {
        load_tile<kTile>(block.corrections + column, 0);
    }

    // Prefetches half a step of the next block.
    void prefetch(int step, int half) const {
        if (!ahead) return;
        const int8_t* from = ahead + step * kStepBytes + half * (kStepBytes / 2);
        for (size_t line = 0; line < kStepBytes / 2; line += 64)
            _mm_prefetch(reinterpret_cast<const char*>(from + line), _MM_HINT_T1);
    }

    // Sums (16, 32) of rows from `row` and outputs from `column`, to float32.
    void finish(const int32_t (&sums)[kTileHeight][kStoredColumns], int row, int column) const {
        for (int r = 0; r < kTileHeight; ++r) {
            const Floats scale = fill(row_scales[row + r]);
            for (int j = 0; j < kStoredColumns; j += kLanes) {
                const Floats factor = scale * load(block.scales + column + j);
                store(out + (row + r) * out_stride + column + j,
                      fma(load(sums[r] + j), factor, load(block.bias + column + j)));
            }
        }
    }

    template <int kLeft>
    void store_pair(int row, int column) const {
        alignas(64) int32_t sums[kTileHeight][kStoredColumns];
        store_tile<kLeft>(sums[0], sizeof sums[0]);
        store_tile<kLeft + 1>(sums[0] + kTileHeight, sizeof sums[0]);
        finish(sums, row, column);
    }
};

// Rows from `upper` and from `lower`, 32 outputs at a time: four products for four loaded tiles.
void two_by_two(const Product& product, int upper, int lower) {
    const int steps = product.steps();
    for (int column = 0; column < kTileColumns; column += kStoredColumns) {
        product.start<0>(column);
        product.start<1>(column + kTileHeight);
        product.start<2>(column);
        product.start<3>(column + kTileHeight);
        for (int step = 0; step < steps; ++step) {
            product.prefetch(step, column / kStoredColumns);
            load_tile<6>(product.weights(column, step), kGroupBytes);
            load_tile<7>(product.weights(column + kTileHeight, step), kGroupBytes);
            load_tile<4>(product.activations(upper, step), product.a_stride);
            multiply_tiles<0, 4, 6>();
            multiply_tiles<1, 4, 7>();
            load_tile<5>(product.activations(lower, step), product.a_stride);
            multiply_tiles<2, 5, 6>();
            multiply_tiles<3, 5, 7>();
        }
        product.store_pair<0>(upper, column);
        product.store_pair<2>(lower, column);
    }
}

// 16 rows, all 64 outputs: four independent sums hide the latency of the products.
void one_by_four(const Product& product, int row) {
    const int steps = product.steps();
    product.start<0>(0);
    product.start<1>(kTileHeight);
    product.start<2>(2 * kTileHeight);
    product.start<3>(3 * kTileHeight);
    for (int step = 0; step < steps; ++step) {
        product.prefetch(step, 0);
        product.prefetch(step, 1);
        load_tile<4>(product.activations(row, step), product.a_stride);
        load_tile<5>(product.weights(0, step), kGroupBytes);
        multiply_tiles<0, 4, 5>();
        load_tile<6>(product.weights(kTileHeight, step), kGroupBytes);
        multiply_tiles<1, 4, 6>();
        load_tile<7>(product.weights(2 * kTileHeight, step), kGroupBytes);
        multiply_tiles<2, 4, 7>();
        load_tile<5>(product.weights(3 * kTileHeight, step), kGroupBytes);
        multiply_tiles<3, 4, 5>();
    }
    product.store_pair<0>(row, 0);
    product.store_pair<2>(row, kStoredColumns);
}

}  // namespace

MatrixUnit::MatrixUnit() {
    TileShapes shapes{};
    shapes.palette = 1;
    for (int tile = 0; tile < kTiles; ++tile) {
        shapes.row_bytes[tile] = kTileBytes;
        shapes.rows[tile] = kTileHeight;
    }
    set_tile_shapes(shapes);
}

MatrixUnit::~MatrixUnit() { release_tiles(); }

// The last 16 rows may include rows that were already computed: they get the same results again.
void matrix_int8(const Int8Block& block, const int8_t* ahead, int rows, const Quantized* a,
                 size_t a_stride, const float* row_scales, float* out, size_t out_stride) {
    const int last = rows - kTileHeight, count = (rows + kTileHeight - 1) / kTileHeight;
    const auto origin = [&](int index) { return index < count - 1 ? index * kTileHeight : last; };
    for (int index = 0; index < count; index += 2) {
        const Product product{
            block, index + 2 >= count ? ahead : nullptr, a, a_stride, row_scales, out, out_stride};
        if (index + 1 < count)
            two_by_two(product, origin(index), origin(index + 1));
        else
            one_by_four(product, origin(index));
    }
}

}  // namespace attentive

#endif

// Plain C++ in place of the AMX instructions of csrc/tile_unit.h, after the instruction set reference of Intel. What would raise an
// exception on the processor throws std::logic_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace attentive {

constexpr int kTileBytes = 64, kTileHeight = 16, kTiles = 8;

struct alignas(64) TileShapes {
    uint8_t palette, start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
static_assert(sizeof(TileShapes) == 64 && offsetof(TileShapes, row_bytes) == 16 && offsetof(TileShapes, rows) == 48);

// The tile registers of a thread, and the numbers of executed instructions.
struct EmulatedTiles {
    bool configured = false;
    TileShapes shapes{};
    uint8_t data[kTiles][kTileHeight][kTileBytes] = {};
    long loads = 0, stores = 0, products = 0;

    void check(int tile) const {
        if (!configured) throw std::logic_error("a tile instruction without a configuration");
        if (tile < 0 || tile >= kTiles || !shapes.rows[tile]) throw std::logic_error("a tile that is not configured");
    }
};

inline thread_local EmulatedTiles emulated_tiles;

inline void set_tile_shapes(const TileShapes& shapes) {
    bool valid = shapes.palette == 1;
    for (uint8_t byte : shapes.unused) valid = valid && !byte;
    for (int tile = 0; tile < 16; ++tile) {
        const int rows = shapes.rows[tile], bytes = shapes.row_bytes[tile];
        valid = valid && rows <= kTileHeight && bytes <= kTileBytes && !rows == !bytes && (tile < kTiles || !rows);
    }
    if (!valid) throw std::logic_error("an invalid tile configuration");
    emulated_tiles.configured = true;
    emulated_tiles.shapes = shapes;
    std::memset(emulated_tiles.data, 0, sizeof emulated_tiles.data);
}

inline void release_tiles() { emulated_tiles.configured = false; }

template <int kTile>
void load_tile(const void* rows, size_t stride) {
    EmulatedTiles& tiles = emulated_tiles;
    tiles.check(kTile);
    ++tiles.loads;
    std::memset(tiles.data[kTile], 0, sizeof tiles.data[kTile]);
    for (int r = 0; r < tiles.shapes.rows[kTile]; ++r) {
        std::memcpy(tiles.data[kTile][r], static_cast<const char*>(rows) + r * stride, tiles.shapes.row_bytes[kTile]);
    }
}

template <int kTile>
void store_tile(void* rows, size_t stride) {
    EmulatedTiles& tiles = emulated_tiles;
    tiles.check(kTile);
    ++tiles.stores;
    for (int r = 0; r < tiles.shapes.rows[kTile]; ++r) {
        std::memcpy(static_cast<char*>(rows) + r * stride, tiles.data[kTile][r], tiles.shapes.row_bytes[kTile]);
    }
}

// TDPBUSD: sums[m][n] += the sum over k and i of activations[m][4 k + i] (unsigned) * weights[k][4 n + i] (signed).
template <int kSums, int kActivations, int kWeights>
void multiply_tiles() {
    EmulatedTiles& tiles = emulated_tiles;
    for (int tile : {kSums, kActivations, kWeights}) tiles.check(tile);
    const TileShapes& shapes = tiles.shapes;
    if (kSums == kActivations || kSums == kWeights || kActivations == kWeights || shapes.rows[kSums] != shapes.rows[kActivations] ||
        shapes.row_bytes[kSums] != shapes.row_bytes[kWeights] || shapes.row_bytes[kActivations] != 4 * shapes.rows[kWeights]) {
        throw std::logic_error("tiles of a product do not fit");
    }
    ++tiles.products;
    for (int m = 0; m < shapes.rows[kSums]; ++m) {
        uint32_t sums[kTileBytes / 4];  // unsigned: the processor's sums wrap around
        std::memcpy(sums, tiles.data[kSums][m], sizeof sums);
        for (int k = 0; k < shapes.rows[kWeights]; ++k) {
            const uint8_t* four = tiles.data[kActivations][m] + 4 * k;
            for (int n = 0; n < shapes.row_bytes[kSums] / 4; ++n) {
                const int8_t* weights = reinterpret_cast<const int8_t*>(tiles.data[kWeights][k]) + 4 * n;
                int sum = 0;
                for (int i = 0; i < 4; ++i) sum += four[i] * weights[i];
                sums[n] += static_cast<uint32_t>(sum);
            }
        }
        std::memcpy(tiles.data[kSums][m], sums, sizeof sums);
    }
}

}  // namespace attentive

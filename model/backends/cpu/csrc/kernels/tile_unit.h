// The AMX instructions of the int8 products. A tile is 16 rows of 64 bytes: 16 rows of 64
// activations, 16 groups of four weights of 16 outputs, or 16 x 16 sums. Tests replace them by
// plain C++ (tests/support/processors/amx).
#pragma once

#if defined(ATTENTIVE_EMULATED_TILES)
#include "emulated_tiles.h"
#elif defined(__AMX_INT8__)

#include <cstddef>
#include <cstdint>

namespace attentive {

constexpr int kTileBytes = 64, kTileHeight = 16, kTiles = 8;

struct alignas(64) TileShapes {
    uint8_t palette, start_row, unused[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

// The template arguments are numbers of tile registers, 0 to 7. Every thread sets the shapes before
// its first tile.
inline void set_tile_shapes(const TileShapes& shapes) {
    asm volatile("ldtilecfg %0" ::"m"(shapes));
}
inline void release_tiles() { asm volatile("tilerelease"); }

// Loads 16 rows, `stride` bytes apart. With stride 0 all rows are equal.
template <int kTile>
void load_tile(const void* rows, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
void store_tile(void* rows, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride), "i"(kTile) : "memory");
}

// sums (16, 16) += unsigned activations (16, 64) times signed weights (16 groups of four, 16
// outputs). Sums are exact.
template <int kSums, int kActivations, int kWeights>
void multiply_tiles() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kActivations),
                 "i"(kWeights));
}

}  // namespace attentive

#endif

// What somebody who looks inside wants written down of one sentence with S tokens and one target with T queries.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attentive {

// Its layout is that of model/backends/cpu/library.py. Arrays belong to the caller; rows of `decoder` are left alone after their
// own position.
struct Watch {
    enum Kind : int32_t { Nothing = -1, Encoder = 0, Decoder = 1, Cross = 2 };

    int32_t source, queries;    // S, T
    int32_t kind, layer, head;  // the head whose vectors are wanted, or Nothing
    float* encoder;             // (layers, heads, S, S)
    float* decoder;             // (layers, heads, T, T)
    float* cross;               // (layers, heads, T, S)
    float* query;               // (S or T, head width)
    float* key;                 // (S or T, head width), as the head read them: int8 keys and values times their scales
    float* value;

    bool wants(Kind which, int number) const { return kind == which && layer == number; }
    // Where the weights of a head begin, heads numbered through all layers, and those of one of its queries.
    float* encoder_map(int number) const { return encoder + static_cast<size_t>(number) * source * source; }
    float* decoder_row(int number, int row) const { return decoder + (static_cast<size_t>(number) * queries + row) * queries; }
    float* cross_row(int number, int row) const { return cross + (static_cast<size_t>(number) * queries + row) * source; }
    size_t decoder_map() const { return static_cast<size_t>(queries) * queries; }
    size_t cross_map() const { return static_cast<size_t>(queries) * source; }
};

}  // namespace attentive

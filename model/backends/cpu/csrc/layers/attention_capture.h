// Output arrays for the attention of a sentence with S tokens and a target with T queries.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attentive {

// model/backends/cpu/attention_capture.py declares the same layout. The caller owns the arrays. Row
// t of `decoder` is written up to column t.
struct AttentionCapture {
    enum Kind : int32_t { NoHead = -1, Encoder = 0, Decoder = 1, Cross = 2 };

    int32_t source, queries;    // S, T
    int32_t kind, layer, head;  // the head whose query, key and value are written, or NoHead
    float* encoder;             // (layers, heads, S, S)
    float* decoder;             // (layers, heads, T, T)
    float* cross;               // (layers, heads, T, S)
    float* query;               // (S or T, head width)
    float* key;                 // (S or T, head width); int8 keys and values are dequantised
    float* value;
    float* cross_values;  // (layers, heads, S, head width), as `value`
    float* forget_gates;  // (layers, T), the mean of each position's gates; written by decoders
                          // with a recurrence

    bool captures(Kind which, int number) const { return kind == which && layer == number; }
    // Start of the weights of a head, and of one of its queries; `number` counts heads through all
    // layers.
    float* encoder_map(int number) const {
        return encoder + static_cast<size_t>(number) * source * source;
    }
    float* decoder_row(int number, int row) const {
        return decoder + (static_cast<size_t>(number) * queries + row) * queries;
    }
    float* cross_row(int number, int row) const {
        return cross + (static_cast<size_t>(number) * queries + row) * source;
    }
    size_t decoder_map() const { return static_cast<size_t>(queries) * queries; }
    size_t cross_map() const { return static_cast<size_t>(queries) * source; }
};

}  // namespace attentive

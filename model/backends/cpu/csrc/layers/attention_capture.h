// Output arrays for the attention of a sentence with S tokens and a target with T queries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace attentive {

// model/backends/cpu/attention_capture.py declares the same layout. The caller owns the arrays. Row
// t of `decoder` is written up to column t. Layers that are not wanted are left as they are.
struct AttentionCapture {
    enum Kind : int32_t { NoHead = -1, Encoder = 0, Decoder = 1, Cross = 2 };
    // The tensors of one layer, in the order of CAPTURED in model/analysis/tensors.py.
    enum Tensor : int32_t {
        Embedding,
        Stream,
        Input,
        SelfContext,
        SelfOutput,
        SelfNorm,
        CrossContext,
        CrossOutput,
        CrossNorm,
        Inner,
        Outer,
        OuterNorm,
        Tensors
    };

    int32_t source, queries;    // S, T
    int32_t kind, layer, head;  // the head whose query, key and value are written, or NoHead
    int32_t depth, scored;      // decoder layers that run, all of them where tokens are scored
    int32_t followed, followed_layer, followed_row;  // whose tensors are written: Encoder, Decoder
                                                     // or NoHead; -1 for all rows
    int32_t held;  // number of the forced pass that these belong to, and the part of it
    int32_t first_layer, layers, first_row, rows;  // that runs: encoder layers, then queries
    uint64_t encoder_layers, decoder_layers, cross_layers;  // layers whose weights are written, a
    uint64_t value_layers;  // bit each, and those whose values are; all from layer 64 on
    float* encoder;         // (layers, heads, S, S)
    float* decoder;         // (layers, heads, T, T)
    float* cross;           // (layers, heads, T, S)
    float* query;           // (S or T, head width)
    float* key;             // (S or T, head width); int8 keys and values are dequantised
    float* value;
    float* cross_values;      // (layers, heads, S, head width), as `value`
    float* forget_gates;      // (layers, T), the mean of each position's gates; written by decoders
                              // with a recurrence
    float* normalizers;       // (T), log(sum(exp(logits)))
    float* tensors[Tensors];  // (1 or all rows, width of each), null where it is not wanted

    void keep(Kind side, int number, int row, Tensor tensor, const float* values, int count) const {
        if (side != followed || number != followed_layer || !tensors[tensor]) return;
        const int position = side == Decoder ? first_row + row : row;
        if (followed_row < 0 || position == followed_row)
            std::copy_n(values, count,
                        tensors[tensor] + (followed_row < 0 ? size_t(position) * count : 0));
    }
    bool captures(Kind which, int number) const { return kind == which && layer == number; }
    static bool has(uint64_t layers, int layer) { return layer >= 64 || layers >> layer & 1; }
    // Start of the weights of a head, or of one query of the first head of a layer; null where the
    // layer is not wanted.
    float* encoder_map(int layer, int heads, int head) const {
        if (!has(encoder_layers, layer)) return nullptr;
        return encoder + (static_cast<size_t>(layer) * heads + head) * source * source;
    }
    float* decoder_row(int layer, int heads, int row) const {
        if (!has(decoder_layers, layer)) return nullptr;
        return decoder + (static_cast<size_t>(layer) * heads * queries + row) * queries;
    }
    float* cross_row(int layer, int heads, int row) const {
        if (!has(cross_layers, layer)) return nullptr;
        return cross + (static_cast<size_t>(layer) * heads * queries + row) * source;
    }
    size_t decoder_map() const { return static_cast<size_t>(queries) * queries; }
    size_t cross_map() const { return static_cast<size_t>(queries) * source; }
};

}  // namespace attentive

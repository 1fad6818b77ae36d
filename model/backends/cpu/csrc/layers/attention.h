// Scaled dot-product attention (the paper, section 3.2.1): one query over pages, and whole
// sentences in the encoder.
#pragma once

#include "layers/paged_kv.h"

namespace attentive {

struct AttentionShape {
    Precision precision;
    int heads, dim;
};

// Writes one position's keys and values (heads * dim each) into a layer of a page.
void write_position(const AttentionShape& shape, const PageLayout& layout, char* layer,
                    int position, const float* key, const float* value);

// Reads one head's key and value (dim each) of a position, dequantised.
void read_position(const AttentionShape& shape, const PageLayout& layout, const char* layer,
                   int position, int head, float* key, float* value);

// All heads of one row: query (heads * dim) over the first `length` positions of `pages`, whose
// layer starts at `offset`. scores: scratch of at least `length` floats, rounded up to 16. context:
// output (heads * dim). weights: null, or the output for the attention weights, head h at weights +
// h * weights_stride. The result does not depend on `weights`.
void attend_pages(const AttentionShape& shape, const PageLayout& layout, const char* const* pages,
                  size_t offset, int length, const float* query, float* scores, float* context,
                  float* weights = nullptr, size_t weights_stride = 0);

// One head of one sentence in the encoder: query, key, value (length, dim) with row stride
// `stride`; context (length, dim) with `context_stride`. scratch: encoder_scratch(length, dim)
// floats. weights: null, or the output (length, length).
void attend_sentence(int dim, int length, const float* query, const float* key, const float* value,
                     size_t stride, float* context, size_t context_stride, float* scratch,
                     float* weights = nullptr);
size_t encoder_scratch(int length, int dim);

}  // namespace attentive

// Scaled dot-product attention (section 3.2.1): one query over pages, and whole sentences in the encoder.
#pragma once

#include "paged_kv.h"

namespace attentive {

struct AttentionShape {
    Precision precision;
    int heads, dim;
};

bool supported_head(int dim);

// Writes one position's keys and values (heads * dim each) into a layer of a page.
void write_position(const AttentionShape& shape, const PageLayout& layout, char* layer, int position, const float* key,
                    const float* value);

// One head's key and value (dim each) of a position, as attend_pages reads them.
void read_position(const AttentionShape& shape, const PageLayout& layout, const char* layer, int position, int head, float* key,
                   float* value);

// All heads of one row: query (heads * dim) over the first `length` positions of `pages`, whose layer starts at `offset`.
// scores holds at least length rounded up to 16 values; context receives (heads * dim). Where `weights` is not null, head h's
// `length` attention weights go to weights + h * weights_stride; the arithmetic is the same.
void attend_pages(const AttentionShape& shape, const PageLayout& layout, const char* const* pages, size_t offset, int length,
                  const float* query, float* scores, float* context, float* weights = nullptr, size_t weights_stride = 0);

// One head of one sentence in the encoder: query, key, value (length, dim) with row stride `stride`, context likewise with
// `context_stride`. scratch holds encoder_scratch(length, dim) floats. `weights`, where not null, receives (length, length).
void attend_sentence(int dim, int length, const float* query, const float* key, const float* value, size_t stride, float* context,
                     size_t context_stride, float* scratch, float* weights = nullptr);
size_t encoder_scratch(int length, int dim);

}  // namespace attentive

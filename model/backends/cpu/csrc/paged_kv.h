// Keys and values in pages of 16 positions, shared between slots and copied only when written (beams fork for free).
#pragma once

#include <cstdint>
#include <vector>

#include "linear.h"

namespace attentive {

constexpr int kPage = 16;  // positions in a page: one AVX-512 register of scores

// Where a layer's head lies in a page: keys (D, 16), values (16, D), then 16 scales each when they are int8.
struct PageLayout {
    PageLayout(Precision precision, int layers, int heads, int dim)
        : element(precision == Precision::Int8 ? 1 : sizeof(float)),
          head_bytes(static_cast<size_t>(kPage) * dim * element * 2 + (precision == Precision::Int8 ? 2 * kPage * sizeof(float) : 0)),
          layer_bytes(head_bytes * heads),
          bytes(layer_bytes * layers) {}

    const size_t element, head_bytes, layer_bytes, bytes;
};

// A growing pool of reference-counted pages.
class Pages {
  public:
    explicit Pages(size_t page_bytes) : page_bytes_(page_bytes) {}

    int take();  // a page with one reference; throws std::bad_alloc
    void share(int page) { ++references_[page]; }
    void drop(int page);
    // The page to write to instead of `page`: itself if nobody shares it, else a copy (the shared one is dropped).
    int writable(int page);
    char* at(int page) const { return slabs_[page / kSlab].as<char>() + page % kSlab * page_bytes_; }
    size_t bytes() const { return slabs_.size() * kSlab * page_bytes_; }
    int used() const { return static_cast<int>(references_.size() - free_.size()); }

  private:
    static constexpr int kSlab = 32;  // pages allocated together

    const size_t page_bytes_;
    std::vector<Buffer> slabs_;
    std::vector<int> references_;
    std::vector<int> free_;
};

}  // namespace attentive

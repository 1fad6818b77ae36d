// Keys and values in pages of 16 positions. Slots share pages; a shared page is copied when it is
// written (beam search).
#pragma once

#include <cstdint>
#include <vector>

#include "layers/linear.h"

namespace attentive {

constexpr int kPage = 16;  // positions in a page: one AVX-512 register of scores

// Layout of a head in a layer of a page: keys (D, 16), values (16, D), then for int8 16 scales of
// each.
struct PageLayout {
    PageLayout(Precision precision, int layers, int heads, int dim)
        : element(precision == Precision::Int8 ? 1 : sizeof(float)),
          head_bytes(static_cast<size_t>(kPage) * dim * element * 2 +
                     (precision == Precision::Int8 ? 2 * kPage * sizeof(float) : 0)),
          layer_bytes(head_bytes * heads),
          bytes(layer_bytes * layers) {}

    const size_t element, head_bytes, layer_bytes, bytes;
};

// A growing pool of pages with reference counts.
class PagePool {
  public:
    explicit PagePool(size_t page_bytes) : page_bytes_(page_bytes) {}

    int allocate();  // a page with one reference; may throw std::bad_alloc
    void retain(int page) { ++references_[page]; }
    void release(int page);
    // The page to write to: `page` itself if it has one reference, else a copy (copy on write; a
    // reference to `page` is released).
    int writable(int page);
    char* at(int page) const {
        return slabs_[page / kSlab].as<char>() + page % kSlab * page_bytes_;
    }
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

#include "layers/paged_kv.h"

#include <cstring>

namespace attentive {

int PagePool::allocate() {
    if (free_.empty()) {
        const int first = static_cast<int>(references_.size());
        slabs_.emplace_back(page_bytes_ * kSlab);
        references_.resize(first + kSlab, 0);
        for (int page = first + kSlab - 1; page >= first; --page) free_.push_back(page);
    }
    const int page = free_.back();
    free_.pop_back();
    references_[page] = 1;
    return page;
}

void PagePool::release(int page) {
    if (--references_[page] == 0) free_.push_back(page);
}

int PagePool::writable(int page) {
    if (references_[page] == 1) return page;
    const int copy = allocate();
    std::memcpy(at(copy), at(page), page_bytes_);
    release(page);
    return copy;
}

}  // namespace attentive

#include "paged_kv.h"

#include <cstring>

namespace attentive {

int Pages::take() {
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

void Pages::drop(int page) {
    if (--references_[page] == 0) free_.push_back(page);
}

int Pages::writable(int page) {
    if (references_[page] == 1) return page;
    const int copy = take();
    std::memcpy(at(copy), at(page), page_bytes_);
    drop(page);
    return copy;
}

}  // namespace attentive

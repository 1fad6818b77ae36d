#include "team.h"

#include <immintrin.h>

namespace attentive {

Team::Team(int threads) : size_(threads) {
    for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { work(i); });
}

Team::~Team() {
    stop_ = true;
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

// Spins for some tens of microseconds, as long as a phase or the pause between two steps, and then sleeps in the kernel:
// an idle server burns nothing, and a core that somebody else uses is given up.
void Team::wait_change(const std::atomic<unsigned>& word, unsigned old) {
    for (int spin = 0; spin < 4000; ++spin) {
        if (word.load(std::memory_order_acquire) != old) return;
        _mm_pause();
    }
    while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

void Team::barrier(unsigned phase) {
    const unsigned generation = generation_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
        arrived_.store(0, std::memory_order_relaxed);
        next_[phase & 1].store(0, std::memory_order_relaxed);  // the phase after the next one counts from zero again
        generation_.store(generation + 1, std::memory_order_release);
        generation_.notify_all();
    } else {
        wait_change(generation_, generation);
    }
}

void Team::work(int index) {
    unsigned seen = 0;
    for (;;) {
        wait_change(start_, seen);
        ++seen;
        if (stop_) return;
        Member member(*this, index);
        (*job_)(member);
        barrier(0);
    }
}

void Team::run(const std::function<void(Member&)>& job) {
    Member member(*this, 0);
    if (size_ == 1) {
        job(member);
        return;
    }
    next_[0].store(0, std::memory_order_relaxed);
    next_[1].store(0, std::memory_order_relaxed);
    job_ = &job;
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    job(member);
    barrier(0);
}

}  // namespace attentive

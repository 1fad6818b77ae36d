#include "thread_pool.h"

#include <immintrin.h>

#include <system_error>

namespace attentive {

// A moment of waiting: a pause at first, about as long as a phase takes; then the core is offered to others, one of whom may
// be the member that is waited for.
void relax(int turn) {
    if (turn < 2000) {
        _mm_pause();
    } else {
        std::this_thread::yield();
    }
}

Team::Team(int threads) : size_(threads) {
    threads_.reserve(size_);
    try {
        for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error&) {  // the system gives no more threads: fewer helpers do the same work
    }
}

Team::~Team() {
    stop_ = true;
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

bool Team::enter() {
    int inside = gate_.load(std::memory_order_relaxed);
    while (inside >= 0) {
        if (gate_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire)) return true;
    }
    return false;
}

// A helper's life. It sleeps in the kernel when no job comes for a while: an idle server burns nothing.
void Team::work(int index) {
    constexpr int kSpins = 3000;  // some tens of microseconds: the pause between two steps
    for (unsigned seen = 0;;) {
        for (int spin = 0; spin < kSpins && start_.load(std::memory_order_acquire) == seen; ++spin) _mm_pause();
        start_.wait(seen, std::memory_order_acquire);
        seen = start_.load(std::memory_order_acquire);
        if (stop_) return;
        if (!enter()) continue;  // the job is over already
        Member member(*this, index);
        (*job_)(member);
        gate_.fetch_sub(1, std::memory_order_release);
    }
}

void Team::run(int phases, const std::function<void(Member&)>& job) {
    Member member(*this, 0);
    if (size_ == 1) {
        job(member);
        return;
    }
    if (phases > phase_count_) {
        phases_ = std::make_unique<Phase[]>(phases);
        phase_count_ = phases;
    }
    for (int i = 0; i < phases; ++i) {
        phases_[i].next.store(0, std::memory_order_relaxed);
        phases_[i].done.store(0, std::memory_order_relaxed);
    }
    job_ = &job;
    gate_.store(0, std::memory_order_release);
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    job(member);
    gate_.fetch_add(kClosed, std::memory_order_relaxed);
    wait([&] { return gate_.load(std::memory_order_acquire) == kClosed; });
}

}  // namespace attentive

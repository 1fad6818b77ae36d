#include "layers/thread_pool.h"

#if !defined(__aarch64__)
#include <immintrin.h>
#endif

#include <exception>
#include <system_error>

namespace attentive {

namespace {

// Tells the processor that the thread waits.
void pause() {
#if defined(__aarch64__)
    asm volatile("isb");  // `yield` takes no time on most processors
#else
    _mm_pause();
#endif
}

}  // namespace

// One iteration of a waiting loop: pauses for about the duration of a phase, then yields the core
// to other threads, one of which may have to finish the phase.
void pause_or_yield(int spins) {
    if (spins < 2000) {
        pause();
    } else {
        std::this_thread::yield();
    }
}

ThreadPool::ThreadPool(int threads) : size_(threads) {
    threads_.reserve(size_);
    try {
        for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { run_thread(i); });
    } catch (const std::system_error&) {  // no more threads can be started: the pool works with
                                          // those it has
    }
}

ThreadPool::~ThreadPool() {
    stop_ = true;
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    for (std::atomic<Phase*>& block : blocks_) delete[] block.load(std::memory_order_relaxed);
}

bool ThreadPool::enter() {
    int inside = gate_.load(std::memory_order_relaxed);
    while (inside >= 0) {
        if (gate_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire)) return true;
    }
    return false;
}

// The loop of a pool thread: spins for a short time, then sleeps in the kernel, so an idle process
// uses no CPU time.
void ThreadPool::run_thread(int index) {
    constexpr int kSpins = 3000;  // some tens of microseconds: the time between two steps
    for (unsigned seen = 0;;) {
        for (int spin = 0; spin < kSpins && start_.load(std::memory_order_acquire) == seen; ++spin)
            pause();
        start_.wait(seen, std::memory_order_acquire);
        seen = start_.load(std::memory_order_acquire);
        if (stop_) return;
        if (!enter()) continue;  // the job has ended
        PoolThread thread(*this, index);
        (*job_)(thread);
        gate_.fetch_sub(1, std::memory_order_release);
    }
}

ThreadPool::Phase& ThreadPool::phase(int index) {
    if (index >= kBlocks * kBlock) std::terminate();  // a model of thousands of layers
    std::atomic<Phase*>& block = blocks_[index / kBlock];
    Phase* phases = block.load(std::memory_order_acquire);
    if (!phases) {
        Phase* allocated = new Phase[kBlock];
        if (block.compare_exchange_strong(phases, allocated, std::memory_order_acq_rel)) {
            phases = allocated;
        } else {  // another thread was first
            delete[] allocated;
        }
    }
    return phases[index % kBlock];
}

void ThreadPool::run(const std::function<void(PoolThread&)>& job) {
    PoolThread thread(*this, 0);
    if (size_ == 1) {
        job(thread);
        return;
    }
    job_ = &job;
    gate_.store(0, std::memory_order_release);
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    job(thread);
    gate_.fetch_add(kClosed, std::memory_order_relaxed);
    wait([&] { return gate_.load(std::memory_order_acquire) == kClosed; });
    for (int i = 0; i < thread.phase_; ++i) {
        Phase& used = phase(i);
        used.next.store(0, std::memory_order_relaxed);
        used.done.store(0, std::memory_order_relaxed);
    }
}

}  // namespace attentive

#include "layers/thread_pool.h"

#if !defined(__aarch64__)
#include <immintrin.h>
#endif

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
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

constexpr int kStepSpins = 3000;    // some tens of microseconds: the time between two steps
constexpr int kPhaseSpins = 30000;  // longer than a task of a phase

}  // namespace

template <typename Condition>
void ThreadPool::Word::wait(int spins, Condition&& fulfilled) {
    for (int spin = 0; spin < spins; ++spin) {
        if (fulfilled(value.load(std::memory_order_acquire))) return;
        pause();
    }
    sleepers_.fetch_add(1);
    for (int now = value.load(); !fulfilled(now); now = value.load())
        syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0);
    sleepers_.fetch_sub(1);
}

int ThreadPool::Word::add(int number) {
    const int sum = value.fetch_add(number) + number;
    if (sleepers_.load())
        syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    return sum;
}

void ThreadPool::finish(Phase& phase, int finished, int count) {
    const Timed timed(Work::Meeting);
    if (finished && phase.done.add(finished) == count) return;
    phase.done.wait(kPhaseSpins, [&](int done) { return done == count; });
}

ThreadPool::ThreadPool(int threads) : size_(threads) {
    threads_.reserve(size_);
    try {
        for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { run_thread(i); });
    } catch (const std::system_error&) {  // the pool works with the threads that it has
    }
}

ThreadPool::~ThreadPool() {
    stop_ = true;
    start_.add(1);
    for (std::thread& thread : threads_) thread.join();
    for (std::atomic<Phase*>& block : blocks_) delete[] block.load(std::memory_order_relaxed);
}

bool ThreadPool::enter() {
    int inside = gate_.value.load(std::memory_order_relaxed);
    while (inside >= 0)
        if (gate_.value.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire))
            return true;
    return false;
}

// The loop of a pool thread. It sleeps between jobs, so an idle process uses no CPU time.
void ThreadPool::run_thread(int index) {
    for (int seen = 0;;) {
        start_.wait(kStepSpins, [&](int jobs) { return jobs != seen; });
        seen = start_.value.load(std::memory_order_acquire);
        if (stop_) return;
        if (!enter()) continue;  // the job has ended
        PoolThread thread(*this, index);
        {
            const Timed timed(Work::Other);
            (*job_)(thread);
        }
        gate_.add(-1);
    }
}

ThreadPool::Phase& ThreadPool::phase(int index) {
    if (index >= kBlocks * kBlock) std::terminate();  // a model of thousands of layers
    std::atomic<Phase*>& block = blocks_[index / kBlock];
    Phase* phases = block.load(std::memory_order_acquire);
    if (!phases) {
        Phase* allocated = new Phase[kBlock];
        if (block.compare_exchange_strong(phases, allocated, std::memory_order_acq_rel))
            phases = allocated;
        else  // another thread was first
            delete[] allocated;
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
    gate_.value.store(0, std::memory_order_release);
    start_.add(1);
    job(thread);
    gate_.value.fetch_add(kClosed, std::memory_order_relaxed);
    const Timed timed(Work::Meeting);
    gate_.wait(kPhaseSpins, [](int inside) { return inside == kClosed; });
    for (int i = 0; i < thread.phase_; ++i) {
        Phase& used = phase(i);
        used.next.store(0, std::memory_order_relaxed);
        used.done.value.store(0, std::memory_order_relaxed);
    }
}

}  // namespace attentive

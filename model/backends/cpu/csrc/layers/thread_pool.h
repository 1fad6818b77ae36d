// A pool of threads that run one job together, phase by phase. A phase ends when all its tasks are
// done, not when every thread has arrived, so a thread that is not scheduled delays the others only
// if it was interrupted during a task.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "kernels/gemm.h"
#include "layers/profile.h"

namespace attentive {

constexpr int kMaxThreads = 256;

class ThreadPool;

struct RowRange {
    int first, last;
};

// A thread of a running job. All threads go through the same phases in the same order.
class PoolThread {
  public:
    PoolThread(ThreadPool& pool, int index) : index(index), pool_(pool) {}

    // One phase: calls body(i) once for every i in [0, count), distributed over the threads.
    // Returns when all calls are done.
    template <typename Body>
    void parallel_for(int count, Body&& body);
    // The same for every row of a range.
    template <typename Body>
    void parallel_for(RowRange rows, Body&& body) {
        parallel_for(rows.last - rows.first, [&](int i) { body(rows.first + i); });
    }
    // One phase, in whose calls of body(i) every parallel_for runs on the calling thread alone.
    template <typename Body>
    void parallel_alone(int count, Body&& body) {
        parallel_for(count, [&](int i) {
            alone_ = true;
            body(i);
            alone_ = false;
        });
    }

    const int index;

  private:
    friend class ThreadPool;
    ThreadPool& pool_;
    [[no_unique_address]] MatrixUnit unit_;
    int phase_ = 0;
    bool alone_ = false;
};

class ThreadPool {
  public:
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int size() const { return size_; }
    // Runs a job on all threads; the caller is thread 0. The job must not throw.
    void run(const std::function<void(PoolThread&)>& job);

  private:
    friend class PoolThread;
    // A number that threads wait for. They pause `spins` times, then sleep in the kernel, but never
    // yield: since Linux 6.18 each yield costs a thread its turn, and a step could take 135 ms.
    class Word {
      public:
        explicit Word(int first = 0) : value(first) {}
        // Adds to the value and wakes those that sleep. Returns the sum.
        int add(int number);
        // Waits until the condition is true for the value.
        template <typename Condition>
        void wait(int spins, Condition&& fulfilled);

        std::atomic<int> value;

      private:
        std::atomic<int> sleepers_{0};
    };
    struct alignas(64) Phase {
        std::atomic<int> next{0};  // the next task to start
        Word done;                 // finished tasks
    };
    static constexpr int kClosed = -1000000;
    static constexpr int kBlock = 64;     // phases that are allocated together
    static constexpr int kBlocks = 1024;  // beyond them the process ends

    // The counters of the phase `index` of the running job, allocated when the first thread reaches
    // it.
    Phase& phase(int index);
    void run_thread(int index);
    bool enter();
    // Counts the finished tasks of a phase and waits for those of the other threads.
    void finish(Phase& phase, int finished, int count);

    const int size_;
    const std::function<void(PoolThread&)>* job_ = nullptr;
    std::array<std::atomic<Phase*>, kBlocks> blocks_{};  // between jobs all their counters are 0
    std::atomic<bool> stop_{false};
    alignas(64) Word start_;  // counts jobs
    // Other threads inside the job, plus kClosed while none may enter.
    alignas(64) Word gate_{kClosed};
    std::vector<std::thread> threads_;
};

template <typename Body>
void PoolThread::parallel_for(int count, Body&& body) {
    if (pool_.size_ == 1 || alone_) {
        for (int i = 0; i < count; ++i) body(i);
        return;
    }
    ThreadPool::Phase& phase = pool_.phase(phase_++);
    int finished = 0;
    for (int i = phase.next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = phase.next.fetch_add(1, std::memory_order_relaxed)) {
        body(i);
        ++finished;
    }
    pool_.finish(phase, finished, count);
}

}  // namespace attentive

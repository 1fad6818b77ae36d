// A team of threads that runs one function together, phase by phase. A phase ends when its work is done, not when every thread
// has come: a thread that the kernel gives no time to holds nobody up, unless it was stopped in the middle of a piece of work.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace attentive {

constexpr int kMaxThreads = 256;

class Team;

// One thread's view of a running job. Every member goes through the same phases in the same order.
class Member {
  public:
    Member(Team& team, int index) : index(index), team_(team) {}

    // Has body(i) called once for every i in [0, count), by whichever members are there, and returns when all calls are done.
    template <typename Body>
    void each(int count, Body&& body);

    const int index;

  private:
    Team& team_;
    int phase_ = 0;
};

class Team {
  public:
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return size_; }
    // Runs a job of at most `phases` calls of `each` on the members, the caller being member 0. The job must not throw.
    void run(int phases, const std::function<void(Member&)>& job);

  private:
    friend class Member;
    struct alignas(64) Phase {
        std::atomic<int> next{0};  // the next piece of work to take
        std::atomic<int> done{0};  // pieces that are finished
    };
    static constexpr int kClosed = -1000000;

    void work(int index);
    bool enter();
    template <typename Condition>
    static void wait(Condition&& fulfilled);

    const int size_;
    const std::function<void(Member&)>* job_ = nullptr;
    std::unique_ptr<Phase[]> phases_;
    int phase_count_ = 0;
    std::atomic<bool> stop_{false};
    alignas(64) std::atomic<unsigned> start_{0};   // counts jobs
    alignas(64) std::atomic<int> gate_{kClosed};   // helpers inside the job, plus kClosed while none may enter
    std::vector<std::thread> threads_;
};

void relax(int turn);

template <typename Condition>
void Team::wait(Condition&& fulfilled) {
    for (int turn = 0; !fulfilled(); ++turn) relax(turn);
}

template <typename Body>
void Member::each(int count, Body&& body) {
    if (team_.size_ == 1) {
        for (int i = 0; i < count; ++i) body(i);
        return;
    }
    Team::Phase& phase = team_.phases_[phase_++];
    int finished = 0;
    for (int i = phase.next.fetch_add(1, std::memory_order_relaxed); i < count; i = phase.next.fetch_add(1, std::memory_order_relaxed)) {
        body(i);
        ++finished;
    }
    if (finished) phase.done.fetch_add(finished, std::memory_order_acq_rel);
    Team::wait([&] { return phase.done.load(std::memory_order_acquire) == count; });
}

}  // namespace attentive

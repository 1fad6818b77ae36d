// A team of threads that runs one function together, phase by phase: a spinning barrier costs well under a microsecond,
// so that a decoding step of some seventy phases stays cheap even for a single sentence.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace attentive {

constexpr int kMaxThreads = 256;

class Team;

// One thread's view of a running job. Every member must go through the same phases in the same order.
class Member {
  public:
    Member(Team& team, int index) : index(index), team_(team) {}

    // Calls body(i) once for every i in [0, count), spread over the team, then waits for all members.
    template <typename Body>
    void each(int count, Body&& body);

    const int index;

  private:
    Team& team_;
    unsigned phase_ = 0;
};

class Team {
  public:
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return size_; }
    // Runs job on every member, the caller being member 0. The job must not throw.
    void run(const std::function<void(Member&)>& job);

  private:
    friend class Member;
    void work(int index);
    void barrier(unsigned phase);
    static void wait_change(const std::atomic<unsigned>& word, unsigned old);

    const int size_;
    const std::function<void(Member&)>* job_ = nullptr;
    bool stop_ = false;
    alignas(64) std::atomic<unsigned> start_{0};
    alignas(64) std::atomic<unsigned> generation_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int> next_[2] = {0, 0};
    std::vector<std::thread> threads_;
};

template <typename Body>
void Member::each(int count, Body&& body) {
    if (team_.size_ == 1) {
        for (int i = 0; i < count; ++i) body(i);
        return;
    }
    std::atomic<int>& next = team_.next_[phase_ & 1];
    for (int i = next.fetch_add(1, std::memory_order_relaxed); i < count; i = next.fetch_add(1, std::memory_order_relaxed)) {
        body(i);
    }
    team_.barrier(phase_++);
}

}  // namespace attentive

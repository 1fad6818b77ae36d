// The time that threads spend on each kind of work, in a library that is compiled with
// ATTENTIVE_PROFILE (`benchmarks.engine --profile`). In all others Timed is empty.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

namespace attentive {

// In the order of WORK in benchmarks/engine/profile.py. Idle is the time outside calls and jobs.
enum class Work { Idle, Other, Products, Attention, Write, Quantize, Norms, TopK, Meeting, Kinds };

#if defined(ATTENTIVE_PROFILE)
struct alignas(64) ThreadTimes {
    std::array<int64_t, static_cast<size_t>(Work::Kinds)> nanoseconds{};
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
    Work current = Work::Idle;
};
inline std::array<ThreadTimes, 1024> thread_times;  // of all threads that there ever were
inline std::atomic<size_t> timed_threads{0};

// While it exists, the time of its thread belongs to one kind of work, unless to that of a Timed
// within.
class Timed {
  public:
    explicit Timed(Work work) : outer_(enter(work)) {}
    ~Timed() { enter(outer_); }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

  private:
    static Work enter(Work work) {
        thread_local ThreadTimes& times = thread_times[timed_threads++ % thread_times.size()];
        const auto now = std::chrono::steady_clock::now();
        times.nanoseconds[static_cast<size_t>(times.current)] +=
            std::chrono::nanoseconds(now - times.since).count();
        times.since = now;
        return std::exchange(times.current, work);
    }
    const Work outer_;
};
#else
struct [[maybe_unused]] Timed {
    explicit Timed(Work) {}
};
#endif

}  // namespace attentive

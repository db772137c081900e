// Mapping and unmapping that take simulated time: each step of a job takes a random time from the
// seed.
//
// THREAD: one.
#ifndef MCCS_TESTS_SIM_DELAYED_MAPPINGS_H_
#define MCCS_TESTS_SIM_DELAYED_MAPPINGS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "base/clock.h"
#include "service/device/mapping_threads.h"
#include "service/device/memory_mapper.h"

namespace mccs {

class DelayedMappings final : public MappingRunner {
 public:
  // A step takes at most `max_step_ns`. LIFETIME: `clock` outlives this.
  DelayedMappings(const Clock& clock, uint64_t seed, int64_t max_step_ns)
      : clock_(clock), random_(seed), max_step_ns_(max_step_ns) {}

  void Start(Lane lane, std::unique_ptr<MappingJob> job) override {
    LaneOfJobs& own = lanes_[lane == Lane::kMap ? 0 : 1];
    if (own.jobs.empty()) own.next_step = clock_.Now() + Delay();
    own.jobs.Push(std::move(job));
  }

  std::unique_ptr<MappingJob> TakeFinished() override {
    for (LaneOfJobs& lane : lanes_) {
      while (!lane.jobs.empty() && lane.next_step <= clock_.Now()) {
        std::unique_ptr<MappingJob> job = lane.jobs.Pop();
        lane.next_step = clock_.Now() + Delay();
        if (job->Step() == MappingJob::Progress::kDone) return job;
        lane.jobs.Return(std::move(job));
      }
    }
    return nullptr;
  }

  // When TakeFinished next has work to do.
  MonotonicNs NextStepTime() const {
    MonotonicNs next = std::numeric_limits<MonotonicNs>::max();
    for (const LaneOfJobs& lane : lanes_) {
      if (!lane.jobs.empty()) next = std::min(next, lane.next_step);
    }
    return next;
  }

 private:
  struct LaneOfJobs {
    FairJobQueue jobs;
    MonotonicNs next_step = 0;
  };
  int64_t Delay() {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(max_step_ns_ + 1));
  }

  const Clock& clock_;
  std::mt19937_64 random_;
  const int64_t max_step_ns_;
  std::array<LaneOfJobs, 2> lanes_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_DELAYED_MAPPINGS_H_

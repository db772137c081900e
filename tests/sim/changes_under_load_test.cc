// Strategy changes under a job that never pauses, and the delay that they cause, in simulated time.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace changes_under_load_test {

constexpr int64_t kDelayNs = 50 * kNsPerUs;  // of every byte
constexpr uint64_t kCount = 12'000;
constexpr uint64_t kInFlight = 4;  // calls that every rank has posted and not completed

// In-place all-reduces, back to back. Each has its own memory, which is filled before it is posted.
class Load {
 public:
  explicit Load(RunningJob& running) : world_(running.world), job_(running.job) {
    job_.Fill(kInFlight * kCount);
    done_at_.resize(static_cast<size_t>(job_.ranks()), {world_.clock().Now()});
    for (int r = 0; r < job_.ranks(); ++r) {
      for (uint64_t i = 0; i < kInFlight; ++i) Post(r, i);
    }
  }

  // Runs until `done`; the ranks post the next call whenever one completes.
  bool RunUntil(const std::function<bool()>& done) {
    return world_.RunUntil([&] {
      for (int r = 0; r < job_.ranks(); ++r) CollectDone(r);
      return !wrong_.empty() || done();
    }) && wrong_.empty();
  }
  bool Run(uint64_t operations) {
    const uint64_t until = completed() + operations;
    return RunUntil([&] { return completed() >= until; });
  }
  // Stops posting at the highest call that some rank has posted, and completes all calls.
  bool Finish() {
    for (const auto& of_rank : done_at_) last_ = std::max(last_, of_rank.size() - 1 + kInFlight);
    return RunUntil([&] { return completed() == last_; }) && job_.Done();
  }

  // The number of operations that all ranks have completed.
  uint64_t completed() const {
    uint64_t least = done_at_.front().size();
    for (const auto& of_rank : done_at_) least = std::min<uint64_t>(least, of_rank.size());
    return least - 1;
  }
  // When the rank completed operation `number` (from 1 on).
  MonotonicNs DoneAt(int rank, uint64_t number) const {
    return done_at_[static_cast<size_t>(rank)][number];
  }
  const std::string& wrong() const { return wrong_; }

 private:
  void Post(int rank, uint64_t number) {
    job_.PostInPlace(rank, kCount, number % kInFlight * kCount);
  }
  void CollectDone(int rank) {
    auto& times = done_at_[static_cast<size_t>(rank)];
    while (times.size() - 1 < job_.rank(rank).done()) {
      const uint64_t number = times.size() - 1;  // counted from 0
      times.push_back(world_.clock().Now());
      Check(rank, number);
      if (last_ == 0 || number + kInFlight < last_) Post(rank, number + kInFlight);
    }
    if (job_.rank(rank).failed()) wrong_ = job_.rank(rank).failure();
  }
  void Check(int rank, uint64_t number) {
    for (uint64_t i = number % kInFlight * kCount; i < (number % kInFlight + 1) * kCount; ++i) {
      float sum = 0;
      for (int r = 0; r < job_.ranks(); ++r) sum += SimJob::InputValue(r, i);
      if (job_.output(rank, i) == sum) continue;
      wrong_ = absl::StrCat("operation #", number + 1, " on rank ", rank, ", element ", i, ": ",
                            job_.output(rank, i), " instead of ", sum);
    }
  }

  SimWorld& world_;
  SimJob& job_;
  uint64_t last_ = 0;  // last operation to post; 0: no limit
  std::string wrong_;
  std::vector<std::vector<MonotonicNs>> done_at_;  // by rank; [n]: operation n, counted from 1
};

// The next strategy: in turn another ring order, algorithm, number of channels, or other routes.
Strategy NextStrategy(Strategy strategy, std::mt19937_64& random) {
  constexpr Algorithm kAlgorithm[] = {Algorithm::kRing, Algorithm::kTree, Algorithm::kDirect};
  const uint64_t epoch = strategy.epoch.value() + 1;
  strategy.epoch = Epoch(epoch);
  switch (epoch % 4) {
    case 0:
      for (ChannelStrategy& each : strategy.channels) {
        std::shuffle(each.ring.begin(), each.ring.end(), random);
      }
      break;
    case 1: {
      const auto& rules = strategy.algorithms.rules;
      Algorithm other = kAlgorithm[random() % 3];
      while (!rules.empty() && other == rules.front().algorithm) other = kAlgorithm[random() % 3];
      strategy.algorithms.rules = {{OpKind::kAllReduce, other}};
      return strategy;  // same ports: the lanes stay
    }
    case 2:
      strategy.channels.resize(1 + random() % 3, strategy.channels.front());
      break;
    default:
      break;
  }
  // Ports that no current lane uses.
  auto port = static_cast<uint16_t>(20'000 + epoch % 500 * 40);
  for (ChannelStrategy& each : strategy.channels) {
    if (epoch % 4 == 3) each.source_ports.assign(each.ring.size(), 0);
    for (uint16_t& of_lane : each.source_ports) of_lane = port++;
  }
  return strategy;
}

// The time of an operation on an otherwise idle communicator, by strategy.
class IdleCommunicator {
 public:
  explicit IdleCommunicator(const std::vector<int>& layout)
      : running_(1, layout, kCount * sizeof(float), Network()) {}
  static SimNetworkOptions Network() {
    return {.min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs};
  }
  // 0 if the strategy is not applied or the operation does not complete.
  int64_t DurationUnder(const Strategy& strategy) {
    auto& [world, job, changes] = running_;
    if (!changes.Apply(strategy)) return 0;
    world.RunFor(kNsPerSec);  // for lanes to close or move
    const MonotonicNs begun = world.clock().Now();
    job.PostAll(OpKind::kAllReduce, kCount);
    return job.Complete() ? world.clock().Now() - begun : 0;
  }

 private:
  RunningJob running_;
};

// One change at a time, with enough operations after it to measure their limits.
class ChangesUnderLoad : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr int kChanges = 60;
  static constexpr uint64_t kSettling = 12;  // operations checked after a change
  static constexpr uint64_t kSteady = 24;    // operations after those, which measure the limits

  static std::vector<int> RandomLayout(std::mt19937_64& random) {
    std::vector<int> layout;
    const int hosts = 2 + static_cast<int>(random() % 3);
    for (int r = 0; r < hosts + static_cast<int>(random() % 3); ++r) layout.push_back(r % hosts);
    return layout;
  }

  ChangesUnderLoad()
      : random_(GetParam()),
        layout_(RandomLayout(random_)),
        idle_(layout_),
        running_(GetParam(), layout_, kInFlight * kCount * sizeof(float),
                 IdleCommunicator::Network()) {}

  int ranks() const { return static_cast<int>(layout_.size()); }
  // The average time between the latest operations. They complete in bursts that repeat after a few
  // operations. An average over anything but whole repetitions would be wrong by part of a burst,
  // and the error would add up from operation to operation.
  double AverageGap(const Load& load) const {
    const uint64_t last = load.completed();
    uint64_t period = 1;
    while (period < kSteady && !RepeatsAfter(load, period)) ++period;
    return static_cast<double>(load.DoneAt(0, last) - load.DoneAt(0, last - period)) /
           static_cast<double>(period);
  }
  // The longest time between two of the latest operations, beyond the average: the first operation
  // of a burst is late by it.
  double LongestWait(const Load& load, double average) const {
    const uint64_t last = load.completed();
    MonotonicNs longest = 0;
    for (uint64_t n = last - kSteady + 1; n <= last; ++n) {
      longest = std::max(longest, load.DoneAt(0, n) - load.DoneAt(0, n - 1));
    }
    return static_cast<double>(longest) - average;
  }
  static bool RepeatsAfter(const Load& load, uint64_t period) {
    const uint64_t last = load.completed();
    const MonotonicNs duration = load.DoneAt(0, last) - load.DoneAt(0, last - period);
    for (uint64_t n = last - 1; n >= last - kSteady + period; --n) {
      if (load.DoneAt(0, n) - load.DoneAt(0, n - period) != duration) return false;
    }
    return true;
  }
  std::mt19937_64 random_;
  const std::vector<int> layout_;
  IdleCommunicator idle_;
  RunningJob running_;
};

// The delay of an operation is measured against the limits of its strategy, from the last operation
// before the proposal on. Operations overlap and complete in bursts; the first of a burst may be
// late by the wait before it.
// - Operations under the old strategy, except the last one, are late by at most one round trip, by
//   which ranks overtake each other.
// - All later ones are late by at most one operation that runs alone, and two round trips: hold,
//   answers and commit take one and a half, and acknowledgements on the old lanes take half of one.
// If only routes change, the second limit holds from the first operation on.
TEST_P(ChangesUnderLoad, LoseNoOperationAndDelayAtMostOne) {
  SCOPED_TRACE(testing::Message() << "seed " << GetParam() << ", " << ranks() << " ranks");
  ProposedChanges& changes = running_.changes;
  Load load(running_);
  Strategy strategy = changes.InOrder(2);
  changes.Propose(strategy);
  ASSERT_TRUE(load.RunUntil([&] { return changes.AllAt(2); }) && load.Run(kSettling + kSteady));
  int64_t idle_duration_before = idle_.DurationUnder(strategy);
  double gap_before = AverageGap(load);
  double wait_before = LongestWait(load, gap_before);
  int with_boundary = 0;
  for (int change = 0; change < kChanges; ++change) {
    strategy = NextStrategy(strategy, random_);
    SCOPED_TRACE(testing::Message() << "to epoch " << strategy.epoch.value());
    const uint64_t proposed = load.completed();
    changes.Propose(strategy);
    ASSERT_TRUE(load.RunUntil([&] { return changes.AllAt(strategy.epoch.value()); }))
        << load.wrong();
    const auto first_operations = changes.FirstOperationsOf(strategy.epoch.value());
    ASSERT_LE(first_operations.size(), 1u)
        << "the first operation of the epoch differs between hosts";
    const uint64_t looked_at = load.completed() + kSettling;
    ASSERT_TRUE(load.Run(kSettling + kSteady)) << load.wrong();
    const double gap = AverageGap(load);
    const double wait = LongestWait(load, gap);
    const int64_t alone = idle_.DurationUnder(strategy);
    ASSERT_GT(alone, 0);
    const auto round_trip = static_cast<double>(2 * kDelayNs);
    const double one_and_agreement =
        static_cast<double>(std::max(idle_duration_before, alone)) + 2 * round_trip;
    with_boundary += first_operations.empty() ? 0 : 1;
    const uint64_t first =
        first_operations.empty() ? proposed + 1 : std::stoull(first_operations.begin()->substr(1));
    for (int r = 0; r < ranks(); ++r) {
      double in_time = static_cast<double>(load.DoneAt(r, proposed));
      for (uint64_t n = proposed + 1; n <= looked_at; ++n) {
        in_time += n < first ? gap_before : gap;
        const double late = static_cast<double>(load.DoneAt(r, n)) - in_time;
        EXPECT_LE(late, n + 1 < first ? round_trip + wait_before
                                      : one_and_agreement + std::max(wait_before, wait))
            << "operation #" << n << " on rank " << r << ", first operation of the epoch: #"
            << first;
      }
    }
    idle_duration_before = alone;
    gap_before = gap;
    wait_before = wait;
  }
  EXPECT_GT(with_boundary, kChanges / 4);
  EXPECT_LT(with_boundary, kChanges) << "no change was of routes only";
  ASSERT_TRUE(load.Finish()) << load.wrong();
  running_.world.RunFor(kNsPerSec);
  for (int h = 0; h <= std::ranges::max(layout_); ++h) {
    EXPECT_EQ(running_.world.host(h).controller().reports.at(changes.id()).operations(),
              load.completed());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ChangesUnderLoad, testing::Range<uint64_t>(1, 7));

}  // namespace changes_under_load_test
}  // namespace mccs

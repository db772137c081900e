// The start of scenarios: seeds, a world with one formed job, and the controller's part in the
// job's strategy changes.
#ifndef MCCS_TESTS_SIM_SCENARIO_H_
#define MCCS_TESTS_SIM_SCENARIO_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_job.h"
#include "tests/sim/switch_log.h"

namespace mccs {

// A random sequence; gtest prints its seed with every failure during its life.
class TracedRandom : public std::mt19937_64 {
 public:
  explicit TracedRandom(uint64_t seed)
      : std::mt19937_64(seed), trace_(__FILE__, __LINE__, absl::StrCat("seed ", seed)) {}

 private:
  testing::ScopedTrace trace_;
};

// `for (auto [seed, random] : Seeds(40))` runs its body for the seeds 1 … 40; under sanitizers,
// which slow it five times, for a fifth of them: scripts/test runs all in the release build.
class Seeds {
 public:
  struct Seed {
    uint64_t seed;
    TracedRandom random;
  };
  class Iterator {
   public:
    explicit Iterator(uint64_t seed) : seed_(seed) {}
    Seed operator*() const { return {.seed = seed_, .random = TracedRandom(seed_)}; }
    Iterator& operator++() { return ++seed_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    uint64_t seed_;
  };

  explicit Seeds(uint64_t last) : last_((last + kRunsOneOf - 1) / kRunsOneOf) {}
  Iterator begin() const { return Iterator(1); }
  Iterator end() const { return Iterator(last_ + 1); }
  uint64_t size() const { return last_; }

 private:
#ifdef MCCS_SANITIZED
  static constexpr uint64_t kRunsOneOf = 5;
#else
  static constexpr uint64_t kRunsOneOf = 1;
#endif
  const uint64_t last_;
};

// A random time below `limit_us`, in nanoseconds.
inline int64_t RandomUs(std::mt19937_64& random, uint64_t limit_us) {
  return static_cast<int64_t>(random() % limit_us) * kNsPerUs;
}

// A world with one formed job.
struct JobWorld {
  JobWorld(const SimWorldOptions& options, const std::vector<int>& host_of_rank, size_t bytes)
      : world(options), job(world, host_of_rank, bytes) {
    EXPECT_TRUE(job.Form()) << "the job's communicator does not form";
  }

  SimWorld world;
  SimJob job;
};

// The controller's part in strategy changes of one communicator over all hosts, led by host 0.
class ProposedChanges {
 public:
  // Without `id`: the communicator that was announced first.
  ProposedChanges(SimWorld& world, int hosts) : world_(world), hosts_(hosts) {}
  ProposedChanges(SimWorld& world, int hosts, CommId id) : world_(world), hosts_(hosts), id_(id) {}

  CommId id() const { return id_.value_or(world_.host(0).controller().announced.front()); }
  uint64_t epoch_of(int host) const {
    return world_.host(host).controller().reports.at(id()).epoch();
  }
  const std::string& change_error() const {
    return world_.host(0).controller().reports.at(id()).change_error();
  }
  bool AllAt(uint64_t epoch) const {
    for (int h = 0; h < hosts_; ++h) {
      if (epoch_of(h) != epoch) return false;
    }
    return true;
  }
  void Propose(const Strategy& strategy) {
    world_.host(0).controller().proposals.push_back({id(), strategy});
  }
  // Proposes the strategy, and runs until all hosts use it; false on timeout.
  bool Apply(const Strategy& strategy) {
    Propose(strategy);
    return world_.RunUntil([&] { return AllAt(strategy.epoch.value()); });
  }

  // Random ring orders, number of channels and lane shape.
  Strategy Random(uint64_t epoch, std::mt19937_64& random) const {
    Strategy strategy = InOrder(epoch);
    strategy.channels.resize(1 + random() % 3, strategy.channels.front());
    for (ChannelStrategy& channel : strategy.channels) {
      std::shuffle(channel.ring.begin(), channel.ring.end(), random);
    }
    strategy.lanes.slots = 3 + static_cast<uint32_t>(random() % 3);
    strategy.lanes.slot_bytes = (1 + static_cast<uint32_t>(random() % 2)) * (16u << 10);
    return strategy;
  }
  Strategy InOrder(uint64_t epoch) const {
    std::vector<HostIndex> ring;
    for (int h = 0; h < hosts_; ++h) ring.push_back(HostIndex(h));
    return MakeRingStrategy(Epoch(epoch), ring);
  }
  Strategy Reversed(uint64_t epoch) const {
    Strategy strategy = InOrder(epoch);
    std::reverse(strategy.channels[0].ring.begin(), strategy.channels[0].ring.end());
    return strategy;
  }

  // The state of the current change as the host's daemon describes it (StrategyChange's
  // Describe()); no simulated time passes.
  std::string ChangeStateOf(int host) {
    SimController& controller = world_.host(host).controller();
    const uint64_t request_id = controller.answers.size() + 1;
    controller.questions.push_back(request_id);
    while (!controller.answers.contains(request_id)) world_.host(host).daemon().Poll();
    for (const state::Communicator& each : controller.answers[request_id].communicators()) {
      if (each.id() == FormatCommId(id())) return each.change();
    }
    return "";
  }
  bool IsInState(int host, std::string_view stage) {
    return ChangeStateOf(host).find(stage) != std::string::npos;
  }

  // The first operations of the epoch, one per distinct log line of the hosts; empty: none yet.
  std::set<std::string> FirstOperationsOf(uint64_t epoch) const {
    std::set<std::string> operations;
    for (int h = 0; h < hosts_; ++h) {
      for (const std::string& line : world_.host(h).log().lines) {
        const std::optional<SwitchLine> change = ParseSwitchLine(line);
        if (change && change->communicator == FormatCommId(id()) && change->epoch == epoch) {
          operations.emplace(change->operation);
        }
      }
    }
    return operations;
  }

 private:
  SimWorld& world_;
  const int hosts_;
  const std::optional<CommId> id_;
};

// A world with hosts 0 … max(host_of_rank), and a formed job on them.
struct RunningJob {
  explicit RunningJob(uint64_t seed, const std::vector<int>& host_of_rank = {0, 1, 2},
                      size_t bytes = 1 << 20, const SimNetworkOptions& network = {})
      : world({.seed = seed, .hosts = std::ranges::max(host_of_rank) + 1, .network = network}),
        job(world, host_of_rank, bytes),
        changes(world, world.hosts()) {
    EXPECT_TRUE(job.Form()) << "the job's communicator does not form";
  }

  SimWorld world;
  SimJob job;
  ProposedChanges changes;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SCENARIO_H_

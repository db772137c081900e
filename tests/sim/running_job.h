// A simulated world with one job, and the controller's part in its strategy changes.
#ifndef MCCS_TESTS_SIM_RUNNING_JOB_H_
#define MCCS_TESTS_SIM_RUNNING_JOB_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_job.h"

namespace mccs {

// The controller's part in strategy changes of one communicator over all hosts, led by host 0.
class StrategyChanges {
 public:
  // Without `id`: the communicator that was announced first.
  StrategyChanges(SimWorld& world, int hosts) : world_(world), hosts_(hosts) {}
  StrategyChanges(SimWorld& world, int hosts, CommId id) : world_(world), hosts_(hosts), id_(id) {}

  CommId id() const { return id_.value_or(world_.host(0).controller().announced.front()); }
  uint64_t epoch_of(int host) const {
    return world_.host(host).controller().reports.at(id()).epoch.value();
  }
  const std::string& change_error() const {
    return world_.host(0).controller().reports.at(id()).change_error;
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
    const std::string in_force =
        absl::StrCat("communicator ", FormatCommId(id()), ": epoch ", epoch, " from operation ");
    for (int h = 0; h < hosts_; ++h) {
      for (const std::string& line : world_.host(h).log().lines) {
        const size_t at = line.find(in_force);
        if (at == std::string::npos) continue;
        const size_t number = at + in_force.size();
        operations.insert(line.substr(number, line.find(' ', number) - number));
      }
    }
    return operations;
  }

 private:
  SimWorld& world_;
  const int hosts_;
  const std::optional<CommId> id_;
};

// A world with hosts 0 … max(host_of_rank), and a job on them.
struct RunningJob {
  explicit RunningJob(uint64_t seed, std::vector<int> host_of_rank = {0, 1, 2},
                      size_t bytes = 1 << 20, const SimNetworkOptions& network = {})
      : world({.seed = seed, .hosts = std::ranges::max(host_of_rank) + 1, .network = network}),
        job(world, host_of_rank, bytes),
        changes(world, std::ranges::max(host_of_rank) + 1) {}

  SimWorld world;
  SimJob job;
  StrategyChanges changes;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RUNNING_JOB_H_

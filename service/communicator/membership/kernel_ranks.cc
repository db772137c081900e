#include "service/communicator/membership/kernel_ranks.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

// Pairs of processes that one Poll asks about.
constexpr size_t kPairsPerTurn = 64;

}  // namespace

std::vector<LocalIndex> ChooseRunners(std::span<const KernelPlace> places) {
  std::vector<LocalIndex> runners;
  for (const KernelPlace& place : places) {
    size_t chosen = places.size();
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].gpu != place.gpu) continue;
      if (chosen == places.size() || places[i].session < places[chosen].session) chosen = i;
    }
    runners.push_back(LocalIndex(static_cast<int32_t>(chosen)));
  }
  return runners;
}

KernelRanks::KernelRanks(std::span<const LocalRank> ranks) {
  std::vector<KernelPlace> places;
  for (const LocalRank& local : ranks) {
    GpuAddressSpace* const process = local.port == nullptr ? nullptr : local.port->kernels();
    if (process == nullptr) return;
    places.push_back(process->place());
    processes_.push_back(process);
    ranks_.push_back(local.rank);
  }
  runners_ = ChooseRunners(places);
  // Ranks of one process on one GPU share the object, and its memory.
  std::set<std::pair<GpuAddressSpace*, GpuAddressSpace*>> seen;
  for (const LocalIndex runner : runners_) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      const LocalIndex owner(static_cast<int32_t>(i));
      if (&ProcessOf(runner) == processes_[i] || processes_[i]->probe() == nullptr) continue;
      if (seen.emplace(&ProcessOf(runner), processes_[i]).second)
        pending_.push_back({.runner = runner, .owner = owner});
    }
  }
}

// A later communicator finds the answers of an earlier one.
bool KernelRanks::Poll() {
  const size_t before = pending_.size();
  const auto answered = [&](const Access& access) {
    const Region* const probe = ProcessOf(access.owner).probe();
    if (probe == nullptr) return true;  // its process has ended, which ends the communicator
    const absl::StatusOr<uint64_t> address = ProcessOf(access.runner).AddressOf(*probe);
    if (address.ok()) return *address != 0;
    if (!staged_.empty()) return true;
    staged_ = absl::StrCat(
        "rank ", ranks_[static_cast<size_t>(access.runner.value())].value(),
        " cannot use memory of rank ", ranks_[static_cast<size_t>(access.owner.value())].value(),
        ", so collectives copy through host memory; direct access needs P2P between the GPUs "
        "(nvidia-smi topo -p2p r), no MIG, and containers with --ipc=host --pid=host (",
        address.status().message(), ")");
    return true;
  };
  for (size_t i = std::min(before, kPairsPerTurn); i > 0; --i) {
    const Access next = pending_.front();
    pending_.pop_front();
    if (!answered(next)) pending_.push_back(next);
  }
  return pending_.size() < before;
}

std::string KernelRanks::DescribeMissing() const {
  return absl::StrCat("the process of rank ",
                      ranks_[static_cast<size_t>(pending_.front().runner.value())].value(),
                      " has not answered whether it can map memory of rank ",
                      ranks_[static_cast<size_t>(pending_.front().owner.value())].value());
}

KernelUse KernelRanks::UseOf(LocalIndex rank) const {
  if (runners_.empty()) return {};
  const LocalIndex runner = runners_[static_cast<size_t>(rank.value())];
  const bool same_process = &ProcessOf(runner) == &ProcessOf(rank);
  const wire::KernelRole role = runner == rank ? wire::KernelRole::kRunsPlans
                                : same_process ? wire::KernelRole::kSharesWithProcess
                                               : wire::KernelRole::kSharesWithOther;
  return {.role = role, .staged = staged_};
}

}  // namespace mccs

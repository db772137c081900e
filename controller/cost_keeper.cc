#include "controller/cost_keeper.h"

#include <algorithm>
#include <utility>

#include "controller/measured_costs.h"

namespace mccs {
namespace {

uint64_t OperationsOf(const CommunicatorRecord& communicator) {
  uint64_t most = 0;
  for (const auto& [host, report] : communicator.reports)
    most = std::max(most, report.operations());
  return most;
}

}  // namespace

std::vector<CostKeeper::Wish> CostKeeper::Look(
    const std::map<CommId, CommunicatorRecord>& communicators, MonotonicNs now) {
  if (now < next_look_) return {};
  next_look_ = now + kLookEveryNs;
  std::erase_if(records_, [&](const auto& entry) { return !communicators.contains(entry.first); });
  std::vector<Wish> wishes;
  for (const auto& [id, communicator] : communicators) {
    if (const auto costs = LookAt(id, communicator, now, &records_[id]))
      wishes.push_back({id, *costs});
  }
  return wishes;
}

std::optional<CostParameters> CostKeeper::LookAt(CommId id, const CommunicatorRecord& communicator,
                                                 MonotonicNs now, Record* record) {
  const strategy::AlgorithmChoice& choice = communicator.InForce().algorithms();
  if (!calibrates_) {
    if (!choice.has_own_costs()) return std::nullopt;
    return OwnCostsOf(choice);
  }
  const uint64_t far_before = std::exchange(record->far_under_epoch, 0);
  if (communicator.announced.hosts_size() < 2 || !communicator.proposed.empty())
    return std::nullopt;
  if (OperationsOf(communicator) < kLeastOperations) return std::nullopt;
  const CostParameters in_force = CostsOf(choice);
  const std::optional<CostParameters> costs =
      Calibrate(in_force, OwnCostsOf(choice), MeasuredOf(communicator));
  if (!costs || !FarApart(*costs, in_force)) return std::nullopt;
  record->far_under_epoch = communicator.InForce().epoch();
  if (far_before != record->far_under_epoch || now < record->left_alone_until) return std::nullopt;
  record->left_alone_until = now + record->pause_ns;
  record->pause_ns = std::min(2 * record->pause_ns, kLongestPauseNs);
  log_->Info("communicator ", FormatCommId(id), ": measured: ", CostsText(*costs),
             "; previous: ", CostsText(in_force));
  return costs;
}

}  // namespace mccs

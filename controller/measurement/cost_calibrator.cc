#include "controller/measurement/cost_calibrator.h"

#include <algorithm>
#include <utility>

#include "controller/planning/measured_costs.h"

namespace mccs {
namespace {

uint64_t OperationsOf(const CommunicatorRecord& communicator) {
  uint64_t most = 0;
  for (const auto& [host, report] : communicator.reports)
    most = std::max(most, report.operations());
  return most;
}

}  // namespace

std::vector<CostCalibrator::CostUpdate> CostCalibrator::FindUpdates(
    const std::map<CommId, CommunicatorRecord>& communicators, MonotonicNs now) {
  if (now < next_check_) return {};
  next_check_ = now + kCheckEveryNs;
  std::erase_if(records_, [&](const auto& entry) { return !communicators.contains(entry.first); });
  std::vector<CostUpdate> updates;
  for (const auto& [id, communicator] : communicators) {
    if (const auto costs = CheckCommunicator(id, communicator, now, &records_[id]))
      updates.push_back({id, *costs});
  }
  return updates;
}

std::optional<CostParameters> CostCalibrator::CheckCommunicator(
    CommId id, const CommunicatorRecord& communicator, MonotonicNs now, Record* record) {
  const strategy::AlgorithmChoice& choice = communicator.Applied().algorithms();
  if (!calibrates_) {
    if (!choice.has_configured_costs()) return std::nullopt;
    return OwnCostsOf(choice);
  }
  const uint64_t far_before = std::exchange(record->far_under_epoch, 0);
  if (communicator.announced.hosts_size() < 2 || !communicator.proposed.empty())
    return std::nullopt;
  if (OperationsOf(communicator) < kLeastOperations) return std::nullopt;
  const CostParameters applied = CostsOf(choice);
  const std::optional<CostParameters> costs =
      Calibrate(applied, OwnCostsOf(choice), MeasuredOf(communicator));
  if (!costs || !FarApart(*costs, applied)) return std::nullopt;
  record->far_under_epoch = communicator.Applied().epoch();
  if (far_before != record->far_under_epoch || now < record->paused_until) return std::nullopt;
  record->paused_until = now + record->pause_ns;
  record->pause_ns = std::min(2 * record->pause_ns, kLongestPauseNs);
  log_->Info("communicator ", FormatCommId(id), ": measured: ", CostsText(*costs),
             "; previous: ", CostsText(applied));
  return costs;
}

}  // namespace mccs

#include "controller/planning/measured_costs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "algorithms/algorithm_choice.h"
#include "base/clock.h"
#include "base/units.h"

namespace mccs {
namespace {

constexpr double kFarApart = 2;
// Plausible bounds for networks, with a margin.
constexpr double kLeastUs = 0.5;
constexpr double kMostUs = 1e7;
constexpr double kLeastBytesPerUs = 0.01;
constexpr double kMostBytesPerUs = 1e6;
constexpr double kBpsPerBytePerUs = 8e6;

// The lower median. REQUIRES: not empty.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool IsFar(double one, double other) {
  return one >= kFarApart * other || other >= kFarApart * one;
}

// Of hosts that have a figure; nothing if fewer than half of all have.
std::optional<double> MedianOf(std::vector<double> values, size_t hosts, double least,
                               double most) {
  if (values.empty() || 2 * values.size() < hosts) return std::nullopt;
  return std::clamp(Median(std::move(values)), least, most);
}

// Of a short slice, including both ends' work.
double OneWayUs(const CostParameters& costs) {
  return std::max(costs.hop_us + 2 * costs.slice_us, kLeastUs);
}

CostParameters FromProto(const strategy::CostParameters& message) {
  return {.operation_us = message.operation_us(),
          .hop_us = message.hop_us(),
          .slice_us = message.slice_us(),
          .lane_bytes_per_us = message.lane_bytes_per_us(),
          .host_bytes_per_us = message.host_bytes_per_us(),
          .local_bytes_per_us = message.local_bytes_per_us()};
}

strategy::CostParameters ToProto(const CostParameters& costs) {
  strategy::CostParameters message;
  message.set_operation_us(costs.operation_us);
  message.set_hop_us(costs.hop_us);
  message.set_slice_us(costs.slice_us);
  message.set_lane_bytes_per_us(costs.lane_bytes_per_us);
  message.set_host_bytes_per_us(costs.host_bytes_per_us);
  message.set_local_bytes_per_us(costs.local_bytes_per_us);
  return message;
}

bool IsValid(const CostParameters& costs) {
  return ValidateChoice({.costs = costs, .rules = {}}).ok();
}

}  // namespace

MeasuredFigures MeasuredOf(const CommunicatorRecord& communicator) {
  const strategy::Strategy& strategy = communicator.Applied();
  std::vector<double> one_way_us, sent, passed;  // by host
  for (const auto& [host, report] : communicator.reports) {
    if (report.epoch() != strategy.epoch()) continue;
    std::vector<double> of_lanes;
    for (const agent::v1::Lane& lane : report.lanes()) {
      const bool carries_plans = lane.channel() >= 0 && lane.channel() < strategy.channels_size();
      if (carries_plans && lane.round_trip_ns() > 0)
        of_lanes.push_back(static_cast<double>(lane.round_trip_ns()) / 2 / kNsPerUs);
    }
    if (!of_lanes.empty()) one_way_us.push_back(Median(std::move(of_lanes)));
    if (report.sent_bps() > 0)
      sent.push_back(static_cast<double>(report.sent_bps()) / kBpsPerBytePerUs);
    if (report.memory_bps() > 0)
      passed.push_back(static_cast<double>(report.memory_bps()) / kBpsPerBytePerUs);
  }
  const auto hosts = static_cast<size_t>(communicator.announced.hosts_size());
  const auto rate = [hosts](std::vector<double> values) {
    return MedianOf(std::move(values), hosts, kLeastBytesPerUs, kMostBytesPerUs);
  };
  return {.one_way_us = MedianOf(std::move(one_way_us), hosts, kLeastUs, kMostUs),
          .host_bytes_per_us = rate(std::move(sent)),
          .local_bytes_per_us = rate(std::move(passed))};
}

CostParameters CostsOf(const strategy::AlgorithmChoice& choice) {
  return choice.has_costs() ? FromProto(choice.costs()) : CostParameters();
}

CostParameters OwnCostsOf(const strategy::AlgorithmChoice& choice) {
  return choice.has_configured_costs() ? FromProto(choice.configured_costs()) : CostsOf(choice);
}

std::optional<CostParameters> Calibrate(const CostParameters& applied, const CostParameters& own,
                                        const MeasuredFigures& measured) {
  if (!IsValid(applied) || !IsValid(own)) return std::nullopt;
  CostParameters costs = applied;
  if (measured.one_way_us)
    costs.hop_us = std::max(*measured.one_way_us - 2 * costs.slice_us, own.hop_us);
  if (measured.host_bytes_per_us) {
    costs.host_bytes_per_us = *measured.host_bytes_per_us;
    costs.lane_bytes_per_us =
        *measured.host_bytes_per_us / own.host_bytes_per_us * own.lane_bytes_per_us;
  }
  if (measured.local_bytes_per_us) costs.local_bytes_per_us = *measured.local_bytes_per_us;
  if (!IsValid(costs)) return std::nullopt;
  return costs;
}

bool FarApart(const CostParameters& one, const CostParameters& other) {
  return IsFar(OneWayUs(one), OneWayUs(other)) ||
         IsFar(one.host_bytes_per_us, other.host_bytes_per_us) ||
         IsFar(one.local_bytes_per_us, other.local_bytes_per_us);
}

void PutCosts(const CostParameters& costs, strategy::Strategy* strategy) {
  if (costs == CostsOf(strategy->algorithms())) return;
  const CostParameters own = OwnCostsOf(strategy->algorithms());
  strategy::AlgorithmChoice* choice = strategy->mutable_algorithms();
  *choice->mutable_costs() = ToProto(costs);
  if (costs == own) {
    choice->clear_configured_costs();
  } else {
    *choice->mutable_configured_costs() = ToProto(own);
  }
}

std::string CostsText(const CostParameters& costs) {
  return absl::StrCat("hop ", costs.hop_us, " us, host ",
                      FormatBitRate(costs.host_bytes_per_us * kBpsPerBytePerUs), ", lane ",
                      FormatBitRate(costs.lane_bytes_per_us * kBpsPerBytePerUs), ", memory ",
                      FormatBitRate(costs.local_bytes_per_us * kBpsPerBytePerUs));
}

}  // namespace mccs

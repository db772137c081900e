#include "tests/unit/topology/max_min_oracle.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "tests/unit/topology/linear_program.h"

namespace mccs {
namespace {

constexpr double kClose = 1e-9;

class Oracle {
 public:
  Oracle(std::span<const double> capacity, std::span<const FlowDemand> flows)
      : capacity_(capacity), flows_(flows), settled_(flows.size()) {}

  std::vector<double> Solve() {
    while (std::any_of(settled_.begin(), settled_.end(), [](auto& rate) { return !rate; })) {
      const double level = HighestCommonLevel();
      std::vector<size_t> stuck;
      for (size_t f = 0; f < flows_.size(); ++f) {
        const double rate = level * flows_[f].weight;
        if (!settled_[f] && HighestRate(f, level) <= rate + kClose * std::max(1.0, rate))
          stuck.push_back(f);
      }
      MCCS_CHECK(!stuck.empty());
      for (const size_t f : stuck) settled_[f] = level * flows_[f].weight;
    }
    std::vector<double> rates;
    for (const auto& rate : settled_) rates.push_back(*rate);
    return rates;
  }

 private:
  double Ceiling(size_t f) const { return std::min(flows_[f].demand_bps, flows_[f].cap_bps); }
  // The offset of variable f, so that all variables may be zero.
  double Base(size_t f, double level) const {
    if (settled_[f]) return *settled_[f];
    const double floor = std::min(flows_[f].guarantee_bps, Ceiling(f));
    return std::min(std::max(floor, level * flows_[f].weight), Ceiling(f));
  }

  // One variable per flow, its rate above its base; plus `extra` variables.
  LinearProgram Feasible(double level, size_t extra) const {
    const size_t variables = flows_.size() + extra;
    LinearProgram program(variables);
    for (size_t arc = 0; arc < capacity_.size(); ++arc) {
      std::vector<double> row(variables);
      double left = capacity_[arc];
      for (size_t f = 0; f < flows_.size(); ++f) {
        const auto times = static_cast<double>(std::count(
            flows_[f].path.begin(), flows_[f].path.end(), ArcId(static_cast<int32_t>(arc))));
        row[f] = times;
        left -= times * Base(f, level);
      }
      program.AddRow(std::move(row), std::max(0.0, left));
    }
    for (size_t f = 0; f < flows_.size(); ++f) {
      std::vector<double> row(variables);
      row[f] = 1;
      if (settled_[f]) {
        program.AddRow(std::move(row), 0);
      } else if (std::isfinite(Ceiling(f))) {
        program.AddRow(std::move(row), Ceiling(f) - Base(f, level));
      }
    }
    return program;
  }

  double HighestCommonLevel() const {
    const size_t level = flows_.size();
    LinearProgram program = Feasible(0, 1);
    for (size_t f = 0; f < flows_.size(); ++f) {
      if (settled_[f]) continue;
      std::vector<double> row(flows_.size() + 1);
      row[level] = flows_[f].weight;
      row[f] = -1;
      program.AddRow(std::move(row), Base(f, 0));
    }
    program.SetObjective(level, 1);
    return program.Maximum();
  }

  double HighestRate(size_t f, double level) const {
    LinearProgram program = Feasible(level, 0);
    program.SetObjective(f, 1);
    return Base(f, level) + program.Maximum();
  }

  std::span<const double> capacity_;
  std::span<const FlowDemand> flows_;
  std::vector<std::optional<double>> settled_;
};

}  // namespace

std::vector<double> MaxMinByLinearPrograms(std::span<const double> capacity_bps,
                                           std::span<const FlowDemand> flows) {
  return Oracle(capacity_bps, flows).Solve();
}

}  // namespace mccs

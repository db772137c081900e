#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tests/unit/topology/small_topologies.h"
#include "topology/max_min_shares.h"

namespace mccs {
namespace max_min_property_test {

// A small linear-programming solver for tests: the simplex method on a dense table, with Bland's
// rule, so that it terminates (source: Chvátal, Linear Programming, 1983, chapters 2 and 3).
// Maximizes objective · x for x ≥ 0 and each row · x ≤ its limit.
class LinearProgram {
 public:
  explicit LinearProgram(size_t variables) : objective_(variables) {}

  void SetObjective(size_t variable, double factor) { objective_[variable] = factor; }
  // REQUIRES: limit ≥ 0, so that x = 0 is a valid start.
  void AddRow(std::vector<double> factors, double limit) {
    MCCS_CHECK(factors.size() == objective_.size() && limit >= 0);
    rows_.push_back({std::move(factors), limit});
  }

  // The largest value of the objective; infinite if it is unbounded.
  double Maximum() const;

 private:
  struct Row {
    std::vector<double> factors;
    double limit;
  };
  std::vector<double> objective_;
  std::vector<Row> rows_;
};

using Number = long double;
constexpr Number kZero = 1e-12L;  // values below count as zero, for figures up to a thousand

// Rows of [variables … slacks … | limit]; the objective's row is last. `basis[r]` is the basic
// variable of row r.
struct Table {
  std::vector<std::vector<Number>> rows;
  std::vector<size_t> basis;

  void Pivot(size_t row, size_t column) {
    const Number factor = rows[row][column];
    for (Number& entry : rows[row]) entry /= factor;
    for (size_t r = 0; r < rows.size(); ++r) {
      const Number times = rows[r][column];
      if (r == row || times == 0) continue;
      for (size_t c = 0; c < rows[r].size(); ++c) rows[r][c] -= times * rows[row][c];
      rows[r][column] = 0;
    }
    basis[row] = column;
  }
};

double LinearProgram::Maximum() const {
  const size_t variables = objective_.size(), columns = variables + rows_.size();
  Table table;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::vector<Number> row(columns + 1);
    for (size_t v = 0; v < variables; ++v) row[v] = rows_[r].factors[v];
    row[variables + r] = 1;
    row[columns] = rows_[r].limit;
    table.rows.push_back(std::move(row));
    table.basis.push_back(variables + r);
  }
  std::vector<Number> last(columns + 1);
  for (size_t v = 0; v < variables; ++v) last[v] = -objective_[v];
  table.rows.push_back(std::move(last));

  for (;;) {
    const std::vector<Number>& objective = table.rows.back();
    size_t enter = 0;
    while (enter < columns && objective[enter] >= -kZero) ++enter;
    if (enter == columns) return static_cast<double>(objective[columns]);
    size_t leave = rows_.size();
    Number least = 0;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (table.rows[r][enter] <= kZero) continue;
      const Number ratio = table.rows[r][columns] / table.rows[r][enter];
      const bool tie = leave < rows_.size() && ratio == least;
      if (leave == rows_.size() || ratio < least || (tie && table.basis[r] < table.basis[leave])) {
        leave = r;
        least = ratio;
      }
    }
    if (leave == rows_.size()) return std::numeric_limits<double>::infinity();
    table.Pivot(leave, enter);
  }
}

constexpr double kClose = 1e-9;

class Oracle {
 public:
  Oracle(std::span<const double> capacity, std::span<const FlowDemand> flows)
      : capacity_(capacity), flows_(flows), settled_(flows.size()) {}

  std::vector<double> Solve() {
    while (std::ranges::any_of(settled_, [](auto& rate) { return !rate; })) {
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

// Weighted max-min fair rates by their definition, with linear programs: slow, and independent of
// topology/max_min_shares.h.
//
// Raises the lowest level of all flows as far as possible, fixes flows that cannot have more in any
// solution, and continues with the others (source: "max-min programming", Radunović and Le Boudec,
// 2007). REQUIRES: guarantees, up to the demands, fit.
std::vector<double> MaxMinByLinearPrograms(std::span<const double> capacity_bps,
                                           std::span<const FlowDemand> flows) {
  return Oracle(capacity_bps, flows).Solve();
}

TEST(LinearProgram, FindsTheMaximum) {
  LinearProgram program(2);
  program.SetObjective(0, 3);
  program.SetObjective(1, 5);
  program.AddRow({1, 0}, 4);
  program.AddRow({0, 2}, 12);
  program.AddRow({3, 2}, 18);
  EXPECT_DOUBLE_EQ(program.Maximum(), 36);
}

TEST(LinearProgram, ReportsAnUnboundedObjective) {
  LinearProgram program(2);
  program.SetObjective(0, 1);
  program.AddRow({-1, 1}, 4);
  EXPECT_GT(program.Maximum(), 1e300);
}

// Capacities differ between links, and so do bottlenecks.
std::vector<double> RandomCapacities(const Topology& topology, std::mt19937& random) {
  std::vector<double> capacity(topology.arc_count());
  for (double& c : capacity) c = 10.0 * (1 + random() % 20);
  return capacity;
}

// Whether guarantees fit, each counted up to its flow's demand.
bool GuaranteesFit(const std::vector<double>& capacity, std::vector<FlowDemand> flows) {
  for (FlowDemand& flow : flows)
    flow.guarantee_bps = std::min({flow.guarantee_bps, flow.demand_bps, flow.cap_bps});
  return FindBrokenGuarantees(capacity, flows).empty();
}

TEST(MaxMinSharesProperty, EqualTheLinearPrograms) {
  int solved = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Topology topology = LeafSpine({.hosts_per_rack = static_cast<int>(1 + random() % 2)});
    const std::vector<double> capacity = RandomCapacities(topology, random);
    const auto flows = RandomFlows(topology, 1 + random() % 8, 10, random);
    const auto shares = MaxMinShares(capacity, flows);
    if (!GuaranteesFit(capacity, flows)) {
      EXPECT_EQ(shares.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(shares.ok()) << shares.status();
    const std::vector<double> expected = MaxMinByLinearPrograms(capacity, flows);
    for (size_t f = 0; f < flows.size(); ++f) {
      EXPECT_NEAR((*shares)[f].rate_bps, expected[f], 1e-6 * std::max(1.0, expected[f]))
          << "flow " << f << " of " << flows.size();
    }
    ++solved;
  }
  EXPECT_GT(solved, 1000);
}

// The characteristic property of max-min fair rates (Bertsekas and Gallager, section 6.5.2,
// proposition): a flow below its demand crosses a full arc on which no flow has a higher level,
// except by its guarantee.
void ExpectFair(const std::vector<double>& capacity, const std::vector<FlowDemand>& flows,
                const std::vector<Share>& shares) {
  constexpr double kClose = 1e-6;
  std::vector<double> load(capacity.size()), highest(capacity.size());
  for (size_t f = 0; f < flows.size(); ++f) {
    const double floor = std::min({flows[f].guarantee_bps, flows[f].demand_bps, flows[f].cap_bps});
    const double rate = shares[f].rate_bps;
    EXPECT_GE(rate, floor);
    EXPECT_LE(rate, std::min(flows[f].demand_bps, flows[f].cap_bps));
    for (const ArcId arc : flows[f].path) {
      load[arc.value()] += rate;
      if (rate > floor * (1 + kClose))
        highest[arc.value()] = std::max(highest[arc.value()], rate / flows[f].weight);
    }
  }
  for (size_t a = 0; a < capacity.size(); ++a)
    EXPECT_LE(load[a], capacity[a] * (1 + kRateTolerance)) << "arc " << a;
  for (size_t f = 0; f < flows.size(); ++f) {
    if (shares[f].limit != ShareLimit::kLink) {
      EXPECT_EQ(shares[f].rate_bps,
                shares[f].limit == ShareLimit::kCap ? flows[f].cap_bps : flows[f].demand_bps);
      continue;
    }
    const auto arc = static_cast<size_t>(shares[f].full_arc.value());
    EXPECT_NE(std::find(flows[f].path.begin(), flows[f].path.end(), shares[f].full_arc),
              flows[f].path.end());
    EXPECT_GE(load[arc], capacity[arc] * (1 - kClose)) << "flow " << f;
    EXPECT_GE(shares[f].rate_bps / flows[f].weight, highest[arc] * (1 - kClose)) << "flow " << f;
  }
}

TEST(MaxMinSharesProperty, EveryFlowOfALargeClusterHasItsBottleneck) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Topology topology = LeafSpine({.racks = 8,
                                         .hosts_per_rack = 4,
                                         .nics_per_host = 4,
                                         .spines = 8,
                                         .nic_bps = 200'000'000'000,
                                         .uplink_bps = 200'000'000'000});
    std::vector<FlowDemand> flows = RandomFlows(topology, 2000, 1e7, random);
    const auto shares = MaxMinShares(topology.ArcCapacities(), flows);
    ASSERT_TRUE(shares.ok()) << shares.status();
    ExpectFair(topology.ArcCapacities(), flows, *shares);
  }
}

TEST(MaxMinSharesProperty, TheOrderOfTheFlowsDoesNotMatter) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Topology topology = LeafSpine({.racks = 3, .nic_bps = 1000, .uplink_bps = 700});
    std::vector<FlowDemand> flows = RandomFlows(topology, 40, 1, random);
    const auto shares = MaxMinShares(topology.ArcCapacities(), flows);
    ASSERT_TRUE(shares.ok()) << shares.status();
    std::reverse(flows.begin(), flows.end());
    const auto again = MaxMinShares(topology.ArcCapacities(), flows);
    ASSERT_TRUE(again.ok()) << again.status();
    for (size_t f = 0; f < flows.size(); ++f) {
      const double rate = (*shares)[f].rate_bps;
      EXPECT_NEAR((*again)[flows.size() - 1 - f].rate_bps, rate, 1e-9 * std::max(1.0, rate));
    }
  }
}

}  // namespace max_min_property_test
}  // namespace mccs

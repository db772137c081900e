#include "algorithms/cost.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace mccs {
namespace cost_test {

constexpr CostParameters kFigures{.operation_us = 10,
                                  .hop_us = 20,
                                  .slice_us = 0,
                                  .lane_bytes_per_us = 1000,
                                  .host_bytes_per_us = 1'000'000,
                                  .local_bytes_per_us = 4000};
constexpr uint32_t kSlotBytes = 64 << 10;

// `hosts` hosts of `local` ranks each, host 0's plan over `channels` equal rings.
Plan PlanOf(OpKind kind, int hosts, int local, int channels = 1,
            std::optional<Algorithm> algorithm = std::nullopt) {
  Layout layout;
  std::vector<HostIndex> ring;
  int rank = 0;
  for (int h = 0; h < hosts; ++h) {
    ring.push_back(HostIndex(h));
    layout.hosts.emplace_back();
    for (int r = 0; r < local; ++r) layout.hosts.back().push_back(Rank(rank++));
  }
  const ChannelOrders orders{std::vector(static_cast<size_t>(channels), ring)};
  return *BuildPlan(
      {.kind = kind, .algorithm = algorithm.value_or(UsualAlgorithm(kind)), .root = Rank(0)},
      layout, orders, HostIndex(0));
}

double Us(const Plan& plan, uint64_t bytes, const CostParameters& figures = kFigures) {
  return EstimateUs(plan, {DataType::kFloat32, bytes / sizeof(float), kSlotBytes}, figures);
}

TEST(Cost, ATinyCallCostsItsHops) {
  EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, 1, 2), 4), 10, 0.1);
  for (int hosts : {2, 3, 8}) {
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, hosts, 1), 4), 10 + 2 * (hosts - 1) * 20, 0.5)
        << hosts;
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllGather, hosts, 1), 4), 10 + (hosts - 1) * 20, 0.5) << hosts;
  }
}

TEST(Cost, ALargeCallCostsItsBytesOnTheSlowestStage) {
  constexpr uint64_t kBytes = 1 << 28;
  CostParameters figures = kFigures;
  figures.local_bytes_per_us = 100'000;
  // 2(H−1)/H of the buffer over each lane.
  for (int hosts : {2, 4}) {
    const double wire = 2.0 * (hosts - 1) / hosts * kBytes / figures.lane_bytes_per_us;
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, hosts, 1), kBytes, figures), wire, 0.02 * wire)
        << hosts;
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, hosts, 1, 2), kBytes, figures), wire / 2, 0.1 * wire)
        << hosts;
  }
  // Four inputs read, four outputs written, on one host.
  const double pass = 8.0 * kBytes / kFigures.local_bytes_per_us;
  EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, 1, 4), kBytes), pass, 0.01 * pass);
}

TEST(Cost, TreesCostTheirHeightAndDirectOnesOneHop) {
  for (int hosts : {3, 4, 7, 8, 31}) {
    int height = 0;
    while (2 << height <= hosts) ++height;
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, hosts, 2, 1, Algorithm::kTree), 4),
                10 + 2 * height * 20, 0.5)
        << hosts;
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, hosts, 2, 1, Algorithm::kDirect), 4), 10 + 20, 0.5)
        << hosts;
  }
}

TEST(Cost, PatCostsTheLogarithmOfTheHosts) {
  CostParameters figures = kFigures;  // a slice has a piece per host: only hops count
  figures.lane_bytes_per_us = figures.local_bytes_per_us = 1'000'000;
  for (OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {
    for (const auto& [hosts, hops] : {std::pair(3, 2), {8, 3}, {31, 5}, {100, 7}}) {
      EXPECT_NEAR(Us(PlanOf(kind, hosts, 1, 1, Algorithm::kPat), 4, figures), 10 + hops * 20, 0.1)
          << Name(kind) << " over " << hosts;
    }
  }
}

TEST(Cost, SlicesOfAHostComeOneAfterTheOther) {
  CostParameters figures = kFigures;
  figures.slice_us = 3;
  for (int hosts : {2, 5}) {
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, hosts, 1, 1, Algorithm::kDirect), 4, figures),
                10 + 20 + 2 * (hosts - 1) * 3, 0.5);
    EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, hosts, 1), 4, figures),
                10 + 2 * (hosts - 1) * 20 + 4 * (hosts - 1) * 3, 0.5);
  }
}

TEST(Cost, AllLanesOfAHostShareItsRate) {
  constexpr uint64_t kBytes = 1 << 28;
  CostParameters figures = kFigures;
  figures.host_bytes_per_us = 1000;
  figures.local_bytes_per_us = 1'000'000;
  const double direct = 3.0 * kBytes / figures.host_bytes_per_us;  // to three other hosts
  EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, 4, 1, 1, Algorithm::kDirect), kBytes, figures), direct,
              0.02 * direct);
  const double ring = 1.5 * kBytes / figures.host_bytes_per_us;
  EXPECT_NEAR(Us(PlanOf(OpKind::kAllReduce, 4, 1, 2), kBytes, figures), ring, 0.02 * ring);
}

TEST(Cost, MoreNeverCostsLess) {
  for (OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                      OpKind::kBroadcast, OpKind::kReduce, OpKind::kAllToAll}) {
    for (int hosts : {1, 2, 3}) {
      const Plan plan = PlanOf(kind, hosts, 2, 2);
      double before = 0;
      for (uint64_t bytes = 4; bytes <= 1 << 26; bytes *= 4) {
        const double now = Us(plan, bytes);
        EXPECT_GE(now, before) << Name(kind) << " of " << bytes << " bytes over " << hosts;
        before = now;
      }
    }
  }
}

TEST(Cost, ACallWithoutElementsCostsTheCall) {
  EXPECT_EQ(Us(PlanOf(OpKind::kAllReduce, 4, 1), 0), 10);
}

TEST(Cost, AMessageCostsItsHopOrItsPass) {
  EXPECT_EQ(EstimateMessageUs(0, true, kFigures), 30);
  EXPECT_EQ(EstimateMessageUs(1'000'000, true, kFigures), 1030);
  EXPECT_EQ(EstimateMessageUs(1'000'000, false, kFigures), 510);
}

}  // namespace cost_test
}  // namespace mccs

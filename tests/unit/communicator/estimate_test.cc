#include "service/communicator/schedule/estimate.h"

#include <gtest/gtest.h>

#include <limits>

namespace mccs {
namespace estimate_test {

constexpr CostParameters kFigures{.operation_us = 10,
                                  .hop_us = 20,
                                  .slice_us = 0,
                                  .lane_bytes_per_us = 1000,
                                  .host_bytes_per_us = 100'000,
                                  .local_bytes_per_us = 8000};

class Estimates : public testing::Test {
 protected:
  static Strategy RingOfTwo() {
    Strategy strategy;
    strategy.channels = {{{HostIndex(0), HostIndex(1)}, {}}};
    strategy.lanes = {.slots = 4, .slot_bytes = 1 << 16};
    strategy.algorithms.costs = kFigures;
    return strategy;
  }
  absl::StatusOr<double> Of(const EstimatedCall& call) {
    return EstimateCallUs(call, plans_,
                          {.self = HostIndex(0), .slot_bytes = 1 << 16, .parameters = kFigures});
  }

  PlanCache plans_{{{{Rank(0), Rank(2)}, {Rank(1)}}}, RingOfTwo(), HostIndex(0)};
};

TEST_F(Estimates, CollectivesUseThePlanCost) {
  const auto small = Of({OpKind::kAllReduce, DataType::kFloat32, 0, 1});
  const auto large = Of({OpKind::kAllReduce, DataType::kFloat32, 0, 1 << 26});
  ASSERT_TRUE(small.ok()) << small.status();
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_NEAR(*small, 10 + 20, 1) << "direct";
  EXPECT_NEAR(*large, (4 << 26) / 1000.0, 0.02 * (4 << 26) / 1000.0);
}

TEST_F(Estimates, MessagesDependOnPeerLocation) {
  EXPECT_EQ(*Of({OpKind::kSend, DataType::kInt8, 2, 4000}), 10 + 1);
  EXPECT_EQ(*Of({OpKind::kRecv, DataType::kInt8, 1, 4000}), 10 + 20 + 4);
}

// The call comes from a tenant.
TEST_F(Estimates, RejectsInvalidCalls) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  for (const EstimatedCall& bad :
       {EstimatedCall{OpKind::kNone, DataType::kInt8, 0, 1},
        EstimatedCall{static_cast<OpKind>(200), DataType::kInt8, 0, 1},
        EstimatedCall{OpKind::kAllReduce, static_cast<DataType>(12), 0, 1},
        EstimatedCall{OpKind::kBroadcast, DataType::kInt8, 3, 1},
        EstimatedCall{OpKind::kReduce, DataType::kInt8, -1, 1},
        EstimatedCall{OpKind::kSend, DataType::kInt8, 3, 1},
        EstimatedCall{OpKind::kAllGather, DataType::kInt64, 0, most},
        EstimatedCall{OpKind::kAllReduce, DataType::kInt8, 0, most / 2}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Of(bad).status())) << static_cast<int>(bad.kind);
  }
}

}  // namespace estimate_test
}  // namespace mccs

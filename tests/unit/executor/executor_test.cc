// The executor alone: two hosts' plans over simulated lanes. program_run_test has full devices,
// early slices and failed lanes.
#include "service/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>
#include <tuple>

#include "algorithms/ring.h"
#include "service/device/cpu_device.h"
#include "service/transport/stream_lane.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace executor_test {

constexpr LaneShape kShape{.slots = 2, .slot_bytes = 16u << 10};

// All lanes of a host, with two hosts and one channel.
class OneLaneEachWay final : public LaneDirectory {
 public:
  OneLaneEachWay(SendLane& send, RecvLane& receive, RegionSpan staging)
      : send_(send), receive_(receive), staging_(staging) {}
  SendLane* SendTo(ChannelId, HostIndex) override { return &send_; }
  absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId, HostIndex) override { return &receive_; }
  absl::StatusOr<RegionSpan> StagingTo(ChannelId, HostIndex) override { return staging_; }

 private:
  SendLane& send_;
  RecvLane& receive_;
  const RegionSpan staging_;
};

// One rank on each of two hosts, one channel.
class ExecutorTest : public testing::Test {
 protected:
  struct Call {
    std::vector<float> input, output;
    std::optional<Geometry> geometry;
    RankMemory memory;
    Operation operation;
  };
  struct Host {
    std::unique_ptr<Region> slots, staging;
    std::unique_ptr<SendLane> send;
    std::unique_ptr<RecvLane> receive;
    std::unique_ptr<OneLaneEachWay> lanes;
    std::unique_ptr<Executor> executor;
    std::deque<Call> calls;  // addresses are stable
  };

  void Connect() {
    for (Host& host : hosts_) host = Host{};
    device_ = std::make_unique<CpuDevice>(CpuDeviceOptions{}, std::make_unique<LocalImporter>());
    Device& device = *device_;
    layout_.hosts = {{Rank(0)}, {Rank(1)}};
    orders_.rings = {{HostIndex(0), HostIndex(1)}};
    const size_t bytes = size_t{kShape.slots} * kShape.slot_bytes;
    for (Host& host : hosts_) {
      host.slots = std::move(*device.Allocate(bytes));
      host.staging = std::move(*device.Allocate(bytes));
      host.send = transport_.MakeSendLane({}, kShape);
      host.receive = transport_.MakeRecvLane({}, kShape, WholeOf(*host.slots));
      host.lanes =
          std::make_unique<OneLaneEachWay>(*host.send, *host.receive, WholeOf(*host.staging));
      host.executor = std::make_unique<Executor>(device, *host.lanes, kShape, /*channels=*/1);
    }
    for (int h = 0; h < 2; ++h) {
      const std::string to = "10.0.0." + std::to_string(2 - h);
      auto listener = std::move(*network_.HostNetwork(to).Listen({to, 7000}));
      hosts_[h].send->Attach(std::move(
          *network_.HostNetwork("10.0.0." + std::to_string(1 + h)).Connect({to, 7000}, {})));
      std::unique_ptr<Connection> accepted;
      while (accepted == nullptr) {
        network_.AdvanceTo(network_.NextEventTime().value_or(clock_.Now()));
        accepted = std::move(*listener->Accept());
      }
      hosts_[1 - h].receive->Attach(std::move(accepted));
    }
  }

  void Start(int h, OpKind kind, uint64_t count, uint8_t tag,
             std::optional<Algorithm> algorithm = std::nullopt) {
    Host& host = hosts_[h];
    Call& call = host.calls.emplace_back();
    call.input.resize(2 * count);
    call.output.assign(2 * count, -1);
    std::iota(call.input.begin(), call.input.end(), static_cast<float>(h * 1000));
    call.operation.plan = PlanOf(h, kind, algorithm.value_or(UsualAlgorithm(kind)));
    call.geometry.emplace(*call.operation.plan, DataType::kFloat32, count, kShape.slot_bytes);
    call.memory = {.input = SpanOf(call.input), .output = SpanOf(call.output)};
    call.operation.binding = {.geometry = &*call.geometry,
                              .ranks = std::span(&call.memory, 1),
                              .type = DataType::kFloat32};
    call.operation.tag[0] = static_cast<std::byte>(tag);
    ASSERT_TRUE(host.executor->Start(call.operation).ok());
  }

  // The same plan for calls of the same kind.
  std::shared_ptr<const Plan> PlanOf(int h, OpKind kind, Algorithm algorithm) {
    std::shared_ptr<const Plan>& plan = plans_[{h, kind, algorithm}];
    if (plan == nullptr) {
      plan = std::make_shared<const Plan>(
          *BuildPlan({.kind = kind, .algorithm = algorithm}, layout_, orders_, HostIndex(h)));
    }
    return plan;
  }

  // Polls until `hosts` are done; returns the first error.
  absl::Status Run(std::vector<int> hosts, int turns = 100'000) {
    for (int i = 0; i < turns; ++i) {
      bool running = false;
      for (Host& host : hosts_) {
        host.send->Poll();
        host.receive->Poll();
      }
      DispatchFinished(*device_);
      for (int h : hosts) {
        if (!hosts_[h].executor->running()) continue;
        running = true;
        if (auto moved = hosts_[h].executor->Poll(); !moved.ok()) return moved.status();
      }
      if (!running) return absl::OkStatus();
      network_.AdvanceTo(network_.NextEventTime().value_or(clock_.Now()));
    }
    return absl::DeadlineExceededError("still running");
  }

  void ExpectSum(uint64_t count) {
    for (const Host& host : hosts_) ExpectSum(host.calls.back(), count);
  }
  static void ExpectSum(const Call& call, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      ASSERT_EQ(call.output[i], 2 * static_cast<float>(i) + 1000) << i;
    ASSERT_EQ(call.output[count], -1) << "beyond the end";
  }

  SimClock clock_;
  SimNetwork network_{clock_, 1};
  StreamTransport transport_;
  Layout layout_;
  ChannelOrders orders_;
  std::map<std::tuple<int, OpKind, Algorithm>, std::shared_ptr<const Plan>> plans_;
  std::unique_ptr<Device> device_;
  Host hosts_[2];
};

TEST_F(ExecutorTest, ReusesStagingOverManyRounds) {
  Connect();
  for (int operation = 0; operation < 3; ++operation) {
    for (int h : {0, 1}) Start(h, OpKind::kAllReduce, 100'001, 1);  // 25 slots' worth through 2
    ASSERT_TRUE(Run({0, 1}).ok());
    EXPECT_TRUE(hosts_[0].executor->quiescent());
    ExpectSum(100'001);
  }
}

TEST_F(ExecutorTest, RunsDirectThenRingAllReduce) {
  Connect();
  for (uint64_t count : {1u, 1000u, 50'001u}) {
    for (Algorithm algorithm : {Algorithm::kDirect, Algorithm::kRing}) {
      for (int h : {0, 1}) Start(h, OpKind::kAllReduce, count, 1, algorithm);
      ASSERT_TRUE(Run({0, 1}).ok());
      ExpectSum(count);
    }
  }
}

TEST_F(ExecutorTest, ExchangesDeliverEachBlockToItsRank) {
  constexpr uint64_t kCount = 9000;
  Connect();
  // Element i of block b of rank r's input.
  const auto input = [](int r, uint64_t b, uint64_t i) {
    return static_cast<float>(1000 * static_cast<uint64_t>(r) + b * kCount + i);
  };
  for (OpKind kind : {OpKind::kAllToAll, OpKind::kGather, OpKind::kScatter, OpKind::kAllToAll}) {
    SCOPED_TRACE(testing::Message() << Name(kind));
    for (int h : {0, 1}) Start(h, kind, kCount, 1);
    ASSERT_TRUE(Run({0, 1}).ok());
    for (int h : {0, 1}) {
      for (uint64_t block : {0, 1}) {
        for (uint64_t i = 0; i < kCount; ++i) {
          float expected = input(static_cast<int>(block), static_cast<uint64_t>(h), i);
          if (kind == OpKind::kGather)
            expected = h == 0 ? input(static_cast<int>(block), 0, i) : -1;
          if (kind == OpKind::kScatter)
            expected = block == 0 ? input(0, static_cast<uint64_t>(h), i) : -1;
          ASSERT_EQ(hosts_[h].calls.back().output[block * kCount + i], expected)
              << h << ' ' << block << ' ' << i;
        }
      }
    }
  }
}

TEST_F(ExecutorTest, ReportsMismatchedSlice) {
  Connect();
  Start(0, OpKind::kAllReduce, 1000, 1);
  Start(1, OpKind::kAllReduce, 1000, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(Run({0, 1})));
  const bool first = hosts_[0].executor->mismatched_tag().has_value();
  const auto tag = hosts_[first ? 0 : 1].executor->mismatched_tag();
  ASSERT_TRUE(tag.has_value());
  EXPECT_EQ((*tag)[0], static_cast<std::byte>(first ? 2 : 1));
}

// The tag is right, the length is wrong: the rest of the slot contains data of an earlier slice.
TEST_F(ExecutorTest, ReportsSliceOfWrongLength) {
  for (size_t bytes : {0u, 4u, 4000u}) {
    SCOPED_TRACE(testing::Message() << bytes << " bytes");
    Connect();
    Start(0, OpKind::kAllReduce, 1000, 1);
    const std::vector<std::byte> payload(bytes);
    const RegionSpan piece = SpanOf(payload);
    bool posted = false;
    for (int i = 0; i < 100 && !posted; ++i) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(Run({0}, 1)));
      posted = hosts_[1].send->Post(piece, hosts_[0].calls.back().operation.tag)->has_value();
    }
    ASSERT_TRUE(posted);
    const absl::Status status = Run({0}, 1000);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(status.message(), testing::HasSubstr(std::to_string(bytes) + " bytes"));
    EXPECT_THAT(status.message(), testing::HasSubstr("the plan expects "));
    EXPECT_FALSE(hosts_[0].executor->mismatched_tag().has_value());
    EXPECT_EQ(hosts_[0].executor->Poll().status(), status) << "the error is permanent";
  }
}

// ---- Operations that overlap --------------------------------------------------------------------

// Host 0 starts all of them before its peer starts any.
TEST_F(ExecutorTest, OperationsOverlapWhateverThePeerDoes) {
  constexpr int kOperations = 12;
  for (const uint64_t count : {1u, 3000u}) {  // 3,000: several slices, more than the lanes' slots
    for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kRing}) {
      Connect();
      for (int i = 0; i < kOperations; ++i)
        Start(0, OpKind::kAllReduce, count, static_cast<uint8_t>(i), algorithm);
      EXPECT_EQ(hosts_[0].executor->running(), static_cast<size_t>(kOperations));
      EXPECT_TRUE(absl::IsDeadlineExceeded(Run({0}, 100)));
      for (int i = 0; i < kOperations; ++i) {
        Start(1, OpKind::kAllReduce, count, static_cast<uint8_t>(i), algorithm);
        for (int turn = 0; turn < 1000 && hosts_[1].executor->running() > 0; ++turn) {
          const absl::Status status = Run({0, 1}, 1);
          ASSERT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
        }
        ASSERT_EQ(hosts_[1].executor->running(), 0u) << "operation " << i;
      }
      ASSERT_TRUE(Run({0, 1}).ok());
      for (const Host& host : hosts_) {
        for (const Call& call : host.calls) ExpectSum(call, count);
      }
    }
  }
}

TEST_F(ExecutorTest, DifferentKindsOverlap) {
  Connect();
  for (int h : {0, 1}) {
    Start(h, OpKind::kAllReduce, 1000, 1);
    Start(h, OpKind::kAllToAll, 500, 2);
    Start(h, OpKind::kAllReduce, 2000, 3, Algorithm::kRing);
  }
  ASSERT_TRUE(Run({0, 1}).ok());
  for (const Host& host : hosts_) {
    ExpectSum(host.calls[0], 1000);
    ExpectSum(host.calls[2], 2000);
  }
  EXPECT_EQ(hosts_[0].calls[1].output[500], 1000) << "the first block of host 1";
}

TEST_F(ExecutorTest, AMismatchEndsNoOlderOperation) {
  Connect();
  for (int h : {0, 1}) {
    Start(h, OpKind::kAllReduce, 1000, 1);
    Start(h, OpKind::kAllReduce, 1000, h == 0 ? uint8_t{2} : uint8_t{3});
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Run({0, 1})));
  const bool first = hosts_[0].executor->mismatched_tag().has_value();
  const auto tag = hosts_[first ? 0 : 1].executor->mismatched_tag();
  ASSERT_TRUE(tag.has_value());
  EXPECT_EQ((*tag)[0], static_cast<std::byte>(first ? 3 : 2));
  EXPECT_EQ(hosts_[first ? 0 : 1].executor->running(), 1u) << "the older one is complete";
}

TEST_F(ExecutorTest, OnlyAFewOperationsOverlapAndLargePlansDoNot) {
  Connect();
  for (size_t i = 0; i < kMaxRunningOperations; ++i) {
    ASSERT_TRUE(hosts_[0].executor->MayStart(
        *PlanOf(0, OpKind::kAllReduce, UsualAlgorithm(OpKind::kAllReduce))));
    Start(0, OpKind::kAllReduce, 10, 1);
  }
  EXPECT_FALSE(hosts_[0].executor->MayStart(*hosts_[0].calls.back().operation.plan));
  Connect();
  Plan large = *PlanOf(0, OpKind::kAllReduce, UsualAlgorithm(OpKind::kAllReduce));
  large.programs[0].steps.resize(kMaxOverlappingSteps + 1);
  EXPECT_TRUE(hosts_[0].executor->MayStart(large)) << "nothing runs";
  Start(0, OpKind::kAllReduce, 10, 1);
  EXPECT_FALSE(hosts_[0].executor->MayStart(large));
}

}  // namespace executor_test
}  // namespace mccs

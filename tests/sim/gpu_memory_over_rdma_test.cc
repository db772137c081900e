// Collectives by kernels over RDMA: NICs reach memory on GPUs by dma-bufs, or each host stages what
// they do not reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "tests/sim/scenario.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace gpu_memory_over_rdma_test {

constexpr uint64_t kMost = 100'000;  // elements of a buffer
constexpr int kHosts = 3;

class SimGpuMemoryOverRdma : public testing::Test {
 protected:
  // `verbs` absent: lanes use TCP.
  void Start(const std::optional<FakeVerbsOptions>& verbs = FakeVerbsOptions{},
             int64_t registration_ns = 0) {
    world_ = std::make_unique<SimWorld>(SimWorldOptions{.seed = 1,
                                                        .hosts = kHosts,
                                                        .channels = 2,
                                                        .registration_ns = registration_ns,
                                                        .verbs = verbs,
                                                        .kernels = true});
    job_ = std::make_unique<SimJob>(*world_, std::vector<int>{0, 0, 1, 2}, kMost * sizeof(float));
  }
  // Small ones, whose slices go through slots, too, and large ones.
  void RunCollectives() {
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                              OpKind::kBroadcast, OpKind::kReduce, OpKind::kAllToAll}) {
      for (const uint64_t count : {uint64_t{1}, uint64_t{100}, uint64_t{20'000}}) {
        EXPECT_EQ(job_->Run(kind, count), "") << static_cast<int>(kind) << ", " << count;
      }
    }
    world_->RunFor(2 * kNsPerSec);
    EXPECT_EQ(job_->Run(OpKind::kAllReduce, 1), "") << "reports follow operations";
    world_->RunFor(2 * kNsPerSec);
  }
  const agent::v1::Report& ReportOf(int host) {
    return world_->host(host).controller().reports.at(job_->rank(0).id);
  }
  // Its NIC reached the last slice of a lane by a dma-buf, as it does in plans that are not staged
  // only.
  bool HasLaneFromGpu(int host) {
    return std::ranges::any_of(ReportOf(host).lanes(), [](const agent::v1::Lane& lane) {
      return lane.rdma().memory() == "dma-buf";
    });
  }
  std::string StagedAt(int host) { return ReportOf(host).staged(); }
  std::unique_ptr<SimWorld> world_;
  std::unique_ptr<SimJob> job_;
};

TEST_F(SimGpuMemoryOverRdma, SlicesGoFromGpuToGpu) {
  Start();
  ASSERT_TRUE(job_->Form());
  EXPECT_TRUE(job_->tenant(0).wants_dma_bufs());
  RunCollectives();
  // The lanes of the last operation that has large slices.
  EXPECT_EQ(job_->Run(OpKind::kAllGather, 20'000), "");
  world_->RunFor(2 * kNsPerSec);
  EXPECT_EQ(job_->Run(OpKind::kBroadcast, 20'000), "") << "reports follow operations";
  world_->RunFor(2 * kNsPerSec);
  for (int h = 0; h < kHosts; ++h) {
    EXPECT_EQ(StagedAt(h), "") << h;
    EXPECT_TRUE(HasLaneFromGpu(h)) << h;
    EXPECT_GE(world_->fabric().dma_bufs(world_->host(h).nic(0)), 2u) << h;
  }
}

TEST_F(SimGpuMemoryOverRdma, AHostWithoutDmaBufsStagesAndNamesTheReason) {
  Start();
  job_->tenant(2).HasNoDmaBufs("GPU 0 has no dma-bufs; use another driver");
  ASSERT_TRUE(job_->Form());
  RunCollectives();
  EXPECT_EQ(StagedAt(0), "") << "each host decides alone";
  EXPECT_EQ(StagedAt(2), "");
  EXPECT_THAT(StagedAt(1), Mentions("host memory", "GPU 0 has no dma-bufs", "driver"));
  EXPECT_TRUE(world_->host(1).log().Contains("GPU 0 has no dma-bufs"));
  EXPECT_EQ(world_->fabric().dma_bufs(world_->host(1).nic(0)), 0u);
}

TEST_F(SimGpuMemoryOverRdma, NicsThatRegisterNoDmaBufsAreNamed) {
  Start(FakeVerbsOptions{.no_dma_bufs = "its driver cannot register dma-bufs; use another device"});
  ASSERT_TRUE(job_->Form());
  EXPECT_FALSE(job_->tenant(0).wants_dma_bufs());
  RunCollectives();
  for (int h = 0; h < kHosts; ++h) {
    EXPECT_THAT(StagedAt(h),
                Mentions("RDMA device h", "cannot register dma-bufs", "another device"));
  }
}

// There is nothing to repair.
TEST_F(SimGpuMemoryOverRdma, OverTcpStagingIsNotReported) {
  Start(std::nullopt);
  ASSERT_TRUE(job_->Form());
  if (std::getenv("MCCS_SIM_TRANSPORT") != nullptr) GTEST_SKIP() << "lanes use RDMA everywhere";
  RunCollectives();
  for (int h = 0; h < kHosts; ++h) EXPECT_EQ(StagedAt(h), "") << h;
}

TEST_F(SimGpuMemoryOverRdma, ARegistrationThatFailsIsNamed) {
  Start();
  world_->fabric().dma_buf_failure = absl::ResourceExhaustedError("no room for translations");
  ASSERT_TRUE(job_->Form());
  RunCollectives();
  for (int h = 0; h < kHosts; ++h) EXPECT_THAT(StagedAt(h), Mentions("no room for translations"));
}

// The first ones are copied while the NIC registers the window.
TEST_F(SimGpuMemoryOverRdma, PutsLandInTheWindow) {
  Start();
  ASSERT_TRUE(job_->Form());
  job_->Fill(kMost);
  constexpr uint64_t kCount = 30'000;
  for (int r = 0; r < job_->ranks(); ++r) job_->OpenWindow(r, kMost);
  uint64_t copies = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    copies = job_->tenant(2).copies_requested();
    job_->Post(0, SimJob::Put{.peer = 2, .at = i * kCount, .count = kCount, .to = i * kCount});
    job_->Post(2, SimJob::Wait{.peer = 0});
    ASSERT_TRUE(job_->Complete());
  }
  EXPECT_EQ(job_->tenant(2).copies_requested(), copies) << "the last one is not copied";
  for (uint64_t i = 0; i < 3 * kCount; ++i) {
    ASSERT_EQ(job_->output(2, i), SimJob::InputValue(0, i)) << i;
  }
}

// The first put waits for the process that copies it, while the NIC has registered the window.
TEST_F(SimGpuMemoryOverRdma, ALaterPutToTheSamePlaceWins) {
  Start(FakeVerbsOptions{}, /*registration_ns=*/kNsPerMs);
  ASSERT_TRUE(job_->Form());
  job_->Fill(kMost);
  constexpr uint64_t kCount = 1000;
  job_->OpenWindow(2, kMost);
  job_->tenant(2).HoldCopies();
  job_->Post(0, SimJob::Put{.peer = 2, .at = 0, .count = kCount, .to = kCount});
  ASSERT_TRUE(world_->RunUntil([&] { return job_->tenant(2).held_copies() > 0; }));
  world_->RunFor(20 * kNsPerMs);
  // Overlaps the end of the first one.
  job_->Post(0, SimJob::Put{.peer = 2, .at = 5000, .count = kCount, .to = kCount + kCount / 2});
  // Elsewhere: the NIC writes it.
  job_->Post(0, SimJob::Put{.peer = 2, .at = 7000, .count = kCount, .to = 10 * kCount});
  job_->Post(2, SimJob::Wait{.peer = 0, .signals = 3});
  world_->RunFor(20 * kNsPerMs);
  EXPECT_EQ(job_->output(2, 10 * kCount), SimJob::InputValue(0, 7000)) << "not copied";
  EXPECT_EQ(job_->rank(2).done(), 0u) << "signals keep their order";
  job_->tenant(2).MakeHeldCopies();
  ASSERT_TRUE(job_->Complete());
  for (uint64_t i = 0; i < kCount / 2; ++i) {
    ASSERT_EQ(job_->output(2, kCount + i), SimJob::InputValue(0, i)) << i;
  }
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(job_->output(2, kCount + kCount / 2 + i), SimJob::InputValue(0, 5000 + i)) << i;
  }
}

TEST_F(SimGpuMemoryOverRdma, AReleaseWaitsForTheNics) {
  Start();
  ASSERT_TRUE(job_->Form());
  ASSERT_EQ(job_->Run(OpKind::kAllReduce, 20'000), "");
  ASSERT_GE(world_->fabric().dma_bufs(world_->host(1).nic(0)), 1u);
  job_->Release(2);
  ASSERT_TRUE(world_->RunUntil([&] { return job_->IsReleased(2); }));
  EXPECT_EQ(world_->fabric().dma_bufs(world_->host(1).nic(0)), 0u);
}

}  // namespace gpu_memory_over_rdma_test
}  // namespace mccs

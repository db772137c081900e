// Which local ranks run programs, and what happens if processes cannot map each other's memory.
#include "service/communicator/membership/kernel_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/messages/idle_port.h"

namespace mccs {
namespace kernel_ranks_test {

using wire::KernelRole;

std::vector<int> Runners(const std::vector<KernelPlace>& places) {
  std::vector<int> runners;
  for (const LocalIndex runner : ChooseRunners(places)) runners.push_back(runner.value());
  return runners;
}

TEST(ChooseRunners, AGpuOfOneRankIsItsOwn) {
  EXPECT_EQ(Runners({{.session = 2, .gpu = "a"}, {.session = 1, .gpu = "b"}}),
            (std::vector<int>{0, 1}));
}

TEST(ChooseRunners, TheProcessThatConnectedFirstRunsTheProgramsOfASharedGpu) {
  EXPECT_EQ(Runners({{.session = 3, .gpu = "a"},
                     {.session = 2, .gpu = "b"},
                     {.session = 1, .gpu = "a"},
                     {.session = 4, .gpu = "b"}}),
            (std::vector<int>{2, 1, 2, 1}));
}

TEST(ChooseRunners, TheFirstRankOfAProcessRunsThem) {
  EXPECT_EQ(Runners({{.session = 1, .gpu = "a"}, {.session = 1, .gpu = "a"}}),
            (std::vector<int>{0, 0}));
}

class Memory final : public Region {
 public:
  Memory() : Region(RegionKind::kTenant, nullptr, 4096) {}
};

// A process on one GPU that answers when it is told to.
class Process final : public GpuAddressSpace {
 public:
  explicit Process(KernelPlace place) : place_(std::move(place)) {}

  const KernelPlace& place() const override { return place_; }
  uint64_t StartCopy(uint64_t, uint64_t, uint64_t) override { return 0; }
  void ForgetCopy(uint64_t) override {}
  absl::StatusOr<bool> TakeCopied(uint64_t) override { return true; }
  bool alive() const override { return true; }
  const Region* probe() const override { return &probe_; }
  absl::StatusOr<uint64_t> AddressOf(const Region& region) override {
    ++asked_[region.id()];
    if (!refusal_.empty()) return absl::UnavailableError(refusal_);
    return answers_ ? 0x1000 : 0;
  }

  void Answer() { answers_ = true; }
  void Refuse(const std::string& why) { refusal_ = why; }
  bool WasAskedFor(const Process& owner) const { return asked_.contains(owner.probe_.id()); }
  size_t asked() const { return asked_.size(); }

 private:
  const KernelPlace place_;
  const Memory probe_;
  std::map<RegionId, int> asked_;
  bool answers_ = false;
  std::string refusal_;
};

class Port final : public IdlePort {
 public:
  explicit Port(GpuAddressSpace* process) : process_(process) {}
  GpuAddressSpace* kernels() override { return process_; }

 private:
  GpuAddressSpace* const process_;
};

// Two GPUs; the ranks 4 and 6 of two processes share the first one.
class KernelRanksTest : public testing::Test {
 protected:
  Process first_{{.session = 2, .gpu = "a"}};
  Process alone_{{.session = 3, .gpu = "b"}};
  Process second_{{.session = 5, .gpu = "a"}};
  Port ports_[3] = {Port(&first_), Port(&alone_), Port(&second_)};
  std::vector<LocalRank> ranks_ = {
      {Rank(4), &ports_[0]}, {Rank(5), &ports_[1]}, {Rank(6), &ports_[2]}};
};

TEST_F(KernelRanksTest, EachRunnerMapsTheMemoryOfTheOthers) {
  KernelRanks ranks(ranks_);
  EXPECT_FALSE(ranks.Poll());
  EXPECT_FALSE(ranks.done());
  EXPECT_TRUE(first_.WasAskedFor(alone_));
  EXPECT_TRUE(first_.WasAskedFor(second_));
  EXPECT_FALSE(first_.WasAskedFor(first_));
  EXPECT_TRUE(alone_.WasAskedFor(first_));
  EXPECT_TRUE(alone_.WasAskedFor(second_));
  EXPECT_EQ(second_.asked(), 0u) << "its kernels run nothing";
  EXPECT_EQ(ranks.DescribeMissing(),
            "the process of rank 4 has not answered whether it can map memory of rank 5");
  first_.Answer();
  EXPECT_TRUE(ranks.Poll());
  EXPECT_FALSE(ranks.done());
  alone_.Answer();
  ranks.Poll();
  ASSERT_TRUE(ranks.done());
  EXPECT_EQ(ranks.staged(), "");
}

TEST_F(KernelRanksTest, RanksThatShareAGpuWaitWithoutRunning) {
  Port same_process(&first_);
  ranks_.push_back({Rank(7), &same_process});
  first_.Answer();
  alone_.Answer();
  KernelRanks ranks(ranks_);
  ranks.Poll();
  ASSERT_TRUE(ranks.done());
  EXPECT_EQ(ranks.UseOf(LocalIndex(0)).role, KernelRole::kRunsPlans);
  EXPECT_EQ(ranks.UseOf(LocalIndex(1)).role, KernelRole::kRunsPlans);
  EXPECT_EQ(ranks.UseOf(LocalIndex(2)).role, KernelRole::kSharesWithOther);
  EXPECT_EQ(ranks.UseOf(LocalIndex(3)).role, KernelRole::kSharesWithProcess);
}

TEST_F(KernelRanksTest, AProcessThatCannotMapMakesAllStage) {
  first_.Answer();
  alone_.Refuse("cuIpcOpenMemHandle: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED");
  KernelRanks ranks(ranks_);
  ranks.Poll();
  ASSERT_TRUE(ranks.done());
  EXPECT_THAT(ranks.staged(), testing::HasSubstr("rank 5 cannot use memory of rank 4, so"));
  EXPECT_THAT(ranks.staged(),
              testing::HasSubstr("(cuIpcOpenMemHandle: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)"));
  EXPECT_THAT(ranks.staged(), testing::HasSubstr("--ipc=host"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ranks.UseOf(LocalIndex(i)).staged, ranks.staged());
}

TEST_F(KernelRanksTest, WithoutKernelsNothingIsAsked) {
  Port processor(nullptr);
  const std::vector<LocalRank> locals = {{Rank(0), &processor}, {Rank(1), &processor}};
  KernelRanks ranks(locals);
  ranks.Poll();
  EXPECT_TRUE(ranks.done());
  EXPECT_TRUE(ranks.runners().empty());
  EXPECT_EQ(ranks.UseOf(LocalIndex(1)).role, KernelRole::kNone);
}

}  // namespace kernel_ranks_test
}  // namespace mccs

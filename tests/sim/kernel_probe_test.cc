// Communicators whose processes map each other's probe memory before they are formed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace kernel_probe_test {

using testing::AllOf;
using testing::HasSubstr;
using MapAnswer = SimTenant::MapAnswer;

// Two ranks on the first host, one on the second.
class SimKernelProbe : public testing::Test {
 protected:
  void SetUp() override {
    for (int r = 0; r < job_.ranks(); ++r) job_.tenant(r).Register(ProbeOf(r), kBytes);
    ASSERT_TRUE(world_.RunUntil([&] {
      for (int r = 0; r < job_.ranks(); ++r) {
        if (job_.tenant(r).BufferAt(ProbeOf(r)) == 0) return false;
      }
      return true;
    }));
    for (int r = 0; r < job_.ranks(); ++r) job_.tenant(r).SetProbe(ProbeOf(r));
  }
  std::byte* ProbeOf(int r) { return probes_.data() + static_cast<size_t>(r) * kBytes; }
  bool RunUntilAnswered(std::initializer_list<int> ranks, int64_t limit_ns) {
    return world_.RunUntil(
        [&] { return std::ranges::all_of(ranks, [&](int r) { return job_.rank(r).answered; }); },
        limit_ns);
  }

  static constexpr size_t kBytes = 4096;
  SimWorld world_{{.hosts = 2, .kernels = true}};
  SimJob job_{world_, {0, 0, 1}, 1 << 16};
  std::vector<std::byte> probes_ = std::vector<std::byte>(3 * kBytes);
};

TEST_F(SimKernelProbe, ProcessesOfOneHostMapEachOthersMemory) {
  ASSERT_TRUE(job_.Form());
  EXPECT_EQ(job_.tenant(0).maps_requested(), 1u);
  EXPECT_EQ(job_.tenant(1).maps_requested(), 1u);
  EXPECT_EQ(job_.tenant(2).maps_requested(), 0u) << "alone on its host";
  for (int r = 0; r < 3; ++r) EXPECT_FALSE(job_.rank(r).stages_collectives);
  EXPECT_EQ(job_.Run(OpKind::kAllReduce, 1000), "");
}

TEST_F(SimKernelProbe, ALaterCommunicatorAsksNothing) {
  ASSERT_TRUE(job_.Form());
  const uint64_t asked = job_.tenant(0).maps_requested();
  std::vector<SimRank*> halves;
  for (int r = 0; r < 3; ++r) halves.push_back(&job_.tenant(r).Split(job_.rank(r), 0, r));
  ASSERT_TRUE(world_.RunUntil(
      [&] { return std::ranges::all_of(halves, [](const SimRank* r) { return r->answered; }); }));
  EXPECT_EQ(halves[0]->status.error, wire::ErrorClass::kNone) << halves[0]->status.text;
  EXPECT_EQ(job_.tenant(0).maps_requested(), asked);
}

// The other host is not affected.
TEST_F(SimKernelProbe, WithoutAccessTheHostStagesItsCollectives) {
  job_.tenant(1).AnswerMapsWith(MapAnswer::kError);
  ASSERT_TRUE(job_.Form());
  for (int r : {0, 1}) {
    EXPECT_TRUE(job_.rank(r).stages_collectives);
    EXPECT_THAT(job_.rank(r).staged_text,
                AllOf(HasSubstr("rank 1 cannot use memory of rank 0"),
                      HasSubstr("the GPUs have no access to each other")));
  }
  EXPECT_FALSE(job_.rank(2).stages_collectives);
}

TEST_F(SimKernelProbe, AProcessThatDoesNotAnswerEndsTheInit) {
  job_.tenant(1).AnswerMapsWith(MapAnswer::kNone);
  ASSERT_TRUE(job_.Begin());
  ASSERT_TRUE(RunUntilAnswered({0, 1, 2}, 60 * kNsPerSec));
  EXPECT_THAT(std::string(job_.rank(0).status.text),
              AllOf(HasSubstr("map each other's memory"),
                    HasSubstr("the process of rank 1 has not answered")));
}

TEST_F(SimKernelProbe, AProcessThatEndsMeanwhileEndsTheInit) {
  job_.tenant(1).AnswerMapsWith(MapAnswer::kNone);
  ASSERT_TRUE(job_.Begin());
  ASSERT_TRUE(world_.RunUntil([&] { return job_.tenant(1).maps_requested() == 1; }));
  job_.tenant(1).Kill();
  ASSERT_TRUE(RunUntilAnswered({0, 2}, 5 * kNsPerSec));
  EXPECT_THAT(std::string(job_.rank(0).status.text), HasSubstr("rank 1 left: its process"));
}

}  // namespace kernel_probe_test
}  // namespace mccs

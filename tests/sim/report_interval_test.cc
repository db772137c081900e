// How often daemons report while they work: production daemons and controller.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_control.h"
#include "tests/sim/sim_job.h"
#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace report_interval_test {

constexpr uint64_t kCount = 10'000;  // about 5 ms on this network

// A job on two hosts, and other hosts of which only the controller knows.
class SimReportInterval : public testing::Test {
 protected:
  SimReportInterval()
      : world_({.seed = 1,
                .hosts = 2,
                .network = kSlowNetwork,
                .controller = MakeSimControl(1, &control_)}),
        job_(world_, {0, 1}, kCount * sizeof(float)) {
    EXPECT_TRUE(job_.Form());
    job_.Fill(kCount);
  }

  static AgentKey KeyOf(int host) { return AgentKey(1'000'000 + static_cast<uint64_t>(host)); }
  // Other hosts connect; they live as long as they send heartbeats.
  void Connect(int others) {
    others_ = others;
    control_->With([&](Coordinator& c) {
      for (int h = 0; h < others; ++h)
        c.Handle(KeyOf(h), Registration(MakeHost(absl::StrCat("other", h))));
    });
  }
  void Beat() {
    agent::v1::FromAgent beat;
    beat.mutable_heartbeat();
    control_->With([&](Coordinator& c) {
      for (int h = 0; h < others_; ++h) c.Handle(KeyOf(h), beat);
    });
  }
  // The number of reports of `host` in `ns`, of a job that always has operations posted.
  size_t ReportsIn(int64_t ns, int host = 0) {
    std::set<int64_t> times;
    for (const MonotonicNs end = world_.clock().Now() + ns; world_.clock().Now() < end;) {
      if (job_.Done()) job_.PostAll(OpKind::kAllReduce, kCount);
      world_.RunFor(kNsPerMs);
      if (world_.clock().Now() % kNsPerSec < kNsPerMs) Beat();
      times.insert(control_->agent(host).reports().at(job_.rank(0).id).measured_ns());
    }
    return times.size() - 1;  // the first one is older
  }

  int others_ = 0;
  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_;
  SimJob job_;
};

TEST_F(SimReportInterval, FollowsTheNumberOfHostsWhileTheJobRuns) {
  EXPECT_NEAR(static_cast<double>(ReportsIn(6 * kNsPerSec)), 12, 1);
  Connect(998);
  ReportsIn(2 * kNsPerSec);
  for (const int host : {0, 1})
    EXPECT_NEAR(static_cast<double>(ReportsIn(6 * kNsPerSec, host)), 6, 1) << host;
  others_ = 0;  // They become silent, and lost.
  ReportsIn(5 * kNsPerSec);
  EXPECT_NEAR(static_cast<double>(ReportsIn(6 * kNsPerSec)), 12, 1);
}

TEST_F(SimReportInterval, NextControllerSendsItsOwn) {
  Connect(998);
  ReportsIn(2 * kNsPerSec);
  control_->Kill();
  others_ = 0;
  world_.RunFor(kNsPerSec);
  control_->Restart();
  ReportsIn(2 * kNsPerSec);
  EXPECT_NEAR(static_cast<double>(ReportsIn(6 * kNsPerSec)), 12, 1);
}

TEST_F(SimReportInterval, FailureIsReportedAtOnce) {
  Connect(4998);
  ReportsIn(2 * kNsPerSec);
  EXPECT_LE(ReportsIn(6 * kNsPerSec), 2u);
  world_.Kill(1);
  EXPECT_TRUE(world_.RunUntil(
      [&] {
        return control_->agent(0).reports().at(job_.rank(0).id).state().starts_with("failed");
      },
      100 * kNsPerMs));
}

}  // namespace report_interval_test
}  // namespace mccs

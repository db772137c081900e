// The options of one call are recorded with it and reported to the controller.
#include <gtest/gtest.h>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace call_options_test {

TEST(SimCallOptions, AreReportedToTheController) {
  SimWorld world({.seed = 31, .network = {}});
  SimJob job(world, {0, 1}, 1 << 12);
  ASSERT_TRUE(job.Form());
  const CallOptions urgent{
      .deadline_us = 2000, .priority = 7, .criticality = Criticality::kCritical};
  for (const CallOptions& options :
       {CallOptions{}, CallOptions{.priority = 1}, urgent, CallOptions{}}) {
    for (int r = 0; r < 2; ++r) {
      job.tenant(r).Post(job.rank(r),
                         {.count = 10, .send = {1, 0, 0}, .recv = {2, 0, 0}, .options = options});
    }
  }
  ASSERT_TRUE(world.RunUntil([&] { return job.Done(); }));
  world.RunFor(kNsPerSec);
  for (int h = 0; h < 2; ++h) {
    const auto& reports = world.host(h).controller().reports;
    ASSERT_EQ(reports.size(), 1u);
    const CallsWithOptions& reported = reports.begin()->second.with_options;
    EXPECT_EQ(reported.calls, 2u);
    EXPECT_EQ(reported.last_number, 3u);
    EXPECT_EQ(reported.last, urgent);
  }
}

}  // namespace call_options_test
}  // namespace mccs

#include "base/hangup_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "tests/unit/eventually.h"

namespace mccs {
namespace hangup_thread_test {

TEST(HangupThread, CallsForEachSignalUntilItEnds) {
  HangupThread::Block();
  std::atomic<int> calls = 0;
  {
    auto thread = HangupThread::Start([&] { ++calls; });
    ASSERT_TRUE(thread.ok()) << thread.status();
    for (int i = 1; i <= 3; ++i) {
      ASSERT_EQ(kill(getpid(), SIGHUP), 0);
      ASSERT_TRUE(Eventually([&] { return calls == i; }));
    }
  }
  ASSERT_EQ(kill(getpid(), SIGHUP), 0);  // blocked, and does not end the process
  EXPECT_EQ(calls, 3);
  auto next = HangupThread::Start([&] { ++calls; });
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(Eventually([&] { return calls == 4; })) << "the one that waited";
}

}  // namespace hangup_thread_test
}  // namespace mccs

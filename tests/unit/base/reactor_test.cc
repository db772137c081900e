#include "base/reactor.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "base/clock.h"

namespace mccs {
namespace reactor_test {

constexpr int64_t kTimeoutNs = 5 * kNsPerSec;

class ReactorTest : public testing::Test {
 protected:
  void Ring(const UniqueFd& event) {
    const uint64_t one = 1;
    ASSERT_EQ(write(event.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }

  std::unique_ptr<Reactor> reactor_ = *Reactor::Create();
  UniqueFd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Readiness readiness_;
};

TEST_F(ReactorTest, ReturnsNothingWithoutWatchedDescriptors) {
  EXPECT_EQ(reactor_->Wait(0), 0);
  SystemClock clock;
  const MonotonicNs before = clock.Now();
  EXPECT_EQ(reactor_->Wait(200 * kNsPerUs), 0);
  EXPECT_GE(clock.Now() - before, 200 * kNsPerUs);
}

TEST_F(ReactorTest, ReportsAnExistingStateOnce) {
  Ring(event_);
  ASSERT_TRUE(reactor_->Watch(event_.get(), &readiness_).ok());
  EXPECT_EQ(reactor_->Wait(kTimeoutNs), 1);
  EXPECT_TRUE(readiness_.readable);
  EXPECT_TRUE(readiness_.writable);
  EXPECT_FALSE(readiness_.hangup);
  readiness_ = {};
  EXPECT_EQ(reactor_->Wait(0), 0) << "edge-triggered: an unchanged state is not reported";
  EXPECT_FALSE(readiness_.readable);
}

TEST_F(ReactorTest, ReportsEachChange) {
  ASSERT_TRUE(reactor_->Watch(event_.get(), &readiness_).ok());
  reactor_->Wait(0);
  readiness_ = {};
  for (int i = 0; i < 3; ++i) {
    Ring(event_);
    EXPECT_EQ(reactor_->Wait(kTimeoutNs), 1);
    EXPECT_TRUE(readiness_.readable);
    readiness_ = {};
  }
}

TEST_F(ReactorTest, WakesOnlyTheOwnerOfTheDescriptor) {
  struct Count final : Waker {
    void Wake() override { ++times; }
    int times = 0;
  } ours, others;
  readiness_.waker = &ours;
  UniqueFd other_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Readiness other{.waker = &others};
  ASSERT_TRUE(reactor_->Watch(event_.get(), &readiness_).ok());
  ASSERT_TRUE(reactor_->Watch(other_event.get(), &other).ok());
  reactor_->Wait(0);
  ours.times = others.times = 0;
  for (int i = 1; i <= 3; ++i) {
    Ring(event_);
    EXPECT_EQ(reactor_->Wait(kTimeoutNs), 1);
    EXPECT_EQ(ours.times, i) << "also while the flag is set";
  }
  EXPECT_EQ(others.times, 0);
}

TEST_F(ReactorTest, ReportsAHangupWhenThePeerCloses) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd near(ends[0]), far(ends[1]);
  ASSERT_TRUE(reactor_->Watch(near.get(), &readiness_).ok());
  reactor_->Wait(0);
  EXPECT_FALSE(readiness_.readable);
  far.Reset();
  EXPECT_EQ(reactor_->Wait(kTimeoutNs), 1);
  EXPECT_TRUE(readiness_.hangup);
  EXPECT_TRUE(readiness_.readable);
}

TEST_F(ReactorTest, DoesNotReportUnwatchedDescriptors) {
  ASSERT_TRUE(reactor_->Watch(event_.get(), &readiness_).ok());
  EXPECT_FALSE(reactor_->Watch(event_.get(), &readiness_).ok()) << "watched already";
  reactor_->Unwatch(event_.get());
  Ring(event_);
  EXPECT_EQ(reactor_->Wait(0), 0);
  EXPECT_FALSE(readiness_.readable);
  EXPECT_FALSE(reactor_->Watch(-1, &readiness_).ok());
}

TEST_F(ReactorTest, UnwatchHasNoEffectAfterAFailedWatch) {
  reactor_->Unwatch(event_.get());
  EXPECT_TRUE(reactor_->Watch(event_.get(), &readiness_).ok());
}

TEST_F(ReactorTest, ManyDescriptorsTakeSeveralWaitsAtMost) {
  constexpr size_t kMany = 200;
  std::vector<UniqueFd> events;
  std::vector<Readiness> flags(kMany);
  for (size_t i = 0; i < kMany; ++i) {
    events.emplace_back(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
    ASSERT_TRUE(reactor_->Watch(events[i].get(), &flags[i]).ok());
  }
  int seen = 0;
  for (int got = 1; got > 0; seen += got) got = reactor_->Wait(0);
  EXPECT_EQ(seen, static_cast<int>(kMany));
  for (const Readiness& flag : flags) EXPECT_TRUE(flag.readable);
}

TEST_F(ReactorTest, ASignalEndsTheWaitWithoutError) {
  struct sigaction ignore_it {};
  ignore_it.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGALRM, &ignore_it, &before), 0);
  // Repeats, in case a signal arrives before the wait.
  const itimerval every_ms{.it_interval = {.tv_sec = 0, .tv_usec = 1000},
                           .it_value = {.tv_sec = 0, .tv_usec = 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every_ms, nullptr), 0);
  EXPECT_EQ(reactor_->Wait(-1), 0);
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

}  // namespace reactor_test
}  // namespace mccs

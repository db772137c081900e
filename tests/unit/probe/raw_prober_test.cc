#include "service/probe/raw_prober.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "service/probe/probe_run.h"

namespace mccs {
namespace raw_prober_test {

using testing::HasSubstr;

ProbeTask From(uint32_t address) {
  return {.flow = {.source_address = address,
                   .destination_address = 0x7f000002,
                   .protocol = kProtocolUdp,
                   .source_port = 61000,
                   .destination_port = 4791},
          .switches = 1};
}

ProbeOutcome OutcomeOf(const ProbeTask& task) {
  std::promise<std::vector<ProbeOutcome>> promise;
  RawProber prober;
  prober.Probe({task},
               [&](std::vector<ProbeOutcome> outcomes) { promise.set_value(std::move(outcomes)); });
  std::vector<ProbeOutcome> outcomes = promise.get_future().get();
  EXPECT_EQ(outcomes.size(), 1u);
  return outcomes.at(0);
}

bool MayOpenRawSockets() {
  return UniqueFd(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP)).valid();
}

TEST(RawProber, AnAddressOfAnotherHostIsRejected) {
  if (!MayOpenRawSockets()) GTEST_SKIP() << "needs CAP_NET_RAW";
  EXPECT_EQ(OutcomeOf(From(0xc0000201)).why_not, "192.0.2.1 is not an address of this host");
}

TEST(RawProber, ReportsNoAnswerWithoutSwitches) {
  if (!MayOpenRawSockets()) GTEST_SKIP() << "needs CAP_NET_RAW";
  EXPECT_THAT(OutcomeOf(From(0x7f000001)).why_not, HasSubstr("no switch on the path to 127.0.0.2"));
}

// No switch answers, so a list takes all its timeouts.
TEST(RawProber, DropsUnfinishedListsAtItsEndWithoutDelay) {
  if (!MayOpenRawSockets()) GTEST_SKIP() << "needs CAP_NET_RAW";
  SystemClock clock;
  std::atomic<int> answers = 0;
  MonotonicNs began = 0;
  {
    RawProber prober;
    for (size_t i = 0; i < RawProber::kMaxWaiting; ++i)
      prober.Probe({From(0x7f000001)}, [&](const std::vector<ProbeOutcome>&) { ++answers; });
    began = clock.Now();
  }
  EXPECT_EQ(answers, 0);
  constexpr int64_t kListNs = ProbeRun::kFirstTimeoutNs * ((1 << ProbeRun::kAttempts) - 1);
  EXPECT_LT(clock.Now() - began, kListNs) << "not even the list in progress is finished";
}

// Exits with 0 if the expected outcome was reported.
void ProbeWithoutPrivilege() {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  __user_cap_data_struct none[2]{};
  if (syscall(SYS_capset, &header, none) != 0) _exit(1);
  const std::string why = OutcomeOf(From(0x7f000001)).why_not;
  _exit(why.find("the capability CAP_NET_RAW") != std::string::npos ? 0 : 2);
}

TEST(RawProberDeathTest, NamesTheMissingPrivilege) {
  EXPECT_EXIT(ProbeWithoutPrivilege(), testing::ExitedWithCode(0), "");
}

}  // namespace raw_prober_test
}  // namespace mccs

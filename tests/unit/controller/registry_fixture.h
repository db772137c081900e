// A registry with hosts and communicators; the test plays their daemons.
#ifndef MCCS_TESTS_UNIT_CONTROLLER_REGISTRY_FIXTURE_H_
#define MCCS_TESTS_UNIT_CONTROLLER_REGISTRY_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/state/registry.h"
#include "tests/unit/controller/agent_messages.h"

namespace mccs {
namespace registry_test {

inline constexpr AgentKey kFirst{1}, kSecond{2}, kThird{3};
inline constexpr CommId kId{0xc0ffee};

inline std::vector<uint64_t> EpochsOf(const CommunicatorRecord& record) {
  std::vector<uint64_t> epochs;
  for (const strategy::Strategy& proposed : record.proposed) epochs.push_back(proposed.epoch());
  return epochs;
}

inline agent::v1::Announce AnnounceOf(const std::vector<std::string>& hosts, CommId id = kId) {
  return MakeAnnounce(id.value(), hosts);
}

inline agent::v1::Announce AtEpoch(agent::v1::Announce announce, uint64_t epoch) {
  announce.mutable_strategy()->set_epoch(epoch);
  announce.set_newest_epoch(epoch);
  return announce;
}

inline agent::v1::Report ReportOf(uint64_t epoch, uint64_t rejected_epoch = 0) {
  agent::v1::Report report = Reporting(kId.value(), epoch).reports().complete(0);
  report.set_rejected_epoch(rejected_epoch);
  return report;
}

class RegistryTest : public testing::Test {
 protected:
  absl::Status Register(AgentKey agent, const agent::v1::Host& host,
                        const std::vector<agent::v1::Announce>& led = {}) {
    const absl::StatusOr<Unlisted> unlisted =
        registry_.Register(agent, Registration(host, led).registration(), ++now_);
    if (unlisted.ok()) unlisted_ = *unlisted;
    return unlisted.status();
  }
  absl::Status Register(AgentKey agent, const std::string& host,
                        const std::vector<agent::v1::Announce>& led = {}) {
    return Register(agent, MakeHost(host), led);
  }
  absl::Status Announce(const std::string& host, const agent::v1::Announce& announce) {
    return registry_.Announce(host, announce, ++now_);
  }
  // Hosts h0 and h1, and a communicator of both that h0 leads.
  void AnnouncePair() {
    ASSERT_TRUE(Register(kFirst, "h0").ok());
    ASSERT_TRUE(Register(kSecond, "h1").ok());
    ASSERT_TRUE(Announce("h0", AnnounceOf({"h0", "h1"})).ok());
  }
  uint64_t Propose() { return registry_.Propose(kId, Record().Applied(), ++now_).epoch(); }
  const HostRecord& Host(const std::string& name) { return registry_.hosts().at(name); }
  const CommunicatorRecord& Record(CommId id = kId) { return registry_.communicators().at(id); }
  bool Has(CommId id) { return registry_.communicators().contains(id); }

  Registry registry_;
  Unlisted unlisted_;  // of the last registration
  MonotonicNs now_ = 1000;
};

}  // namespace registry_test
}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_CONTROLLER_REGISTRY_FIXTURE_H_

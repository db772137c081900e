// Captured groups of a rank; the test captures the calls and plays the streams.
#ifndef MCCS_TESTS_UNIT_FRONTEND_CAPTURED_GROUPS_FIXTURE_H_
#define MCCS_TESTS_UNIT_FRONTEND_CAPTURED_GROUPS_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {

class CapturedGroupsTest : public RankEndpointTest {
 protected:
  // A record of a group on (slot, group).
  wire::WorkRecord At(uint32_t slot, uint64_t group, wire::WorkRecord record, bool more = false) {
    record.ready_slot = slot;
    record.ready_value = group;
    record.flags = more ? wire::kMoreInGroup : wire::kNoFlags;
    return record;
  }
  wire::WorkRecord Send(int peer) {
    wire::WorkRecord record = Call(1);
    record.op = OpKind::kSend;
    record.root_or_peer = peer;
    return record;
  }
  absl::Status Add(uint64_t capture, const wire::WorkRecord& record) {
    const auto status = groups().Add(capture, record);
    EXPECT_TRUE(status.has_value());
    return status.value_or(absl::UnknownError("more to come"));
  }
  // The writes of a replay's streams.
  void Reach(uint32_t slot, uint32_t group) {
    auto* low = reinterpret_cast<uint32_t*>(&page().captured_done[slot].value);
    std::atomic_ref(*low).store(0);
    page().captured_ready[slot].store(group);
  }
  // The value that the streams wait for.
  bool Done(uint32_t slot) {
    return static_cast<int64_t>(page().captured_done[slot].value.load() - 1) >= 0;
  }
  absl::StatusOr<bool> Poll(size_t looks = 1 << 20) {
    CapturedBudget budget(looks);
    return endpoint_->PollCaptured(&budget);
  }
  uint64_t NextKey(uint64_t after = 0) {
    const auto more = Poll();
    EXPECT_TRUE(more.ok()) << more.status();
    return endpoint_->NextCaptured(after);
  }
  CapturedGroups& groups() { return endpoint_->captured(); }
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_FRONTEND_CAPTURED_GROUPS_FIXTURE_H_

// A rank that posts nothing and has no windows; tests override what they need.
#ifndef MCCS_TESTS_UNIT_MESSAGES_IDLE_PORT_H_
#define MCCS_TESTS_UNIT_MESSAGES_IDLE_PORT_H_

#include "service/communicator/links/rank_port.h"

namespace mccs {

class IdlePort : public RankPort {
 public:
  absl::StatusOr<const PostedOperation*> Posted(size_t) override { return nullptr; }
  bool IsReady(size_t) override { return false; }
  void Complete() override {}
  absl::StatusOr<const PostedMessage*> TakeMessage() override { return nullptr; }
  void CompleteMessage(const PostedMessage&) override {}
  bool AwaitsStreams() const override { return false; }
  bool HasMessages() const override { return false; }
  size_t ReplayableGroups() const override { return 0; }
  bool HasCaptured() const override { return false; }
  absl::StatusOr<bool> PollCaptured(CapturedBudget*) override { return false; }
  uint64_t NextCaptured(uint64_t) const override { return 0; }
  const PostedOperation* Captured(uint64_t) override { return nullptr; }
  void CompleteCaptured(uint64_t) override {}
  uint64_t WindowChanges() const override { return 0; }
  WindowView GetWindow(uint64_t) const override { return {}; }
  absl::StatusOr<WindowMemory> FindInWindow(const WindowPart&) const override {
    return absl::FailedPreconditionError("no such window");
  }
  void InitDone(const absl::Status&, CommId, const RosterRanks&) override {}
  absl::Status JoinSplit(uint64_t, const JoinRequest&) override { return absl::OkStatus(); }
  void OnNotMember(uint64_t, const absl::Status&) override {}
  void ReportDeath(const absl::Status&) override {}
  void Fail(const absl::Status&) override {}
  void OnReleased() override {}
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_MESSAGES_IDLE_PORT_H_

// The fake daemon's handling of work captured into CUDA graphs.
#include <algorithm>

#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/fake_daemon_reply.h"

namespace mccs {

void FakeDaemon::OnCaptureWork(Session& session, const wire::CaptureWork& message) {
  Member& member = *Find(session, message.comm_handle).second;
  member.coming.capture = message.capture;
  member.coming.records.push_back(message.record);
  if ((message.record.flags & wire::kMoreInGroup) != 0) return;
  if (request_error_ == wire::ErrorClass::kNone) member.captured.push_back(member.coming);
  member.coming = {};
  Answer(session, message.header.request, ErrorReply<wire::Done>(request_error_));
}

void FakeDaemon::OnReleaseCapture(Session& session, const wire::ReleaseCapture& message) {
  Member* member = Find(session, message.comm_handle).second;
  if (member == nullptr) return;
  std::erase_if(member->captured,
                [&](const CapturedGroup& group) { return group.capture == message.capture; });
}

bool FakeDaemon::Reached(Member& member, size_t group) {
  if (member.gone || group >= member.captured.size()) return false;
  const auto& records = member.captured[group].records;
  return std::all_of(records.begin(), records.end(), [&](const wire::WorkRecord& record) {
    return member.region().captured_ready[record.ready_slot].load() == record.ready_value;
  });
}

bool FakeDaemon::RunCaptured(Comm& comm) {
  const size_t groups = comm.members.begin()->second->captured.size();
  for (size_t group = 0; group < groups; ++group) {
    const bool reached = std::all_of(comm.members.begin(), comm.members.end(),
                                     [&](auto& entry) { return Reached(*entry.second, group); });
    if (!reached) continue;
    const auto& first = comm.members.begin()->second->captured[group].records;
    for (size_t i = 0; i < first.size(); ++i) {
      if (first[i].record == wire::RecordKind::kFence) continue;
      std::vector<wire::WorkRecord> calls;
      for (auto& [rank, member] : comm.members) calls.push_back(member->captured[group].records[i]);
      Compute(comm, calls);
    }
    for (auto& [rank, member] : comm.members) {
      for (const wire::WorkRecord& record : member->captured[group].records) {
        member->region().captured_ready[record.ready_slot] = 0;
        wire::RaiseFence(member->region().captured_done[record.ready_slot], 1);
      }
    }
    return true;
  }
  return false;
}

size_t FakeDaemon::CapturedGroupsOf(int rank) {
  std::lock_guard lock(mutex_);
  return comms_.back()->members.at(rank)->captured.size();
}

}  // namespace mccs

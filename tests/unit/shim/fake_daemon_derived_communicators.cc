// The fake daemon's handling of derived communicators.
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/fake_daemon_reply.h"

namespace mccs {

void FakeDaemon::OnShrink(Session& session, const wire::CommShrink& message) {
  excluded_.insert(excluded_.end(), message.excluded, message.excluded + message.count);
  if ((message.flags & wire::kShrinkMore) != 0) {
    Answer(session, message.header.request, wire::Done{});
    return;
  }
  last_excluded_ = std::exchange(excluded_, {});
  auto [comm, caller] = Find(session, message.comm_handle);
  auto& waiting = comm->shrinks[last_excluded_];
  waiting[caller->rank] = {&session, message.header.request, 0, 0};
  const size_t stay = comm->members.size() - last_excluded_.size();
  if (waiting.size() < stay) return;
  std::vector<Join> joins;
  for (auto& [rank, join] : std::exchange(waiting, {})) {
    joins.push_back(join);
    joins.back().rank = static_cast<int>(joins.size()) - 1;
    joins.back().ranks = static_cast<int>(stay);
  }
  Admit(joins);
}

// The old ranks and the new ones join under one id.
void FakeDaemon::OnGrow(Session& session, const wire::CommGrow& message) {
  auto [comm, caller] = Find(session, message.comm_handle);
  auto& joins = joining_[GrowId().comm_id];
  joins.push_back({&session, message.header.request, caller->rank, message.ranks});
  if (joins.size() < static_cast<size_t>(message.ranks)) return;
  Admit(joins);
  joining_.erase(GrowId().comm_id);
}

void FakeDaemon::OnRevoke(Session& session, const wire::CommRevoke& message) {
  auto [comm, caller] = Find(session, message.comm_handle);
  for (auto& [rank, member] : comm->members) {
    std::strcpy(member->region().failure.text, "rank was revoked");
    member->region().failure.error.store(static_cast<uint32_t>(wire::ErrorClass::kRemote),
                                         std::memory_order_release);
  }
  Answer(session, message.header.request, wire::Done{});
}

void FakeDaemon::OnSplit(Session& session, const wire::CommSplit& message) {
  last_split_ = message;
  if (request_error_ != wire::ErrorClass::kNone) {
    Answer(session, message.header.request, ErrorReply<wire::CommInitReply>(request_error_));
    return;
  }
  for (size_t i = 0; i < comms_.size(); ++i) {
    Comm& comm = *comms_[i];
    for (auto& [rank, member] : comm.members) {
      if (member->session != &session || member->handle != message.comm_handle) continue;
      const int number = comm.split_calls[rank]++;
      comm.splits[number][rank] = message;
      if (comm.splits[number].size() == comm.members.size()) {
        FinishSplit(comm, std::exchange(comm.splits[number], {}));
      }
      return;
    }
  }
  MCCS_CHECK(false);
}

void FakeDaemon::FinishSplit(Comm& comm, const std::map<int, wire::CommSplit>& calls) {
  std::map<int, std::map<std::pair<int, int>, Join>> groups;  // by color, then by key and rank
  for (const auto& [rank, call] : calls) {
    Session* session = comm.members.at(rank)->session;
    if (call.color == wire::kNoColor) {
      wire::CommInitReply reply{};
      reply.comm_handle = wire::kNoCommHandle;
      Answer(*session, call.header.request, reply);
    } else {
      groups[call.color][{call.key, rank}] = {session, call.header.request, 0, 0};
    }
  }
  for (auto& [color, group] : groups) {
    std::vector<Join> joins;
    for (auto& [place, join] : group) {
      join.rank = static_cast<int>(joins.size());
      join.ranks = static_cast<int>(group.size());
      joins.push_back(join);
    }
    Admit(joins);
  }
}

}  // namespace mccs

#include "service/frontend/frontend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {

bool Frontend::Poll() {
  bool moved = AcceptNew();
  size_t closing = 0;
  moved |= PollSessions(&closing);
  if (closing == 0) return moved;
  moved |= EndRanks();
  moved |= RemoveClosed();
  return moved;
}

bool Frontend::PollSessions(size_t* closing) {
  if (sessions_.empty()) return false;
  bool moved = false;
  ++turns_;
  TurnBudget budget(kRanksEndedPerTurn);
  const size_t first = first_ % sessions_.size();
  first_ = first + 1;
  bool all_served = true;
  for (size_t i = 0; i < sessions_.size(); ++i) {
    const size_t index = first + i < sessions_.size() ? first + i : first + i - sessions_.size();
    const Entry& entry = sessions_[index];
    if (entry.session->IsQuiet()) continue;
    // The first one that finds nothing left is first in the next turn.
    if (budget.exhausted() && std::exchange(all_served, false)) first_ = index;
    entry.tenant->budget.BeginTurn(turns_);
    budget.ServeTenant(entry.tenant->budget);
    moved |= entry.session->Poll(budget);
    *closing += entry.session->closing() ? 1 : 0;
  }
  return moved;
}

bool Frontend::RemoveClosed() {
  int removed = 0;
  std::erase_if(sessions_, [&](const Entry& entry) {
    if (!entry.session->closed() || removed == kSessionsRemovedPerTurn) return false;
    ++removed;
    const auto own = tenants_.find(entry.session->counted_as());
    if (--own->second.sessions == 0) tenants_.erase(own);
    return true;
  });
  return removed > 0;
}

bool Frontend::EndRanks() {
  int ended = 0;
  const auto end_from = [&](auto from, auto to) {
    for (auto session = from; session != to && ended < kRanksEndedPerTurn; ++session) {
      if (!session->session->EndNextRank()) continue;
      last_ended_ = session->session->id().value();
      ++ended;
    }
  };
  const auto next = std::upper_bound(
      sessions_.begin(), sessions_.end(), last_ended_,
      [](uint64_t id, const Entry& entry) { return id < entry.session->id().value(); });
  end_from(next, sessions_.end());
  // If only one session closes, it uses the whole limit, in several rounds.
  for (int before = -1; before != ended && ended < kRanksEndedPerTurn;) {
    before = ended;
    end_from(sessions_.begin(), sessions_.end());
  }
  return ended > 0;
}

bool Frontend::AcceptNew() {
  bool moved = false;
  for (auto& listener : listeners_) moved |= AcceptFrom(*listener);
  return moved;
}

bool Frontend::AcceptFrom(TenantListener& listener) {
  for (int i = 0; i < kAcceptedPerTurn; ++i) {
    auto channel = listener.Accept();
    if (absl::IsNotFound(channel.status())) continue;
    if (absl::IsPermissionDenied(channel.status())) {
      LogOnce("", std::string(channel.status().message()));
      continue;
    }
    if (!channel.ok()) {
      LogOnce("", absl::StrCat("cannot accept a process: ", channel.status().message()));
      return i > 0;
    }
    if (*channel == nullptr) return i > 0;
    AddSession(std::move(*channel));
  }
  return true;
}

void Frontend::AddSession(std::unique_ptr<TenantChannel> channel) {
  auto session = std::make_unique<Session>(SessionId(++last_id_), env_, std::move(channel));
  if (const absl::Status taken = session->TakeShares(); !taken.ok()) {
    return LogOnce(session->counted_as(), absl::StrCat("rejected a process: ", taken.message()));
  }
  Tenant& its_tenant = tenants_[session->counted_as()];
  ++its_tenant.sessions;
  sessions_.push_back({.session = std::move(session), .tenant = &its_tenant});
}

// Once per minute and tenant: the numbers in a message may be different each time. Without a
// tenant, once per minute and message.
void Frontend::LogOnce(const std::string& tenant, const std::string& message) {
  const MonotonicNs now = env_.clock->Now();
  const std::string& about = tenant.empty() ? message : tenant;
  if (logged_.size() >= kMaxLoggedMessages && !logged_.contains(about)) {
    absl::erase_if(logged_, [now](const auto& entry) { return !entry.second.IsRecent(now); });
    if (logged_.size() >= kMaxLoggedMessages) return;
  }
  if (logged_[about].IsDue(about, now)) env_.log->Error(message);
}

bool Frontend::WriteNextState(StateCursor* cursor, state::Session* out) const {
  // A session that has ended since its last part is complete.
  const uint64_t first = cursor->next_rank != 0 ? cursor->session : cursor->session + 1;
  const auto next = std::lower_bound(
      sessions_.begin(), sessions_.end(), first,
      [](const Entry& entry, uint64_t id) { return entry.session->id().value() < id; });
  if (next == sessions_.end()) return false;
  const uint64_t id = next->session->id().value();
  cursor->next_rank = next->session->WriteState(id == cursor->session ? cursor->next_rank : 0, out);
  cursor->session = id;
  return true;
}

void Frontend::Withdraw(const Region& region, const std::shared_ptr<void>& token) {
  for (const Entry& entry : sessions_) entry.session->Withdraw(region, token);
}

void Frontend::EndKernels() {
  for (const Entry& entry : sessions_) entry.session->EndKernels();
}

bool Frontend::PrepareSleep() {
  bool work = false;
  for (const Entry& entry : sessions_) work |= entry.session->PrepareSleep();
  return work;
}

void Frontend::EndSleep() {
  for (const Entry& entry : sessions_) entry.session->EndSleep();
}

}  // namespace mccs

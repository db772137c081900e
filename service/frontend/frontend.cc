#include "service/frontend/frontend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {

bool Frontend::Poll() {
  bool moved = AcceptNew();
  // All sessions share the limit of ranks that may end, in turn.
  int ends_left = kRanksEndedPerTurn;
  const size_t first = sessions_.empty() ? 0 : ++turns_ % sessions_.size();
  for (size_t i = 0; i < sessions_.size(); ++i) {
    moved |= sessions_[(first + i) % sessions_.size()]->Poll(ends_left);
  }
  moved |= EndRanks();
  std::erase_if(sessions_, [this](const auto& session) {
    if (!session->closed()) return false;
    const auto own = by_tenant_.find(session->identity().tenant);
    if (--own->second == 0) by_tenant_.erase(own);
    return true;
  });
  return moved;
}

bool Frontend::EndRanks() {
  int ended = 0;
  const auto end_from = [&](auto from, auto to) {
    for (auto session = from; session != to && ended < kRanksEndedPerTurn; ++session) {
      if (!(*session)->EndNextRank()) continue;
      last_ended_ = (*session)->id().value();
      ++ended;
    }
  };
  const auto next =
      std::upper_bound(sessions_.begin(), sessions_.end(), last_ended_,
                       [](uint64_t id, const auto& session) { return id < session->id().value(); });
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
      LogOnce(std::string(channel.status().message()));
      continue;
    }
    if (!channel.ok()) {
      LogOnce(absl::StrCat("cannot accept a process: ", channel.status().message()));
      return i > 0;
    }
    if (*channel == nullptr) return i > 0;
    AddSession(std::move(*channel));
  }
  return true;
}

void Frontend::AddSession(std::unique_ptr<TenantChannel> channel) {
  const std::string& tenant = channel->identity().tenant;
  const auto own = by_tenant_.find(tenant);
  if (sessions_.size() >= kMaxSessions) {
    return LogOnce(absl::StrCat("rejected a process: ", sessions_.size(),
                                " processes are connected, which is the limit"));
  }
  if (own != by_tenant_.end() && own->second >= kMaxSessionsPerTenant) {
    return LogOnce(absl::StrCat("rejected a process of tenant ", tenant, ": ", own->second,
                                " are connected, which is the limit per tenant"));
  }
  ++by_tenant_[tenant];
  sessions_.push_back(std::make_unique<Session>(SessionId(++last_id_), env_, std::move(channel)));
}

// Suppresses repetitions in the log.
void Frontend::LogOnce(const std::string& message) {
  if (logged_.size() >= kMaxLoggedMessages && !logged_.contains(message)) logged_.clear();
  if (logged_[message].IsDue(message, env_.clock->Now())) env_.log->Error(message);
}

std::optional<uint64_t> Frontend::WriteNextState(uint64_t after, state::Session* out) const {
  const auto next =
      std::upper_bound(sessions_.begin(), sessions_.end(), after,
                       [](uint64_t id, const auto& session) { return id < session->id().value(); });
  if (next == sessions_.end()) return std::nullopt;
  (*next)->WriteState(out);
  return (*next)->id().value();
}

bool Frontend::PrepareSleep() {
  bool work = false;
  for (auto& session : sessions_) work |= session->PrepareSleep();
  return work;
}

void Frontend::EndSleep() {
  for (auto& session : sessions_) session->EndSleep();
}

}  // namespace mccs

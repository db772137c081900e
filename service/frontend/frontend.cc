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
  for (auto& door : doors_) moved |= AcceptAt(*door);
  return moved;
}

bool Frontend::AcceptAt(TenantDoor& door) {
  for (int i = 0; i < kNewPerTurn; ++i) {
    auto channel = door.Accept();
    if (absl::IsNotFound(channel.status())) continue;
    if (absl::IsPermissionDenied(channel.status())) {
      Say(std::string(channel.status().message()));
      continue;
    }
    if (!channel.ok()) {
      Say(absl::StrCat("cannot accept a process: ", channel.status().message()));
      return i > 0;
    }
    if (*channel == nullptr) return i > 0;
    LetIn(std::move(*channel));
  }
  return true;
}

void Frontend::LetIn(std::unique_ptr<TenantChannel> channel) {
  const std::string& tenant = channel->identity().tenant;
  const auto own = by_tenant_.find(tenant);
  if (sessions_.size() >= kMaxSessions) {
    return Say(absl::StrCat("rejected a process: ", sessions_.size(),
                            " processes are connected, which is the limit"));
  }
  if (own != by_tenant_.end() && own->second >= kMaxSessionsPerTenant) {
    return Say(absl::StrCat("rejected a process of tenant ", tenant, ": ", own->second,
                            " are connected, which is the limit per tenant"));
  }
  ++by_tenant_[tenant];
  sessions_.push_back(std::make_unique<Session>(SessionId(++last_id_), env_, std::move(channel)));
}

// Suppresses repetitions in the log.
void Frontend::Say(const std::string& trouble) {
  if (said_.size() >= kMostTroubles && !said_.contains(trouble)) said_.clear();
  if (said_[trouble].IsDue(trouble, env_.clock->Now())) env_.log->Error(trouble);
}

std::optional<uint64_t> Frontend::TellNext(uint64_t after, state::Session* out) const {
  const auto next =
      std::upper_bound(sessions_.begin(), sessions_.end(), after,
                       [](uint64_t id, const auto& session) { return id < session->id().value(); });
  if (next == sessions_.end()) return std::nullopt;
  (*next)->Tell(out);
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

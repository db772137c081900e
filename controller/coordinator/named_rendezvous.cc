#include "controller/coordinator/named_rendezvous.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

std::set<uint64_t> FirstOf(const google::protobuf::RepeatedField<uint64_t>& ids) {
  const auto used = std::min(static_cast<size_t>(ids.size()), NamedRendezvousTable::kMaxPerHost);
  return {ids.begin(), ids.begin() + static_cast<int>(used)};
}

std::set<uint64_t> Without(const std::set<uint64_t>& all, const std::set<uint64_t>& these) {
  std::set<uint64_t> rest;
  std::ranges::set_difference(all, these, std::inserter(rest, rest.end()));
  return rest;
}

}  // namespace

absl::Status NamedRendezvousTable::Set(const std::string& host,
                                       const agent::v1::NamedRendezvous& all) {
  OfHost now{.open = FirstOf(all.open()), .sought = FirstOf(all.sought())};
  const OfHost before = std::exchange(hosts_[host], now);
  const auto place = [this](uint64_t id) -> Place& {
    changed_.insert(id);
    return places_[id];
  };
  for (const uint64_t id : Without(now.open, before.open)) place(id).open.push_back(host);
  for (const uint64_t id : Without(before.open, now.open)) std::erase(place(id).open, host);
  for (const uint64_t id : Without(now.sought, before.sought)) {
    Place& sought = place(id);
    sought.seekers.insert(host);
    sought.waiting.insert(host);
  }
  for (const uint64_t id : Without(before.sought, now.sought)) {
    Place& sought = place(id);
    sought.seekers.erase(host);
    sought.waiting.erase(host);
  }
  if (now.open.empty() && now.sought.empty()) hosts_.erase(host);
  if (static_cast<size_t>(std::max(all.open_size(), all.sought_size())) <= kMaxPerHost)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("host ", host, " has ", all.open_size(), " rendezvous of NCCL_COMM_ID open and ",
                   "seeks ", all.sought_size(), "; only the first ", kMaxPerHost,
                   " of each are used; install the release of the controller on that host"));
}

std::vector<NamedRendezvousTable::Answer> NamedRendezvousTable::TakeAnswers() {
  std::vector<Answer> answers;
  for (const uint64_t id : std::exchange(changed_, {})) {
    const auto found = places_.find(id);
    if (found == places_.end()) continue;
    Place& place = found->second;
    if (place.open.empty() && place.seekers.empty()) {
      places_.erase(found);
      continue;
    }
    if (place.open.empty()) continue;
    if (place.answer != place.open.front()) {
      place.answer = place.open.front();
      place.waiting = place.seekers;
    }
    for (const std::string& seeker : std::exchange(place.waiting, {}))
      answers.push_back({.to = seeker, .id = id, .host = place.answer});
  }
  return answers;
}

}  // namespace mccs

#include "controller/coordinator/named_rendezvous.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mccs {
namespace {

std::set<uint64_t> Without(const std::set<uint64_t>& all, const std::set<uint64_t>& these) {
  std::set<uint64_t> rest;
  std::ranges::set_difference(all, these, std::inserter(rest, rest.end()));
  return rest;
}

}  // namespace

void NamedRendezvousTable::Set(const std::string& host, const agent::v1::NamedRendezvous& all) {
  const OfHost now{.open = {all.open().begin(), all.open().end()},
                   .sought = {all.sought().begin(), all.sought().end()}};
  const OfHost before = std::exchange(hosts_[host], now);
  for (const uint64_t id : Without(now.open, before.open)) places_[id].open.push_back(host);
  for (const uint64_t id : Without(now.sought, before.sought)) places_[id].told[host].clear();
  for (const uint64_t id : Without(before.open, now.open)) std::erase(places_[id].open, host);
  for (const uint64_t id : Without(before.sought, now.sought)) places_[id].told.erase(host);
  for (const OfHost& side : {now, before}) {
    changed_.insert(side.open.begin(), side.open.end());
    changed_.insert(side.sought.begin(), side.sought.end());
  }
  if (now.open.empty() && now.sought.empty()) hosts_.erase(host);
}

std::vector<NamedRendezvousTable::Answer> NamedRendezvousTable::TakeAnswers() {
  std::vector<Answer> answers;
  for (const uint64_t id : std::exchange(changed_, {})) {
    const auto found = places_.find(id);
    if (found == places_.end()) continue;
    Place& place = found->second;
    if (place.open.empty() && place.told.empty()) {
      places_.erase(found);
      continue;
    }
    if (place.open.empty()) continue;
    for (auto& [seeker, told] : place.told) {
      if (told == place.open.back()) continue;
      told = place.open.back();
      answers.push_back({.to = seeker, .id = id, .host = told});
    }
  }
  return answers;
}

}  // namespace mccs

#include "service/communicator/membership/derived_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {

std::vector<Rank> RanksOfColor(std::span<const SplitChoice> choices, int32_t color) {
  std::vector<Rank> ranks;
  for (size_t r = 0; r < choices.size(); ++r) {
    if (choices[r].color == color) ranks.push_back(Rank(static_cast<int>(r)));
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](Rank a, Rank b) {
    return choices[static_cast<size_t>(a.value())].key <
           choices[static_cast<size_t>(b.value())].key;
  });
  return ranks;
}

wire::UniqueId DeriveId(const ParentIdentity& parent, std::string_view kind,
                        std::span<const int64_t> facts) {
  std::vector<uint8_t> text(kind.begin(), kind.end());
  auto append = [&](uint64_t word) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&word);
    text.insert(text.end(), bytes, bytes + sizeof(word));
  };
  append(parent.id.value());
  for (int64_t fact : facts) append(static_cast<uint64_t>(fact));
  const auto hash = wire::KeyedHash(parent.key, text);
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  static_assert(sizeof(id.comm_id) + sizeof(id.secret) <= wire::kProofBytes);
  std::memcpy(&id.comm_id, hash.data(), sizeof(id.comm_id));
  std::memcpy(id.secret, hash.data() + sizeof(id.comm_id), sizeof(id.secret));
  return id;
}

namespace {

void SetRendezvous(const Membership& parent, Rank rank, wire::UniqueId* id) {
  const Endpoint place = parent.EndpointOf(parent.HostOf(rank));
  id->derived = 1;
  id->port = place.port;
  std::strncpy(id->host, place.host.c_str(), sizeof(id->host) - 1);
}

}  // namespace

absl::StatusOr<DerivedRank> DeriveShrunk(const Membership& parent, const ParentIdentity& of,
                                         Rank self, std::vector<int32_t> excluded, int64_t nth) {
  const int ranks = parent.ranks();
  std::sort(excluded.begin(), excluded.end());
  if (excluded.empty()) {
    return absl::InvalidArgumentError("excludeRanksList is empty; list at least one rank");
  }
  if (excluded.front() < 0 || excluded.back() >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", excluded.front() < 0 ? excluded.front() : excluded.back(),
                     " cannot be excluded: the communicator has ", ranks, " ranks"));
  }
  if (auto twice = std::adjacent_find(excluded.begin(), excluded.end()); twice != excluded.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("excludeRanksList has rank ", *twice, " twice; list each rank once"));
  }
  const auto below = std::lower_bound(excluded.begin(), excluded.end(), self.value());
  if (below != excluded.end() && *below == self.value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", self.value(), " excludes itself: only the remaining ranks make the call"));
  }
  int first = 0;  // rank of the new rank 0
  while (first < static_cast<int>(excluded.size()) && excluded[first] == first) ++first;
  std::vector<int64_t> facts = {nth};
  facts.insert(facts.end(), excluded.begin(), excluded.end());
  DerivedRank place{.id = DeriveId(of, "shrink", facts),
                    .ranks = ranks - static_cast<int>(excluded.size()),
                    .rank = Rank(self.value() - static_cast<int>(below - excluded.begin()))};
  SetRendezvous(parent, Rank(first), &place.id);
  return place;
}

wire::UniqueId DeriveGrownId(const Membership& parent, const ParentIdentity& of, int64_t nth) {
  wire::UniqueId id = DeriveId(of, "grow", {&nth, 1});
  SetRendezvous(parent, Rank(0), &id);
  return id;
}

peer::Roster RosterOf(const Membership& parent, std::span<const Rank> ranks, CommId id) {
  peer::Roster roster;
  roster.set_comm_id(id.value());
  roster.set_tenant(parent.roster.tenant());
  roster.set_name(parent.roster.name());
  std::vector<int> new_rank(static_cast<size_t>(parent.ranks()), -1);
  for (size_t r = 0; r < ranks.size(); ++r) {
    new_rank[static_cast<size_t>(ranks[r].value())] = static_cast<int>(r);
  }
  for (const peer::HostInfo& of_parent : parent.roster.hosts()) {
    std::vector<cluster::Member> members;
    for (const cluster::Member& member : of_parent.ranks()) {
      const int rank = new_rank[static_cast<size_t>(member.rank())];
      if (rank < 0) continue;
      members.push_back(member);
      members.back().set_rank(rank);
    }
    if (members.empty()) continue;
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
    peer::HostInfo* host = roster.add_hosts();
    *host = of_parent;
    host->clear_ranks();
    for (cluster::Member& member : members) *host->add_ranks() = std::move(member);
  }
  return roster;
}

}  // namespace mccs

// Communicators that come of another one: who is in them, and the id that their ranks meet under.
// Ids and secrets follow from the parent's secret and from what its ranks agree on, so that nobody
// has to make them up and tell the others.
#ifndef MCCS_SERVICE_COMMUNICATOR_OFFSPRING_H_
#define MCCS_SERVICE_COMMUNICATOR_OFFSPRING_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/peer.pb.h"
#include "proto/unique_id.h"
#include "service/communicator/membership.h"
#include "service/transport/handshake_wire.h"

namespace mccs {

// What a rank gives to ncclCommSplit.
struct SplitChoice {
  int32_t color = 0;
  int32_t key = 0;
  friend bool operator==(const SplitChoice&, const SplitChoice&) = default;
};

// The parent's ranks of `color` in the order of the new communicator: by key, then by rank.
// `choices` by the parent's rank.
std::vector<Rank> RanksOfColor(std::span<const SplitChoice> choices, int32_t color);

// The parent whose secret and name all its ranks' daemons know.
struct Parentage {
  wire::Secret secret;
  CommId id;
};
// The id of the offspring that `kind` ("split") and `facts` tell from its siblings. It names no
// meeting place.
wire::UniqueId DeriveId(const Parentage& parent, std::string_view kind,
                        std::span<const int64_t> facts);

// Where a rank of the parent stands in an offspring that ranks join one by one: its id names the
// host of rank 0 as the meeting place.
struct OffspringPlace {
  wire::UniqueId id{};
  int ranks = 0;
  Rank rank;
};
// The offspring without the `excluded`, the n-th with this list. Errors: kInvalidArgument for a
// list that cannot be: empty, a rank twice, out of range, all of them, `self` among them.
absl::StatusOr<OffspringPlace> PlaceWithout(const Membership& parent, const Parentage& of,
                                            Rank self, std::vector<int32_t> excluded, int64_t nth);
// The id of the n-th larger communicator that the parent's ranks go on in.
wire::UniqueId IdOfGrown(const Membership& parent, const Parentage& of, int64_t nth);

// The roster of the communicator `id` of the parent's `ranks`, in that order: the hosts keep the
// parent's order.
peer::Roster RosterOf(const Membership& parent, std::span<const Rank> ranks, CommId id);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_OFFSPRING_H_

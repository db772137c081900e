// Communicators derived from another one (split, shrink, grow): their ranks, and the id of
// their rendezvous. Ids and secrets are derived from the parent's secret and from what its ranks
// agree on, so no messages are needed.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_DERIVED_COMMUNICATOR_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_DERIVED_COMMUNICATOR_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/peer.pb.h"
#include "proto/unique_id.h"
#include "service/communicator/membership/membership.h"
#include "service/transport/handshake.h"

namespace mccs {

// The arguments of a rank to ncclCommSplit.
struct SplitChoice {
  int32_t color = 0;
  int32_t key = 0;
  friend bool operator==(const SplitChoice&, const SplitChoice&) = default;
};

// The parent's ranks of `color` in the order of the new communicator: by key, then by rank.
// `choices`: by the parent's rank.
std::vector<Rank> RanksOfColor(std::span<const SplitChoice> choices, int32_t color);

// Id and key of the parent; only the daemons of its ranks know the key.
struct ParentIdentity {
  wire::Secret key;
  CommId id;
};
// The id of the derived communicator that `kind` ("split") and `facts` distinguish from its
// siblings. It names no rendezvous address.
wire::UniqueId DeriveId(const ParentIdentity& parent, std::string_view kind,
                        std::span<const int64_t> facts);

// The id and rank of a parent's rank in a derived communicator that ranks join one by one. The id
// names the host of rank 0 as the rendezvous.
struct DerivedRank {
  wire::UniqueId id{};
  int ranks = 0;
  Rank rank;
};
// The n-th communicator without this list of `excluded` ranks. kInvalidArgument if the list is
// empty, contains duplicates, `self` or ranks out of range, or names all ranks.
absl::StatusOr<DerivedRank> DeriveShrunk(const Membership& parent, const ParentIdentity& of,
                                         Rank self, std::vector<int32_t> excluded, int64_t nth);
// The id of the n-th larger communicator that the parent's ranks join.
wire::UniqueId DeriveGrownId(const Membership& parent, const ParentIdentity& of, int64_t nth);

// The roster of the derived communicator `id` with these ranks of the parent, in this order. The
// hosts keep the parent's order.
peer::Roster RosterOf(const Membership& parent, std::span<const Rank> ranks, CommId id);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_DERIVED_COMMUNICATOR_H_

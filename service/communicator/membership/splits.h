// ncclCommSplit, on one host of the communicator that is split. The leader collects every rank's
// color and key and sends the complete table to all hosts. Each host derives the groups of its own
// ranks.
//
//   rank calls ─► SplitCall ─► leader: all ranks ─► SplitTable ─► SplitResults, which the table of
//                                                                 communicators applies
//
// Only the leader decides whether a split succeeds. If any rank leaves, a split that still lacks a
// rank fails on all hosts.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_SPLITS_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_SPLITS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/communicator/links/rank_port.h"
#include "service/communicator/membership/communicator_environment.h"
#include "service/communicator/membership/derived_communicator.h"
#include "service/communicator/membership/forming.h"

namespace mccs {

// Splits that one rank may have called ahead of the other ranks.
inline constexpr size_t kMaxPendingSplits = 64;

// Result of a rank's request for another communicator.
struct SplitResult {
  RankListener* port = nullptr;     // receives the result; null: the rank has left
  uint64_t request = 0;             // the port's request number
  absl::Status status;              // why there is none
  std::optional<JoinRequest> join;  // nothing although `status` is OK: the rank gave no color
  std::string departure_reason;
};

class Splits {
 public:
  struct Call {
    RankListener* port = nullptr;
    Rank rank;
    uint64_t request = 0;
    SplitChoice choice;
    JoinRequest join;  // without id, rank, size and roster
  };

  // LIFETIME: `formation` outlives this.
  explicit Splits(const Formation& formation) : formation_(formation) {}

  // Adds a local rank's call. Its SplitResult follows later. REQUIRES: the formation has members
  // and star.
  absl::Status Add(Call call);

  // Handles other hosts' messages about splits. An error: they broke the protocol.
  absl::Status OnMessage(const StarMessage& received);

  // The rank of `port` cancelled its request (0: all of them). The other ranks count on it, so its
  // result is still created, without a port.
  void Abandon(const RankListener* port, uint64_t request, const std::string& why);
  // A rank of the communicator has left, here or on another host.
  void RankLeft(const absl::Status& why);
  // Fails all pending requests.
  void Fail(const absl::Status& why);

  bool has_results() const { return !results_.empty(); }
  std::vector<SplitResult> TakeSplitResults() { return std::exchange(results_, {}); }

 private:
  struct Waiting {
    uint64_t number = 0;
    Call call;
    std::string departure_reason;
  };
  struct PendingSplit {
    std::vector<std::optional<SplitChoice>> choices;  // by rank
    int missing = 0;
  };
  struct Group {
    std::vector<Rank> ranks;
    wire::UniqueId id;
    std::shared_ptr<const peer::Roster> roster;
  };

  // Checks another host's message: only its own ranks, each numbered consecutively.
  absl::Status CheckCall(HostIndex from, const peer::SplitCall& call);
  absl::Status Count(const peer::SplitCall& call);
  absl::Status TakeTable(const peer::SplitTable& table);
  Group MakeGroup(uint64_t number, std::span<const SplitChoice> choices, int32_t color) const;
  void FailNumber(uint64_t number, const absl::Status& why);
  void SendFailure(uint64_t number, const absl::Status& why);
  bool leads() const { return formation_.star->leads(); }
  size_t ranks() const { return static_cast<size_t>(formation_.members->ranks()); }

  const Formation& formation_;
  std::map<Rank, uint64_t> called_;  // number of splits called by each rank, as known here
  std::vector<Waiting> waiting_;     // calls of local ranks
  std::map<uint64_t, PendingSplit> pending_splits_;  // leader: by number
  absl::Status rank_left_;                           // leader: why no further split can succeed
  std::vector<SplitResult> results_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_SPLITS_H_

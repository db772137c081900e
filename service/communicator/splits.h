// ncclCommSplit, on one host of the communicator that is split: every rank's color and key go to
// the leader; when all have called, the leader tells all of them to all, and each host finds the
// groups of its own ranks.
//
//   rank calls ─► SplitCall ─► leader: all there ─► SplitTable ─► Seats, which the table of
//                                                                 communicators carries out
//
// The leader alone decides whether a split succeeds. One that a rank is missing for fails on all
// hosts when any rank leaves.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SPLITS_H_
#define MCCS_SERVICE_COMMUNICATOR_SPLITS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/communicator/communicator_environment.h"
#include "service/communicator/forming.h"
#include "service/communicator/offspring.h"
#include "service/communicator/rank_port.h"

namespace mccs {

// Splits that one rank may have called and that others have not.
inline constexpr size_t kMaxPendingSplits = 64;

// What came of a rank's request for another communicator.
struct Seat {
  RankPort* port = nullptr;         // hears of it; null: the rank has left
  uint64_t request = 0;             // the port's name for it
  absl::Status status;              // why there is none
  std::optional<JoinRequest> join;  // nothing, though all is well: the rank has no color
  std::string left_because;
};

class Splits {
 public:
  struct Call {
    RankPort* port = nullptr;
    Rank rank;
    uint64_t request = 0;
    SplitChoice choice;
    JoinRequest join;  // lacks id, rank, size and roster
  };

  // LIFETIME: `formation` outlives this.
  Splits(const Formation& formation, const wire::Secret& secret)
      : formation_(formation), secret_(secret) {}

  // A local rank's call. Its Seat comes later. REQUIRES: the formation has members and star.
  absl::Status Add(Call call);

  // Messages of other hosts about splits. An error: they break the protocol.
  absl::Status Hear(const StarMessage& heard);

  // The rank behind `port` does not want what it asked for any more (`request` 0: all of it). The
  // others count on it, so its seat will still be there, without a port.
  void Abandon(RankPort* port, uint64_t request, const std::string& why);
  // A rank of the communicator has left, here or elsewhere.
  void RankLeft(const absl::Status& why);
  // Nothing that is pending succeeds.
  void Fail(const absl::Status& why);

  std::vector<Seat> TakeSeats() { return std::exchange(seats_, {}); }

 private:
  struct Waiting {
    uint64_t number = 0;
    Call call;
    std::string left_because;
  };
  struct Tally {
    std::vector<std::optional<SplitChoice>> choices;  // by rank
    int missing = 0;
  };
  struct Group {
    std::vector<Rank> ranks;
    wire::UniqueId id;
    std::shared_ptr<const peer::Roster> roster;
  };

  // Of another host: its own ranks', each numbered one after the other.
  absl::Status CheckCall(HostIndex from, const peer::SplitCall& call);
  absl::Status Count(const peer::SplitCall& call);
  absl::Status TakeTable(const peer::SplitTable& table);
  Group MakeGroup(uint64_t number, std::span<const SplitChoice> choices, int32_t color) const;
  void FailNumber(uint64_t number, const absl::Status& why);
  void TellFailure(uint64_t number, const absl::Status& why);
  bool leads() const { return formation_.star->leads(); }
  size_t ranks() const { return static_cast<size_t>(formation_.members->layout.rank_count()); }

  const Formation& formation_;
  const wire::Secret secret_;
  std::map<Rank, uint64_t> called_;    // splits that each rank has called, as this host knows
  std::vector<Waiting> waiting_;       // local ranks'
  std::map<uint64_t, Tally> tallies_;  // leader, by number
  absl::Status rank_left_;             // leader: why no further split can succeed
  std::vector<Seat> seats_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SPLITS_H_

// The NICs of an RDMA transport with their queue pairs: which lanes share one, and who gets which
// completion.
//
// A lane's maker finds a queue pair to the peer by its PairKey, or makes one; the other end finds
// it by its name. A queue pair ends after its last lane.
//
// OWNER: RdmaTransport. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIRS_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIRS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/random.h"
#include "service/transport/lane_identity.h"
#include "service/transport/rdma/peer_pair.h"
#include "service/transport/rdma/verbs.h"
#include "service/transport/rdma/verbs_jobs.h"

namespace mccs {

// A NIC that lanes may use.
struct RdmaNic {
  NicAddress address;
  VerbsNic* verbs = nullptr;
};

class PeerPairs final : private PeerPair::Owner {
 public:
  // LIFETIME: the NICs and all arguments outlive this, and this outlives the lanes.
  PeerPairs(const std::vector<RdmaNic>& nics, VerbsJobs& jobs, Random& random, const Clock& clock);
  ~PeerPairs() override = default;
  // `report` gets a line for the log when a device fails, and when a port goes down or up.
  void SetReport(std::function<void(const std::string&)> report) { report_ = std::move(report); }
  PeerPairs(const PeerPairs&) = delete;

  // Null: no such NIC.
  size_t working_nics() const;  // whose device has not failed
  const NicAttributes* Attributes(const NicAddress& nic) const;
  // The tenant's domain on the NIC; it ends with its last user. kNotFound: no such NIC.
  // kUnavailable: it has failed.
  absl::StatusOr<std::shared_ptr<PairDomain>> Domain(const NicDomain& domain);

  // For the maker. It may still be in the making. kNotFound: no such NIC. kUnavailable: it has
  // failed.
  absl::StatusOr<std::shared_ptr<PeerPair>> FindOrMake(const PairKey& key);
  // For the other end: the pair of the offer, or a new one that is being made and connected to the
  // offer's; null: the pair has failed or ended here. The nonces: of the lane's hellos.
  // kPermissionDenied: the offer is not for lanes with this key, or the peer does not have the name. kInvalidArgument: it grants too few receives or too many.
  // kNotFound, kUnavailable: of the NIC; or this end has not the pair's class and route yet.
  absl::StatusOr<std::shared_ptr<PeerPair>> Accept(const PairKey& key, const wire::PairFrame& offer,
                                                   const wire::Nonce& senders,
                                                   const wire::Nonce& receivers);
  // FindOrMake does not return it again. Lanes on it stay.
  void Withdraw(PeerPair& pair) { OnWithdrawn(pair); }
  wire::Nonce MakeNonce();

  // Delivers completions and events. Returns true if there were any.
  bool Poll();
  // When Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;
  // Before a sleep: the next completion wakes the engine. Returns true if there is work already.
  bool PrepareSleep();

  // Breaks the pairs that this end made for these queues.
  void Break(const SharedQueueKey& queues, const absl::Status& why);

  // Pairs that work or are being made.
  size_t size() const { return by_id_.size(); }
  // Completions for queue pairs that do not exist any more.
  uint64_t unknown() const { return unknown_; }

 private:
  struct Nic {
    NicAddress address;
    VerbsNic* verbs = nullptr;
    absl::Status status;           // not OK: the device has failed
    absl::Status port_error;       // not OK: its port is down
    MonotonicNs ends_at = kNever;  // with port_error: when its pairs end
    absl::flat_hash_map<std::string, std::weak_ptr<PairDomain>> domains;  // by tenant
    absl::flat_hash_map<QueuePairNumber, std::shared_ptr<PeerPair>> by_number;
    uint64_t polled = 0;  // completions
    // Broken pairs without further completions. Those that may be in the queue still have been
    // polled when `polled` is `after`, or when the queue is empty. In the order of `after`.
    struct Settling {
      uint64_t after = 0;
      std::shared_ptr<PeerPair> pair;
    };
    std::deque<Settling> settling;
    uint32_t last_serial = 0;  // of its pairs
  };

  // PeerPair::Owner
  void OnBroken(PeerPair& pair) override;
  void OnWithdrawn(PeerPair& pair) override;
  void OnStopped(PeerPair& pair) override {
    stopped_.emplace(pair.SettlesAt(), pair.shared_from_this());
  }
  void OnQueued(PeerPair& pair) override { queued_.push_back(pair.weak_from_this()); }
  void OnWaiting(bool waits) override { waiting_ += waits ? 1 : -1; }
  void CheckProgress();

  Nic* Find(const NicAddress& address);
  // kNotFound: no such NIC. kUnavailable: it has failed.
  absl::StatusOr<Nic*> FindWorking(const NicAddress& address);
  absl::StatusOr<std::shared_ptr<PeerPair>> Make(PeerPair::Options options,
                                                 const wire::PairFrame* offer);
  bool TakeEvents(Nic& nic);
  void TakeStopped();
  bool PollCompletions(Nic& nic);
  bool Settle(Nic& nic, bool emptied);
  void OnEvent(Nic& nic, const VerbsEvent& event);
  void OnPortDown(Nic& nic, const absl::Status& why);
  void EndPairsOfPort(Nic& nic);
  void BreakAll(Nic& nic, const absl::Status& why);

  void Report(const std::string& line) const {
    if (report_) report_(line);
  }

  std::function<void(const std::string&)> report_;
  VerbsJobs& jobs_;
  Random& random_;
  const Clock& clock_;
  std::deque<Nic> nics_;
  absl::flat_hash_map<PairKey, std::shared_ptr<PeerPair>> by_key_;  // made by this end
  std::map<wire::PairId, std::shared_ptr<PeerPair>> by_id_;
  std::multimap<MonotonicNs, std::shared_ptr<PeerPair>> stopped_;  // by SettlesAt
  std::vector<std::weak_ptr<PeerPair>> queued_;                    // with requests to post
  std::vector<Completion> completions_;
  int waiting_ = 0;  // number of pairs that wait for completions
  MonotonicNs check_at_ = 0;
  uint64_t unknown_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIRS_H_

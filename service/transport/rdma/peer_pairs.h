// The NICs of an RDMA transport with their queue pairs: which lanes share one, and who gets which
// completion.
//
// A lane's maker finds a queue pair to the peer by its PairKey, or makes one; the other end finds
// it by its name. A queue pair ends with its last lane.
//
// OWNER: RdmaTransport. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIRS_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIRS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "service/transport/lane_identity.h"
#include "service/transport/rdma/peer_pair.h"
#include "service/transport/rdma/verbs.h"

namespace mccs {

// Lanes for which all of it is equal share a queue pair.
struct PairKey {
  SharedQueueKey queues;
  Gid peer_gid{};
  uint8_t traffic_class = 0;
  uint16_t source_port = 0;       // of this end's packets; 0: any
  uint16_t peer_source_port = 0;  // of the peer's

  friend bool operator==(const PairKey&, const PairKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const PairKey& key) {
    return H::combine(std::move(h), key.queues, key.peer_gid, key.traffic_class, key.source_port,
                      key.peer_source_port);
  }
};

// A NIC that lanes may use.
struct RdmaNic {
  NicAddress address;
  VerbsNic* verbs = nullptr;
};

class PeerPairs {
 public:
  // LIFETIME: the NICs and `random` outlive this, and this outlives all pairs.
  PeerPairs(const std::vector<RdmaNic>& nics, Random& random);
  ~PeerPairs();
  PeerPairs(const PeerPairs&) = delete;

  // Null: no such NIC.
  const NicAttributes* Attributes(const NicAddress& nic) const;
  // The tenant's domain on the NIC, made when it is first needed; it ends with its last user.
  // kNotFound: no such NIC.
  absl::StatusOr<std::shared_ptr<PairDomain>> Domain(const NicDomain& domain);

  // For the maker. kNotFound: no such NIC. kResourceExhausted: it has no more queue pairs or
  // receive entries. Others: the verbs'.
  absl::StatusOr<std::shared_ptr<PeerPair>> FindOrMake(const PairKey& key);
  // For the other end: the pair with the offer's name, or a new one, connected to the offer's;
  // null: the pair has failed or ended here.
  absl::StatusOr<std::shared_ptr<PeerPair>> Accept(const PairKey& key,
                                                   const wire::PairFrame& offer);

  // Delivers completions and events. Returns true if there were any.
  bool Poll();
  // Before a sleep: the next completion wakes `waker`. Returns false if there is work already.
  bool Arm();
  void SetWaker(Waker* waker);

  // Breaks the pairs that this end made for these queues.
  void Break(const SharedQueueKey& queues, const absl::Status& why);

  size_t size() const { return by_name_.size(); }
  // Completions for queue pairs that do not exist any more.
  uint64_t unknown() const { return unknown_; }

 private:
  struct Nic {
    NicAddress address;
    VerbsNic* verbs = nullptr;
    absl::flat_hash_map<std::string, std::weak_ptr<PairDomain>> domains;  // by tenant
    absl::flat_hash_map<QueuePairNumber, PeerPair*> by_number;
    uint32_t last_serial = 0;                     // of its pairs; only the lowest 24 bits count
    std::vector<std::weak_ptr<PeerPair>> broken;  // not settled yet
  };

  Nic* Find(const NicAddress& address);
  absl::StatusOr<std::shared_ptr<PeerPair>> Make(const PairKey& key, const wire::PairName& name);
  void Forget(Nic& nic, const PeerPair& pair);
  bool PollNic(Nic& nic);
  void OnEvent(Nic& nic, const VerbsEvent& event);

  Random& random_;
  std::deque<Nic> nics_;
  absl::flat_hash_map<PairKey, std::weak_ptr<PeerPair>> by_key_;
  std::map<wire::PairName, std::weak_ptr<PeerPair>> by_name_;
  std::vector<Completion> completions_;
  uint64_t unknown_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_PEER_PAIRS_H_

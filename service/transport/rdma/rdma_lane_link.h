// The connection of one end of a lane over RDMA: its stream, its place on a queue pair, and the
// exchange that leads to it (rdma_wire.h).
//
// clang-format off
//   Attach ──► hellos ──► the pair is made; offer, accept, go; it is connected ──► ready
//                │                          │                                        │
//                └──────────────────────────┴────────────────────────────────────────┴──► stalled
//                                                                   the stream or the pair breaks
// clang-format on
//
// After a stall the end stays on its old queue pair until the next exchange: slices that have
// arrived still reach the receiver.
//
// OWNER: a lane's end. THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_LINK_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_LINK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "service/transport/lane_link.h"
#include "service/transport/rdma/peer_pair.h"
#include "service/transport/rdma/peer_pairs.h"
#include "service/transport/rdma/rdma_wire.h"

namespace mccs {

class RdmaLaneLink final : public PeerPair::User {
 public:
  enum class Role : uint8_t { kSender, kReceiver };

  class Owner {
   public:
    virtual ~Owner() = default;
    // This end's hello; nothing while it cannot count its slices yet. Called until it returns one.
    // The link fills in magic, version and GID.
    virtual std::optional<wire::LaneHello> MakeHello() = 0;
    // The peer's. May end the lane (link().Fail).
    virtual void OnHello(const wire::LaneHello& hello) = 0;
    virtual void OnReady() = 0;
    // As PeerPair::User's.
    virtual void OnSent(uint64_t cookie) = 0;
    virtual void OnMessage(const wire::PairMessage& message) = 0;
    virtual void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) = 0;
    virtual void OnProgress() = 0;
    virtual void OnPairLost() = 0;
  };

  // LIFETIME: `pairs` and `owner` outlive this.
  RdmaLaneLink(Role role, PeerPairs& pairs, Owner& owner)
      : role_(role), pairs_(pairs), owner_(owner) {}
  ~RdmaLaneLink() override { LeavePair(); }
  RdmaLaneLink(const RdmaLaneLink&) = delete;

  LaneLink& link() { return link_; }
  const LaneLink& link() const { return link_; }
  bool ready() const { return link_.state() == LaneState::kReady; }

  // `queues`: for the new connection.
  void Attach(std::unique_ptr<Connection> connection, const SharedQueueKey& queues);
  // Advances the exchange. Returns true if anything moved.
  bool Poll();
  // The class of this end's packets: of the stream, and of the queue pair, for which a lane that is
  // connected connects again.
  void Mark(uint8_t dscp);
  // The queues of the current connection.
  const SharedQueueKey& queues() const { return queues_; }

  // The queue pair of the last connection; null before the first.
  PeerPair* pair() const { return pair_.get(); }
  LaneNumber number() const { return number_; }
  uint16_t peer_lane() const { return peer_lane_; }
  // Leaves the queue pair: nothing of it reaches this lane any more.
  void LeavePair();

 private:
  enum class Step : uint8_t {
    kIdle,        // no connection
    kHello,       // this end's hello is not sent yet
    kPeerHello,   // waits for the peer's
    kMaking,      // the maker's pair is being made
    kPair,        // the maker waits for an accept, the other end for an offer
    kAccepting,   // the other end's pair is being made and connected
    kConnecting,  // the maker's pair is being connected
    kGo,          // the other end waits until the maker's is connected
    kReady,
  };

  void OnSent(uint64_t cookie) override { owner_.OnSent(cookie); }
  void OnMessage(const wire::PairMessage& message) override;
  void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) override;
  void OnProgress() override { owner_.OnProgress(); }
  void OnPairLost(const absl::Status& why) override;
  void OnArrival();
  void Lose(const absl::Status& why);
  void AnnounceLoss(Connection& connection) const;

  bool WriteFrames();
  bool ReadFrames();
  void OnFrame(const wire::LaneFrame& frame);
  void OnHelloFrame(const wire::LaneHello& hello);
  void OnPairFrame(const wire::PairFrame& frame);
  bool TrySendHello();
  void BeginPair();
  bool AdvancePair();
  void OnOffer(const wire::PairFrame& frame);
  void OnAccept(const wire::PairFrame& frame);
  void JoinPair(std::shared_ptr<PeerPair> pair);
  wire::PairProof ProofOf(const wire::PairFrame& frame) const;
  void PushPairFrame(uint32_t magic);
  template <typename Frame>
  void Push(const Frame& frame);
  void OfferAnother();
  void BecomeReady();
  void FailUnexpected(uint32_t magic);
  PairKey KeyOfPair() const;

  const Role role_;
  PeerPairs& pairs_;
  Owner& owner_;
  LaneLink link_;
  Step step_ = Step::kIdle;
  bool maker_ = false;
  int rejected_ = 0;  // offers of the maker, on this connection
  SharedQueueKey queues_;
  Gid peer_gid_{};
  uint16_t peer_source_port_ = 0;
  uint8_t peer_class_ = 0;  // PairKey::peer_class
  uint8_t peer_ip_traffic_class_ = 0;
  wire::Nonce nonce_{};  // of this connection's hellos
  wire::Nonce peer_nonce_{};

  std::shared_ptr<PeerPair> pair_;
  LaneNumber number_;
  uint16_t peer_lane_ = 0;

  std::deque<wire::LaneFrame> out_;
  size_t out_bytes_ = 0;  // of out_.front(), written
  wire::LaneFrame in_{};
  size_t in_bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_LINK_H_

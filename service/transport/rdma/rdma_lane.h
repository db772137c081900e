// Lanes over RDMA queue pairs. A slice is one write with an immediate value, straight from the
// source to the memory where the receiver expects it, or to a slot. No processor copies it, except:
// - slices of at most the NIC's inline length are copied into the request;
// - a slice that is sent before the receiver expects it, is in its slot, and the owner copies it:
//   only short ones, or on lanes whose sender does not WaitForPlaces;
// - what belongs into or comes from memory that the NIC cannot register goes through a slot, or
//   through a bounce buffer of the lane.
// LaneCounters::copied_bytes counts them. A processor cannot copy memory that the daemon has not
// mapped: if the NIC cannot register that either, slices stay in their slots, and a lane that has
// to send from it, or to receive into it without slots, fails. See Reach.
//
// rdma_wire.h has the protocol, rdma_lane_link.h the connection, registered_memory.h the memory.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/transport/lane.h"
#include "service/transport/rdma/peer_pairs.h"
#include "service/transport/rdma/rdma_lane_link.h"
#include "service/transport/rdma/registered_memory.h"
#include "service/transport/receive_window.h"

namespace mccs {

// Slices up to this length do not wait for their places: to copy them costs less than to wait.
inline constexpr uint32_t kUnplacedBytes = 8192;

// Common to the lanes of one transport.
struct RdmaShared {
  PeerPairs& pairs;
  MemoryTable& memory;
};

// Memory of a lane, for one slice that the NIC cannot read or write where it is.
class BounceBuffer final : public Region {
 public:
  explicit BounceBuffer(uint32_t bytes)
      : BounceBuffer(std::make_unique<std::byte[]>(bytes), bytes) {}

  bool used = false;

 private:
  BounceBuffer(std::unique_ptr<std::byte[]> memory, uint32_t bytes)
      : Region(RegionKind::kStaging, memory.get(), bytes), memory_(std::move(memory)) {}

  const std::unique_ptr<std::byte[]> memory_;
};

// The part that both ends have. Base: LinkedLane<SendLane> or WindowedRecvLane.
template <typename Base>
class RdmaLaneEnd : public Base, protected RdmaLaneLink::Owner, private MemoryTable::Waiter {
 public:
  ~RdmaLaneEnd() override {
    EndBounce();
    shared_.memory.Leave(*this);
  }
  void Mark(uint8_t dscp) override { link_.Mark(dscp); }
  bool works() const override { return link_.ready() && link_.pair()->works(); }
  std::optional<QueuePairState> queue_pair() const override {
    if (!link_.ready()) return std::nullopt;
    PeerPair& pair = *link_.pair();
    const NicAttributes& own = pair.domain()->attributes();
    return QueuePairState{.device = own.device,
                          .port = own.port,
                          .gid = own.gid,
                          .number = pair.number().value(),
                          .peer_number = pair.peer_number().value(),
                          .requested_source_port = pair.key().source_port,
                          .source_port = pair.queue_pair().source_port(),
                          .memory = DescribeMemory()};
  }
  absl::StatusOr<std::shared_ptr<const void>> Reach(const Region& region) override {
    std::shared_ptr<PairDomain> domain = domain_;
    if (domain == nullptr) {
      auto next = shared_.pairs.Domain(this->queues().domain);
      if (!next.ok()) return absl::FailedPreconditionError(next.status().message());
      domain = *std::move(next);
    }
    const NicAttributes& nic = domain->attributes();
    if (!region.is_mapped() && !nic.no_dma_bufs.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("RDMA device ", nic.device, ": ", nic.no_dma_bufs));
    }
    const std::shared_ptr<RegisteredMemory> memory = shared_.memory.Use(region, domain, *this);
    if (memory->pending()) return memory->status();
    if (!memory->ready()) return absl::FailedPreconditionError(memory->status().message());
    return memory;
  }
  // Each lane waits for registrations itself until it has a domain.
  const void* reach_domain() const override {
    return domain_ != nullptr ? static_cast<const void*>(domain_.get()) : this;
  }
  void Attach(std::unique_ptr<Connection> connection) override {
    domain_.reset();
    used_.reset();
    link_.Attach(std::move(connection), this->queues());
    if (link().get() == nullptr) return;
    auto domain = shared_.pairs.Domain(this->queues().domain);
    if (domain.ok()) {
      domain_ = *std::move(domain);
    } else {
      link_.link().Stall(domain.status());
      OnEvent();
    }
  }

 protected:
  template <typename... Args>
  RdmaLaneEnd(RdmaLaneLink::Role role, RdmaShared& shared, const Args&... args)
      : Base(args...), shared_(shared), link_(role, shared.pairs, *this) {}

  const LaneLink& link() const override { return link_.link(); }
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    link_.link().Fail(parts...);
  }

  // Something happened between two Polls.
  void OnEvent() {
    event_ = true;
    this->WakePoller();
  }
  bool TakeEvent() { return std::exchange(event_, false); }
  void OnProgress() override { OnEvent(); }
  void OnRegistered() override { OnEvent(); }

  // Of the last region that was used; empty: none.
  std::string DescribeMemory() const {
    const std::shared_ptr<RegisteredMemory> last = used_.lock();
    if (last == nullptr || last->pending()) return "";
    const bool bounces = bounce_ != nullptr && used_id_ == bounce_->id();
    if (bounces || !last->ready()) return "copied";
    return std::string(Name(last->verbs().means()));
  }
  // The registration of the region with the NIC of the current connection. REQUIRES: ready.
  std::shared_ptr<RegisteredMemory> UseMemory(const Region& region) {
    if (region.id() == used_id_) {
      if (std::shared_ptr<RegisteredMemory> same = used_.lock(); same && same->ready()) return same;
    }
    std::shared_ptr<RegisteredMemory> memory = shared_.memory.Use(region, domain_, *this);
    used_id_ = region.id();
    used_ = memory;
    return memory;
  }

  // The bounce buffer for the region, which is not registered; null: not now. The buffer is unused
  // and registered. May end the lane, as it does if the daemon has not mapped the region: unless
  // it has been refused, when it waits for room.
  std::shared_ptr<BounceBuffer> UseBounce(const Region& region, const RegisteredMemory& refused,
                                          uint32_t bytes) {
    if (!region.is_mapped()) {
      if (refused.refused()) {
        shared_.memory.AwaitRoom(*this);
      } else {
        link_.link().FailLocally(refused.status());
      }
      return nullptr;
    }
    if (bounce_ == nullptr) bounce_ = std::make_shared<BounceBuffer>(bytes);
    if (bounce_->used) return nullptr;
    const std::shared_ptr<RegisteredMemory> memory = UseMemory(*bounce_);
    if (!memory->ready() && !memory->pending()) link_.link().FailLocally(memory->status());
    return memory->ready() ? bounce_ : nullptr;
  }
  void ReleaseBounce() {
    if (bounce_ != nullptr) bounce_->used = false;
  }
  // Another one is used from now on. The NIC's and the peer's access to this one ends.
  void EndBounce() {
    if (bounce_ != nullptr) shared_.memory.Forget(*bounce_, bounce_);
    bounce_.reset();
  }

  RdmaShared& shared_;
  std::shared_ptr<PairDomain> domain_;  // of the current connection; null: none, or it has stalled
  RdmaLaneLink link_;

 private:
  RegionId used_id_;  // the last region that was used
  std::weak_ptr<RegisteredMemory> used_;
  std::shared_ptr<BounceBuffer> bounce_;
  bool event_ = false;  // since the last Poll
};

class RdmaSendLane final : public RdmaLaneEnd<LinkedLane<SendLane>> {
 public:
  // REQUIRES: shape.slots ≥ 2. LIFETIME: `shared` outlives this.
  RdmaSendLane(const LaneIdentity& identity, const LaneShape& shape, RdmaShared& shared);

  absl::StatusOr<std::optional<SliceNumber>> Post(const RegionSpan& payload,
                                                  const SliceTag& tag) override;
  void WaitForPlaces() override { waits_for_places_ = true; }
  bool has_room() const override {
    return next_ < credit_ && next_ < acknowledged_ + shape_.slots && !link().failed();
  }
  SliceNumber acknowledged() const override { return acknowledged_; }
  SliceNumber source_free() const override { return source_free_; }
  SliceNumber next() const override { return next_; }
  void SetGate(SendGate* gate) override {
    gate_ = gate;
    gate_blocked_ = false;
  }
  LaneWait waits_for() const override;
  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;
  LaneCounters counters() const override;

 private:
  // One slice of the window, until it is acknowledged.
  struct Entry {
    SliceTag tag{};
    bool tagged = false;  // its tag differs from that of the slice before
    RegionSpan payload;
    bool is_copied = false;
    std::vector<std::byte> copy;  // as long as the longest copied slice so far
  };
  // The place of a slice at the receiver, on the current connection.
  struct Place {
    SliceNumber slice = 0;
    bool given = false;
    uint64_t address = 0;  // 0: its slot; without slots: it is discarded
    uint32_t key = 0;
    uint32_t tag_check = 0;
    uint32_t bytes = 0;
  };

  // RdmaLaneLink::Owner
  std::optional<wire::LaneHello> MakeHello() override;
  void OnHello(const wire::LaneHello& hello) override;
  void OnReady() override {
    rated_pair_ = nullptr;
    OnEvent();
  }
  // The device may limit its queue pair.
  void ReportRate();
  void OnSent(uint64_t cookie) override;
  void OnMessage(const wire::PairMessage& message) override;
  void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) override;
  void OnPairLost() override { OnEvent(); }

  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  // Whether the receiver must give memory for it.
  bool NeedsPlace(const Entry& entry) const { return !has_slots_ && entry.payload.bytes > 0; }
  bool PostSlices();
  bool PostAnnouncements();
  // Posts slice sent_. Returns false if it must wait.
  bool PostSlice();
  bool PostTag();
  // Where slice sent_ is to be written; nothing: it must wait.
  std::optional<Place> FindPlace(const Entry& entry) const;
  // Sets the request's source, and what is kept until it is complete. Returns false if it must
  // wait.
  bool SetSource(const Entry& entry, WorkRequest* request, std::shared_ptr<RegisteredMemory>* kept);
  void OnCredit(const wire::CreditMessage& message);
  void Acknowledge(SliceNumber end);
  void FreeSources();
  void ReportToGate();

  const LaneShape shape_;
  const uint32_t inline_bytes_;  // longest slice that is copied
  bool waits_for_places_ = false;
  std::vector<Entry> entries_;
  std::vector<Place> places_;
  SliceTag last_tag_{};  // of slice next_ − 1

  // acknowledged_ ≤ sent_ ≤ next_ ≤ credit_; sent_ ≤ announced_ ≤ next_ without slots.
  SliceNumber acknowledged_ = 0;
  SliceNumber source_free_ = 0;
  SliceNumber sent_ = 0;  // posted to the current queue pair
  SliceNumber ever_sent_ = 0;
  SliceNumber announced_ = 0;
  SliceNumber next_ = 0;
  SliceNumber credit_ = 0;
  uint64_t acknowledged_bytes_ = 0;
  uint64_t copied_bytes_ = 0;
  SendGate* gate_ = nullptr;
  bool gate_blocked_ = false;
  PeerPair* rated_pair_ = nullptr;  // which knows rate_bps_; never followed
  uint64_t rate_bps_ = 0;
  bool no_place_ = false;               // for the next slice: its receiver is late
  bool first_ = true;                   // slice sent_ is the first one on the current queue pair
  bool tag_posted_ = false;             // of slice sent_
  std::optional<SliceNumber> bounced_;  // uses the bounce buffer

  // Of the pair of an earlier connection, which has failed; the receiver does not know it yet.
  std::optional<wire::PairProof> failure_;
  bool has_slots_ = false;
  uint32_t unplaced_bytes_ = 0;
  std::optional<Place> slots_;  // of the peer
};

class RdmaRecvLane final : public RdmaLaneEnd<WindowedRecvLane> {
 public:
  // LIFETIME: `shared` outlives this.
  RdmaRecvLane(const LaneIdentity& identity, const LaneShape& shape, const RegionSpan& slots,
               RdmaShared& shared);
  ~RdmaRecvLane() override { StopWrites(); }

  bool Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) override;
  void ExpectInSlot(SliceNumber n) override;
  std::optional<SliceTag> OldestTag() const override;
  std::vector<RegionSpan> UnusedSlots() const override;
  bool defers_acknowledgement() const override { return false; }  // the NIC acknowledges
  void Acknowledge() override {}
  bool Poll() override;

 private:
  // The place of a slice, on the current connection.
  struct Given {
    SliceNumber slice = 0;
    bool given = false;
    RegionSpan memory;  // of its owner; none: it is discarded
    std::shared_ptr<BounceBuffer> bounce = nullptr;
    std::shared_ptr<WindowBinding> access = nullptr;
    // Without slots, of a slice without payload: its owner has been asked for memory all the same.
    bool asked = false;
    bool found = false;
  };
  struct Location {
    uint64_t address = 0;  // 0: its slot
    std::shared_ptr<WindowBinding> access = nullptr;
    std::shared_ptr<BounceBuffer> bounce = nullptr;
  };
  // A region that the peer may write, on the current queue pair.
  struct Access {
    std::shared_ptr<WindowBinding> binding;
    uint64_t last_use = 0;
  };
  // Regions without a place that the peer may write. With more windows, the NIC and the search for
  // one get slower.
  static constexpr size_t kMaxBindings = 64;

  // RdmaLaneLink::Owner
  std::optional<wire::LaneHello> MakeHello() override;
  void OnHello(const wire::LaneHello& hello) override;
  void OnReady() override { OnEvent(); }
  void OnSent(uint64_t) override {}
  void OnMessage(const wire::PairMessage& message) override;
  void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) override;
  void OnPairLost() override { OnEvent(); }  // what has arrived before is yet to come

  void OnTag(const wire::PairMessage& message);
  void OnAnnounce(const wire::PairMessage& message);
  void OnPlaced(uint32_t bytes);
  bool SendSlots();
  bool SendCredit();
  // Adds places of the next slices to the message.
  void GivePlaces(wire::CreditMessage* message);
  // Whether the owner has memory for a slice without payload. Asks it once.
  bool HasMemory(SliceNumber n);
  // The memory for slice placed_, whose owner has decided; an empty span: none. Nothing: not
  // decided.
  std::optional<RegionSpan> Decided() const;
  // Where the peer can write it; nothing: not known now.
  std::optional<Location> Locate(const RegionSpan& memory);
  // The peer's access to the memory of a region; null: not now. Errors: the device's.
  absl::StatusOr<std::shared_ptr<WindowBinding>> Allow(
      const Region& region, const std::shared_ptr<RegisteredMemory>& memory);
  // Ends the access to the region that was used least recently and has no place.
  void EndOneAccess();
  void EndAccess();
  // The lane ends. If the peer may still write slices to memory whose access outlives it, the queue
  // pair ends, too; its other lanes connect again.
  void StopWrites();

  std::vector<Given> given_;
  std::vector<bool> needs_place_;  // by number modulo slots: announced, with payload

  SliceNumber placed_ = 0;     // slices with smaller numbers have a place, or need none
  SliceNumber announced_ = 0;  // without slots
  SliceNumber sent_credit_ = 0;
  SliceTag last_tag_{};                          // of the last message kTag
  std::optional<SliceNumber> tag_number_;        // its slice
  std::optional<wire::PairProof> peer_failure_;  // the sender's hello: its queue pair has failed
  SliceNumber peer_number_ = 0;

  absl::flat_hash_map<RegionId, Access> bindings_;
  uint64_t uses_ = 0;
  std::shared_ptr<WindowBinding> slots_binding_;
  bool slots_sent_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_H_

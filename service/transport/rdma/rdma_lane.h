// Lanes over RDMA queue pairs. A slice is one write with an immediate value, straight from the
// source to a slot, or to memory that the receiver exposes. No processor copies it, except:
// - the receiver copies a slice from its slot to the memory of Expect, if that is accepted;
// - slices of at most the NIC's inline length are copied into the request;
// - a lane without slots receives into memory of its own (a bounce buffer) what belongs into memory
//   that is not registered with the NIC.
// LaneCounters count them.
//
// rdma_wire.h has the protocol, rdma_lane_link.h the connection.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/transport/exposure.h"
#include "service/transport/lane.h"
#include "service/transport/rdma/peer_pairs.h"
#include "service/transport/rdma/rdma_lane_link.h"
#include "service/transport/rdma/rdma_registrar.h"

namespace mccs {

// Common to the lanes of one transport.
struct RdmaShared {
  PeerPairs& pairs;
  RdmaRegistrar& registrar;
  RegistrationTable registrations;
  uint64_t last_key = 0;  // of RemoteKeys: one that another lane exposed is unknown here

  // Null: the region is not registered there.
  const MemoryRegion* Find(const Region& region, const NicDomain& domain) const {
    const std::optional<RegistrationId> id = registrations.Find(region, domain);
    return id.has_value() ? registrar.Find(*id) : nullptr;
  }
};

class RdmaSendLane final : public SendLane, private RdmaLaneLink::Owner {
 public:
  // REQUIRES: shape.slots ≥ 2. LIFETIME: `shared` outlives this.
  RdmaSendLane(const LaneIdentity& identity, const LaneShape& shape, RdmaShared& shared);

  absl::StatusOr<std::optional<SliceNumber>> Post(const RegionSpan& payload,
                                                  const SliceTag& tag) override {
    return PostTo({}, payload, tag);
  }
  absl::StatusOr<std::optional<SliceNumber>> PostTo(const RemoteTarget& target,
                                                    const RegionSpan& payload,
                                                    const SliceTag& tag) override;
  std::optional<RemoteRegion> FindExposed(ExposureName name) const override {
    return peer_memory_.Find(name);
  }
  bool has_room() const override {
    return next_ < credit_ && next_ < acknowledged_ + shape_.slots && !link_.link().failed();
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
  void Mark(uint8_t dscp) override { link_.link().Mark(dscp); }
  absl::Status status() const override { return link_.link().status(); }
  LaneState state() const override { return link_.link().state(); }
  LaneCounters counters() const override;
  Endpoint local() const override { return link_.link().local(); }
  Endpoint remote() const override { return link_.link().remote(); }

 private:
  // One slice of the window, until it is acknowledged.
  struct Entry {
    SliceTag tag{};
    bool tagged = false;  // its tag differs from that of the slice before
    RemoteTarget target;
    RegionSpan payload;
    bool is_copied = false;
    std::vector<std::byte> copy;  // as long as the longest copied slice so far
  };
  // The address and key of the peer's memory, for this host's NIC.
  struct Place {
    uint64_t address = 0;
    uint32_t key = 0;
  };
  struct Grant {
    bool discard = false;
    Place place;
  };

  // RdmaLaneLink::Owner
  std::optional<wire::LaneHello> MakeHello() override;
  void OnHello(const wire::LaneHello& hello) override;
  void OnReady() override {}
  void OnFault(const wire::WriteFault& fault) override;
  void OnSent(uint64_t cookie) override;
  void OnWriteFault(uint64_t cookie) override;
  void OnMessage(const wire::PairMessage& message) override;
  void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) override;
  void OnRoom() override { OnEvent(); }
  void OnPairLost() override { OnEvent(); }

  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  // Whether the receiver must give memory for it.
  bool NeedsGrant(const Entry& entry) const {
    return !has_slots_ && entry.target.key == RemoteKey() && entry.payload.bytes > 0;
  }
  // Something happened between two Polls.
  void OnEvent() {
    event_ = true;
    RequestPoll();
  }
  bool PostSlices();
  bool PostAnnouncements();
  // Posts slice sent_. Returns false if it must wait.
  bool PostSlice();
  // Where slice sent_ is to be written; nothing while that is unknown. May end the lane.
  std::optional<Place> FindPlace(const Entry& entry);
  void OnCredit(SliceNumber delivered, SliceNumber credit);
  void OnExposed(const wire::PairMessage& message);
  void Acknowledge(SliceNumber end);
  void FreeSources();
  void ReportToGate();
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    link_.link().Fail(parts...);
  }

  const LaneShape shape_;
  RdmaShared& shared_;
  const uint32_t inline_bytes_;  // longest slice that is copied
  std::vector<Entry> entries_;
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
  SendGate* gate_ = nullptr;
  bool gate_blocked_ = false;
  bool first_ = true;   // slice sent_ is the first one on the current queue pair
  bool event_ = false;  // since the last Poll
  NicDomain domain_;    // of the current connection

  bool awaits_hello_ = false;  // on the current connection
  bool pair_failed_ = false;   // that of a connection before; the receiver does not know it yet
  bool has_slots_ = false;
  // Of the peer; its key is 0 without slots. Nothing: the peer has not told all that it exposes.
  std::optional<Place> slots_;
  std::deque<Grant> grants_;  // of slices from sent_ on
  PeerMemory peer_memory_;
  std::vector<std::pair<RemoteKey, Place>> places_;  // of peer_memory_

  RdmaLaneLink link_;  // last: it leaves its queue pair first
};

class RdmaRecvLane final : public RecvLane, private RdmaLaneLink::Owner {
 public:
  // REQUIRES: shape.slots ≥ 2; slots.bytes ≥ shape.slots × shape.slot_bytes, or 0.
  // LIFETIME: `shared` outlives this.
  RdmaRecvLane(const LaneIdentity& identity, const LaneShape& shape, const RegionSpan& slots,
               RdmaShared& shared);
  ~RdmaRecvLane() override;

  void SetSink(SliceSink* sink) override { sink_ = sink; }
  bool Expect(SliceNumber n, const RegionSpan& memory, const SliceTag& tag) override;
  Landing Landed(SliceNumber n) const override;
  const SliceTag& Tag(SliceNumber n) const override;
  uint32_t Bytes(SliceNumber n) const override;
  RegionSpan slots() const override { return slots_; }
  absl::StatusOr<RemoteKey> Expose(ExposureName name, const RegionSpan& memory) override;
  void Withdraw(RemoteKey key) override;
  bool IsAccessible(RemoteKey key) const override;
  std::optional<SliceTag> OldestTag() const override;
  std::vector<RegionSpan> UnusedSlots() const override;
  void Release(SliceNumber n) override;
  bool defers_acknowledgement() const override { return false; }  // the NIC acknowledges
  void Acknowledge() override {}

  bool Poll() override;
  void Attach(std::unique_ptr<Connection> connection) override;
  void Mark(uint8_t dscp) override { link_.link().Mark(dscp); }
  absl::Status status() const override { return link_.link().status(); }
  LaneState state() const override { return link_.link().state(); }
  LaneCounters counters() const override;
  Endpoint local() const override { return link_.link().local(); }
  Endpoint remote() const override { return link_.link().remote(); }

 private:
  struct Entry {
    SliceTag tag{};
    uint32_t bytes = 0;
    RegionSpan expected;
    SliceTag expected_tag{};
    bool expects = false;
    bool released = false;
    bool needs_grant = false;  // announced for a lane without slots
    Landing landing = Landing::kNotYet;
  };
  // Memory that the peer may write through a window, on the current queue pair.
  struct Window {
    std::unique_ptr<MemoryWindow> window;
    uint32_t key = 0;
  };
  // The memory of the next slice of a lane without slots.
  struct Granted {
    Landing landing = Landing::kDiscarded;
    RegionSpan memory;  // of its owner
    Window window;  // its end ends the access; null if the NIC has none, or the slice is discarded
    bool bounced = false;  // the payload goes to the bounce buffer first
  };

  // RdmaLaneLink::Owner
  std::optional<wire::LaneHello> MakeHello() override;
  void OnHello(const wire::LaneHello& hello) override;
  void OnReady() override;
  void OnFault(const wire::WriteFault& fault) override;
  void OnSent(uint64_t cookie) override;
  void OnWriteFault(uint64_t) override {}
  void OnMessage(const wire::PairMessage& message) override;
  void OnWritten(const wire::ImmediateFields& immediate, uint32_t bytes) override;
  void OnRoom() override { OnEvent(); }
  void OnPairLost() override;

  void OnEvent() {
    event_ = true;
    RequestPoll();
  }
  const Entry& At(SliceNumber n) const { return entries_[n % shape_.slots]; }
  Entry& At(SliceNumber n) { return entries_[n % shape_.slots]; }
  bool InWindow(SliceNumber n) const { return n >= released_ && n < released_ + shape_.slots; }
  bool has_slots() const { return slots_.bytes > 0; }
  std::byte* Slot(SliceNumber n) const {
    return slots_.address() + (n % shape_.slots) * shape_.slot_bytes;
  }

  void OnTag(const wire::PairMessage& message);
  void OnAnnounce(const wire::PairMessage& message);
  void Land(bool written, uint32_t bytes);
  // The memory of its Expect, or that its sink gives; nothing: neither.
  std::optional<RegionSpan> FindMemory(const Entry& entry) const;
  Landing LandInSlot(const Entry& entry);
  void TakeGranted(Granted granted);
  bool FlushMessages();
  bool ClaimRoom();
  bool SendSlots();
  bool SendExposure();
  bool SendGrant();
  bool SendCredit();
  // Finds the memory of an announced slice; nothing: it waits.
  std::optional<Granted> ChooseGranted(const Entry& entry);
  bool HasBounce();
  void ReleaseBounce();
  // Binds a new window to the memory on the current queue pair. Nothing: there is no room now, or
  // the lane has failed.
  std::optional<Window> Bind(const RegionSpan& memory);
  void Invalidate(Window window, RemoteKey key);
  void DropWindows();
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    link_.link().Fail(parts...);
    DropWindows();
  }

  const LaneShape shape_;
  const RegionSpan slots_;
  RdmaShared& shared_;
  SliceSink* sink_ = nullptr;
  std::vector<Entry> entries_;

  // released_ ≤ delivered_ ≤ granted_ ≤ announced_ ≤ released_ + slots; with slots, the two in the
  // middle are not used.
  SliceNumber released_ = 0;
  SliceNumber delivered_ = 0;
  SliceNumber granted_ = 0;
  SliceNumber announced_ = 0;
  uint64_t landed_bytes_ = 0;
  SliceTag last_tag_{};       // of the last message kTag
  bool has_tag_ = false;      // there was one
  bool peer_failed_ = false;  // the sender's hello: its queue pair has failed
  SliceNumber peer_number_ = 0;

  ExposedMemory exposed_;
  std::vector<std::pair<RemoteKey, Window>> windows_;  // of exposed_, bound
  std::vector<std::pair<RemoteKey, Window>> invalidating_;
  RemoteKey last_withdrawn_;
  Window slots_window_;
  bool slots_sent_ = false;
  std::deque<Granted> granted_memory_;  // of slices from delivered_ on
  std::shared_ptr<Region> bounce_;
  std::unique_ptr<RegionRegistration> bounce_registration_;
  bool bounce_used_ = false;
  SliceNumber sent_credit_ = 0;
  bool event_ = false;  // since the last Poll
  NicDomain domain_;    // of the current connection

  RdmaLaneLink link_;  // last: it leaves its queue pair first
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_RDMA_LANE_H_

// One message lane between this host and one other, in both directions (striping.h): what waits to
// be sent on it, what is sent and not acknowledged, and the slices that arrive on it.
//
// Announcements have precedence, because the peer waits for them. Payloads alternate slice by
// slice, so that a long message does not block a short one.
//
// A lane gets turns while it has work: the owner has added some, slices have arrived, or the peer
// has acknowledged some.
//
// OWNER: PeerMessages. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_MESSAGES_MESSAGE_LANE_H_
#define MCCS_SERVICE_MESSAGES_MESSAGE_LANE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ready_list.h"
#include "service/messages/open_message.h"
#include "service/transport/lane.h"

namespace mccs {

// The turns of all message lanes of one communicator.
class MessageLaneTurns {
 public:
  // Slices that a turn takes from the lanes, rounded up to one window of a lane.
  static constexpr size_t kSlicesPerTurn = 4096;

  // Polls each lane that has work once. As MessageLane::Poll.
  absl::Status Poll(std::vector<OpenMessage>& done, bool* moved);
  // Data of this host is in flight or waits for a lane.
  bool busy() const { return busy_ > 0; }

 private:
  friend class MessageLane;
  ReadyList ready_;
  size_t busy_ = 0;  // number of busy lanes
};

class MessageLane final : public ReadyList::Member, private SliceSink {
 public:
  // The messages and puts whose slices the lanes carry.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Returns the lane to the peer; called once, when there is data to send.
    virtual SendLane* OpenLane(int lane) = 0;
    // Finds the memory for the payload of a slice that arrives. Nothing: it is discarded.
    virtual std::optional<RegionSpan> FindDestination(const ArrivingSlice& slice) = 0;
    // A slice has arrived. Appends the messages that it completes to `done`.
    virtual absl::Status OnSlice(const ArrivingSlice& slice, std::vector<OpenMessage>& done) = 0;
    // Whether the owner still needs a slice that OnSlice has just taken: the lane must keep it, and
    // list itself for turns, until Release.
    virtual bool Keeps(const ArrivingSlice& slice) const = 0;
    // Advances the copies of kept slices of the lane. Returns true if anything moved.
    virtual absl::StatusOr<bool> PollCopies(int lane) = 0;
    // The owner keeps slices of the lane.
    virtual bool has_kept(int lane) const = 0;
    // The lane has all slices of a one-sided call.
    virtual absl::Status OnPosted(const OpenMessage& call) = 0;
    // The lane has a kWindowReply.
    virtual void OnWindowReplyPosted() = 0;
    // Sends with this many stripes in all are complete.
    virtual absl::Status OnSent(uint64_t stripes) = 0;
  };

  // `slice_bytes`: maximum payload of a slice. LIFETIME: `owner`, `turns` and the lanes outlive
  // this.
  MessageLane(Owner& owner, MessageLaneTurns& turns, int lane, uint32_t slice_bytes)
      : Member(turns.ready_),
        owner_(owner),
        turns_(turns),
        lane_(lane),
        slice_bytes_(slice_bytes) {}
  ~MessageLane() override;
  MessageLane(const MessageLane&) = delete;
  MessageLane& operator=(const MessageLane&) = delete;

  // The peer has opened its direction.
  void Attach(RecvLane& lane);

  // For adding slices, which the next turn sends.
  Outbox& OutboxToFill();
  // The owner needs a kept slice no more.
  void Release(SliceNumber number);
  // Passes arrived slices to the owner, posts what waits, as far as the lane accepts it, and
  // appends complete messages to `done`. Returns the number of arrived slices.
  absl::StatusOr<size_t> Poll(std::vector<OpenMessage>& done, bool* moved);

  // The lane, if it has something to send or has sent something that is not acknowledged; else
  // null.
  const SendLane* busy_lane() const { return has_outgoing() ? send_ : nullptr; }
  // Bytes of slices that have arrived so far.
  uint64_t received_bytes() const { return receive_ != nullptr ? receive_->moved_bytes() : 0; }

  // A put or signal for `rank` that the lane has and the peer has not acknowledged; null if there
  // is none.
  const OpenMessage* UnacknowledgedPut(Rank rank) const;

 private:
  struct Unacknowledged {
    OpenMessage message;
    SliceNumber last = 0;
    std::shared_ptr<OpenStripes> stripes = nullptr;
  };

  absl::StatusOr<size_t> PollIncoming(std::vector<OpenMessage>& done);
  absl::Status PollOutgoing(std::vector<OpenMessage>& done, bool* moved);
  bool has_outgoing() const {
    return !outbox_.announcements.empty() || !outbox_.transfers.empty() || !unacknowledged_.empty();
  }
  void SetBusy(bool busy);
  std::optional<RegionSpan> FindDestination(SliceNumber n, const SliceTag& tag,
                                            uint32_t bytes) override;
  // Posts a slice of the front transfer, which then moves to the back. False: the lane accepted
  // none.
  absl::StatusOr<bool> PostNext();
  bool Post(const RegionSpan& payload, const MessageTag& tag, SliceNumber* number);

  Owner& owner_;
  MessageLaneTurns& turns_;
  const int lane_;
  const uint32_t slice_bytes_;
  SendLane* send_ = nullptr;
  RecvLane* receive_ = nullptr;
  SliceNumber next_slice_ = 0;  // the next slice from the peer
  // Slices that got destinations and have not arrived. They are resent if their connection breaks.
  struct Placed {
    SliceNumber number = 0;
    SliceTag tag{};
  };
  std::deque<Placed> placed_;  // at most the slots of a lane
  bool busy_ = false;          // counted in turns_
  Outbox outbox_;
  std::deque<Unacknowledged> unacknowledged_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_MESSAGE_LANE_H_

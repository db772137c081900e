// State of an end of a lane, of any kind: its replaceable connection and its LaneState.
//
// OWNER: a lane's end. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_TRANSPORT_LANE_LINK_H_
#define MCCS_SERVICE_TRANSPORT_LANE_LINK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/transport/lane.h"
#include "service/transport/lane_state.h"
#include "service/transport/network.h"

namespace mccs {

class LaneLink {
 public:
  // Null while created, stalled or failed.
  Connection* get() const { return connection_.get(); }
  const absl::Status& status() const { return status_; }
  LaneState state() const { return state_; }
  bool failed() const { return state_ == LaneState::kFailed; }
  uint64_t reconnects() const { return attached_ > 1 ? attached_ - 1 : 0; }
  Endpoint local() const { return connection_ ? connection_->local() : Endpoint{}; }
  Endpoint remote() const { return connection_ ? connection_->remote() : Endpoint{}; }

  // Returns false if the lane has failed; closes the connection then.
  bool Attach(std::unique_ptr<Connection> connection) {
    if (failed()) return false;
    connection_ = std::move(connection);
    if (dscp_ != 0) connection_->Mark(dscp_);
    status_ = absl::OkStatus();
    state_ = LaneState::kExchanging;
    ++attached_;
    return true;
  }

  // The ends agree on where to continue. REQUIRES: connected.
  void SetReady() { state_ = LaneState::kReady; }

  uint8_t dscp() const { return dscp_; }
  // Applies to this connection and later ones.
  void Mark(uint8_t dscp) {
    if (dscp == dscp_) return;
    dscp_ = dscp;
    if (connection_ != nullptr) connection_->Mark(dscp);
  }

  // The connection is broken: the lane waits for another.
  void Stall(const absl::Status& why) { Detach(why); }
  // The same; returns the connection.
  std::unique_ptr<Connection> Detach(const absl::Status& why) {
    state_ = LaneState::kStalled;
    status_ = absl::UnavailableError(absl::StrCat("lane stalled: ", why.message()));
    return std::move(connection_);
  }

  // The peer has violated the protocol: the lane accepts nothing more from it.
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    status_ = absl::DataLossError(
        absl::StrCat("lane with ", ToString(remote()),
                     " failed: the peer violated the lane protocol: ", parts...));
    connection_.reset();
    state_ = LaneState::kFailed;
  }
  // This end cannot go on: a final error of its own.
  void FailLocally(const absl::Status& why) {
    status_ = absl::Status(
        why.code(), absl::StrCat("lane with ", ToString(remote()), " failed: ", why.message()));
    connection_.reset();
    state_ = LaneState::kFailed;
  }

 private:
  std::unique_ptr<Connection> connection_;
  absl::Status status_ = absl::UnavailableError("lane stalled: not connected yet");
  LaneState state_ = LaneState::kCreated;
  uint64_t attached_ = 0;
  uint8_t dscp_ = 0;
};

// The part of a lane's end, of any kind, that follows from its link. Base: SendLane or RecvLane.
template <typename Base>
class LinkedLane : public Base {
 public:
  void Mark(uint8_t dscp) override { this->MutableLink().Mark(dscp); }
  absl::Status status() const override { return link().status(); }
  LaneState state() const override { return link().state(); }
  Endpoint local() const override { return link().local(); }
  Endpoint remote() const override { return link().remote(); }

 protected:
  virtual const LaneLink& link() const = 0;
  LaneLink& MutableLink() { return const_cast<LaneLink&>(link()); }
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_LANE_LINK_H_

// State shared by both ends of a lane over byte streams: the replaceable connection and its status.
//
// clang-format off
//            Attach                    broken
//   stalled ────────► connected ──────────────► stalled
//      │                  │  the peer violates the protocol
//      └──────────────────┴──────────────────────────────► failed (final)
// clang-format on
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_TRANSPORT_LANE_LINK_H_
#define MCCS_SERVICE_TRANSPORT_LANE_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/transport/network.h"

namespace mccs {

class LaneLink {
 public:
  // Null while stalled or failed.
  Connection* get() const { return connection_.get(); }
  const absl::Status& status() const { return status_; }
  bool failed() const { return failed_; }
  uint64_t reconnects() const { return attached_ > 1 ? attached_ - 1 : 0; }
  Endpoint local() const { return connection_ ? connection_->local() : Endpoint{}; }
  Endpoint remote() const { return connection_ ? connection_->remote() : Endpoint{}; }

  // Returns false if the lane has failed; closes the connection then.
  bool Attach(std::unique_ptr<Connection> connection) {
    if (failed_) return false;
    connection_ = std::move(connection);
    if (dscp_ != 0) connection_->Mark(dscp_);
    status_ = absl::OkStatus();
    ++attached_;
    return true;
  }

  // Applies to this connection and later ones.
  void Mark(uint8_t dscp) {
    if (dscp == dscp_) return;
    dscp_ = dscp;
    if (connection_ != nullptr) connection_->Mark(dscp);
  }

  // The connection is broken: the lane waits for another.
  void Stall(const absl::Status& why) {
    connection_.reset();
    status_ = absl::UnavailableError(absl::StrCat("lane stalled: ", why.message()));
  }

  // The peer has violated the protocol: the lane accepts nothing more from it.
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    status_ = absl::DataLossError(
        absl::StrCat("lane with ", ToString(remote()),
                     " failed: the peer violated the lane protocol: ", parts...));
    connection_.reset();
    failed_ = true;
  }

 private:
  std::unique_ptr<Connection> connection_;
  absl::Status status_ = absl::UnavailableError("lane stalled: not connected yet");
  uint64_t attached_ = 0;
  uint8_t dscp_ = 0;
  bool failed_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_LANE_LINK_H_

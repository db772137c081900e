#include "service/communicator/lanes/reopen_request.h"

namespace mccs {
namespace {

constexpr int64_t kAskAgainNs = 100 * kNsPerMs;

}  // namespace

bool ReopenRequest::Ask() {
  // The sender has accepted the request when the handshake is complete; the stream has no other
  // use.
  if (dial_ != nullptr) {
    const absl::StatusOr<std::unique_ptr<Connection>> asked = dial_->Poll();
    if (!asked.ok() || *asked != nullptr) dial_.reset();
  }
  const MonotonicNs now = access_.clock->Now();
  if (now < next_at_) return false;
  next_at_ = now + kAskAgainNs;
  DialOptions options = options_;
  options.route = routes_.Attempt(
      attempt_++, options_.route, options_.route,
      [this](const std::string& address) { return access_.network->HasLink(address); });
  dial_ = std::make_unique<Dial>(access_, options);
  return true;
}

void ReopenRequest::Stop() {
  dial_.reset();
  attempt_ = 0;
  next_at_ = 0;
}

}  // namespace mccs

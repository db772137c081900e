// A tenant process that sends arbitrary messages over the simulated socket.
#ifndef MCCS_TESTS_UNIT_FRONTEND_RAW_TENANT_H_
#define MCCS_TESTS_UNIT_FRONTEND_RAW_TENANT_H_

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/shared_region.h"
#include "proto/shim_control.h"
#include "proto/unique_id.h"
#include "tests/sim/sim_tenant.h"
#include "tests/sim/sim_world.h"

namespace mccs {

class RawTenant {
 public:
  RawTenant(SimWorld& world, int host, const TenantIdentity& identity)
      : world_(world), pipe_(world.host(host).tenant_listener().Connect(identity)) {}

  SimPipe& pipe() const { return *pipe_; }

  // Sends `message` with its kind and length and the next request number, which it returns.
  template <typename Message>
  uint64_t Send(Message message) {
    message.header = {.kind = Message::kKind, .bytes = sizeof(Message), .request = ++last_request_};
    SendBytes(&message, sizeof(message));
    return last_request_;
  }
  void SendBytes(const void* bytes, size_t size) {
    const auto* begin = static_cast<const std::byte*>(bytes);
    pipe_->to_daemon.emplace_back(begin, begin + size);
  }

  // Runs the world until the reply to `request` has arrived; nothing if there is none within
  // `limit_ns`.
  template <typename Message>
  std::optional<Message> Await(uint64_t request, int64_t limit_ns = kNsPerSec) {
    std::optional<Message> answer;
    world_.RunUntil([&] { return (answer = Take<Message>(request)).has_value(); }, limit_ns);
    return answer;
  }
  // The same for messages that have already arrived. The descriptors are in fds().
  template <typename Message>
  std::optional<Message> Take(uint64_t request) {
    for (auto it = pipe_->to_tenant.begin(); it != pipe_->to_tenant.end(); ++it) {
      Message message;
      if (it->bytes.size() != sizeof(Message)) continue;
      std::memcpy(&message, it->bytes.data(), sizeof(Message));
      if (message.header.kind != Message::kKind || message.header.request != request) continue;
      fds_ = std::move(it->fds);
      pipe_->to_tenant.erase(it);
      return message;
    }
    return std::nullopt;
  }
  std::vector<UniqueFd>& fds() { return fds_; }

  // Sends Hello like a shim of this version.
  std::optional<wire::HelloReply> Hello(uint32_t oldest = wire::kOldestWireVersion,
                                        uint32_t newest = wire::kWireVersion) {
    wire::Hello hello{};
    hello.magic = wire::kControlMagic;
    hello.oldest_version = oldest;
    hello.newest_version = newest;
    return Await<wire::HelloReply>(Send(hello));
  }
  // Returns true if the daemon accepts it.
  bool Greet(uint32_t oldest = wire::kOldestWireVersion, uint32_t newest = wire::kWireVersion) {
    const auto reply = Hello(oldest, newest);
    return reply.has_value() && reply->status.error == wire::ErrorClass::kNone;
  }

  std::optional<wire::UniqueId> GetUniqueId() {
    const auto reply = Await<wire::UniqueIdReply>(Send(wire::GetUniqueId{}));
    if (!reply.has_value()) return std::nullopt;
    wire::UniqueId id;
    std::memcpy(&id, reply->unique_id, sizeof(id));
    return id;
  }

 private:
  SimWorld& world_;
  std::shared_ptr<SimPipe> pipe_;
  std::vector<UniqueFd> fds_;
  uint64_t last_request_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_FRONTEND_RAW_TENANT_H_

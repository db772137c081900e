// The connection of this process to the daemon of its host.
//
// One thread per connection sleeps on the socket: it hands replies to whoever waits for them, and
// when the daemon dies it publishes the failure and ends every caller's wait; streams stay blocked.
// It is not part of the hot path, which uses the regions and the doorbell.
#ifndef MCCS_SHIM_DAEMON_CLIENT_H_
#define MCCS_SHIM_DAEMON_CLIENT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/shared_region.h"
#include "base/unique_fd.h"
#include "proto/shim_control.h"

namespace mccs::shim {

// One message from the daemon, with the descriptors that came along.
struct Reply {
  alignas(8) unsigned char bytes[wire::kMaxMessageBytes];
  size_t size = 0;
  UniqueFd fds[wire::kMaxMessageFds];

  // The reply as the message that it has to be; kInternal if it is another, the reply's own error
  // if it carries one.
  template <typename Message>
  absl::StatusOr<Message> As() const;
};

// THREAD: any, unless said otherwise.
class DaemonClient {
 public:
  // Connects and greets. Errors: kUnavailable, naming the socket and how to start the daemon;
  // kFailedPrecondition when daemon and library speak no common version. Takes at most
  // kGreetingTime.
  static constexpr std::chrono::milliseconds kGreetingTime{900};
  static absl::StatusOr<std::unique_ptr<DaemonClient>> Connect(const std::string& socket_path);

  // REQUIRES: nobody waits for a reply any more.
  ~DaemonClient();

  // Sends a request, and a descriptor where there is one; its number names it in Await, Poll,
  // Cancel and Forget. Every number must end in one of them. A daemon that reads so little that a
  // message finds no place in the socket for kSendTime counts as dead.
  static constexpr std::chrono::milliseconds kSendTime{1000};
  template <typename Message>
  absl::StatusOr<uint64_t> Send(Message message, int fd = -1) {
    message.header = {Message::kKind, sizeof(Message), 0};
    return SendBytes(&message, sizeof(Message), fd);
  }

  // Sends a message that is not answered. A daemon that is dead does not need to hear it.
  template <typename Message>
  void Tell(Message message) {
    message.header = {Message::kKind, sizeof(Message), 0};
    if (!dead()) (void)SendWhole(&message, sizeof(Message), -1);
  }

  // Blocks until the reply is there, the request is cancelled, the daemon dies (kUnavailable) or
  // the time is over (kDeadlineExceeded; the reply is then dropped when it comes).
  absl::StatusOr<Reply> Await(uint64_t request,
                              std::optional<std::chrono::milliseconds> limit = std::nullopt);

  // Waits for an answer and takes it from nobody. False when the time is over: it may come yet.
  bool WaitFor(uint64_t request, std::chrono::milliseconds limit);

  // As Await, without blocking: nullopt while there is no answer.
  std::optional<absl::StatusOr<Reply>> Poll(uint64_t request);

  // Answers the request ourselves, if nobody has: whoever waits gets `why`.
  void Cancel(uint64_t request, absl::Status why);

  // The answer does not matter.
  void Forget(uint64_t request);

  // Tells the daemon that this communicator has new records. Lock-free; a system call only when the
  // daemon sleeps.
  void Notify(uint32_t comm_handle);

  // Regions to fail and release when the daemon dies. If it is dead already, that happens at once.
  void Watch(wire::CommRegion* region);
  void Unwatch(wire::CommRegion* region);
  // A watched communicator has failed, and its streams may be blocked.
  bool BlocksStreams();

  // What the reader does besides: called after every message and when the time has come that it
  // answered last; nothing: there is none. It may send and poll, but wait for nothing. Null ends
  // it; then none is running any more.
  using Chore = std::function<std::optional<std::chrono::steady_clock::time_point>()>;
  void SetChore(Chore chore);

  bool dead() const { return dead_.load(std::memory_order_acquire); }

  // In a forked child: closes its copies of the descriptors, so that the daemon sees the parent's
  // death. The object must not be used or destroyed there afterwards.
  void CloseInForkedChild();

 private:
  explicit DaemonClient(std::string socket_path) : socket_path_(std::move(socket_path)) {}

  absl::Status Dial();
  absl::Status Greet();
  absl::StatusOr<uint64_t> SendBytes(void* message, size_t bytes, int fd);
  // False: the connection is broken, and all know it.
  bool SendWhole(void* message, size_t bytes, int fd);
  absl::StatusOr<Reply> Receive();
  void ReadUntilDead();
  // Returns when a message can be read.
  void DoChoresUntilReadable();
  void Deliver(Reply reply);
  void Die(const absl::Status& why);

  const std::string socket_path_;
  UniqueFd socket_;
  UniqueFd doorbell_;
  SharedRegion session_memory_;
  wire::SessionRegion* session_ = nullptr;
  std::thread reader_;

  std::mutex chore_mutex_;  // taken before mutex_
  Chore chore_;             // guarded by chore_mutex_

  std::atomic<bool> dead_{false};  // set under mutex_; release, pairs with dead()
  std::mutex mutex_;
  std::condition_variable answered_;
  absl::Status cause_of_death_;  // guarded by mutex_, like all below
  uint64_t next_request_ = 1;
  struct Pending {
    bool forgotten = false;
    std::optional<absl::StatusOr<Reply>> answer;
  };
  std::unordered_map<uint64_t, Pending> pending_;
  std::vector<wire::CommRegion*> watched_;
};

namespace internal {
// Status of a reply's `status` member, and the check of its kind and size.
absl::Status CheckReply(const Reply& reply, wire::MessageKind kind, size_t bytes);
absl::Status StatusOfReply(const wire::ReplyStatus& status);
}  // namespace internal

template <typename Message>
absl::StatusOr<Message> Reply::As() const {
  if (absl::Status status = internal::CheckReply(*this, Message::kKind, sizeof(Message));
      !status.ok()) {
    return status;
  }
  Message message;
  __builtin_memcpy(&message, bytes, sizeof(Message));
  if (absl::Status status = internal::StatusOfReply(message.status); !status.ok()) return status;
  return message;
}

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DAEMON_CLIENT_H_

// The connection of this process to the daemon of its host.
//
// One thread per connection blocks on the socket and delivers replies to the callers that wait for
// them. When the daemon dies, this thread publishes the failure and ends every caller's wait;
// streams stay blocked. It is not part of the hot path, which uses the regions and the doorbell.
#ifndef MCCS_SHIM_DAEMON_DAEMON_CLIENT_H_
#define MCCS_SHIM_DAEMON_DAEMON_CLIENT_H_

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
#include "shim/cuda/command_kernel.h"

namespace mccs::shim {

// One message from the daemon, with its descriptors.
struct Reply {
  alignas(8) unsigned char bytes[wire::kMaxMessageBytes];
  size_t size = 0;
  UniqueFd fds[wire::kMaxReplyFds];

  // The reply as a message of the expected type. Errors: kInternal if it has another type; the
  // reply's own error if it contains one.
  template <typename Message>
  absl::StatusOr<Message> As() const;
};

// Descriptors that a message brings, in this order; −1: none.
struct MessageDescriptors {
  int first = -1;
  int second = -1;
};

// THREAD: any, unless stated otherwise.
class DaemonClient {
 public:
  // Connects and exchanges greetings. Errors: kUnavailable, with the socket and how to start the
  // daemon; kFailedPrecondition if daemon and library have no common version. Takes at most
  // kGreetingTimeout.
  static constexpr std::chrono::milliseconds kGreetingTimeout{900};
  static absl::StatusOr<std::unique_ptr<DaemonClient>> Connect(const std::string& socket_path);

  // REQUIRES: no thread waits for a reply.
  ~DaemonClient();

  // Sends a request with descriptors, and returns its number. Every number must be passed to one of
  // Await, Poll, Cancel and IgnoreReply. A daemon whose socket stays full for kSendTimeout counts as
  // dead.
  static constexpr std::chrono::milliseconds kSendTimeout{1000};
  template <typename Message>
  absl::StatusOr<uint64_t> Send(Message message, const MessageDescriptors& descriptors = {}) {
    message.header = {Message::kKind, sizeof(Message), 0};
    return SendBytes(&message, sizeof(Message), descriptors);
  }

  // Sends a message without a reply. Does nothing if the daemon is dead.
  template <typename Message>
  void SendOneWay(Message message) {
    message.header = {Message::kKind, sizeof(Message), 0};
    if (!dead()) (void)SendWhole(&message, sizeof(Message), {});
  }

  // Blocks until the reply arrives, the request is cancelled, the daemon dies (kUnavailable) or
  // `limit` passes (kDeadlineExceeded; a later reply is dropped).
  absl::StatusOr<Reply> Await(uint64_t request,
                              std::optional<std::chrono::milliseconds> limit = std::nullopt);

  // Waits for a reply without taking it. False when `limit` passes: the reply may still arrive.
  bool WaitFor(uint64_t request, std::chrono::milliseconds limit);

  // As Await, without blocking: nullopt while there is no reply.
  std::optional<absl::StatusOr<Reply>> Poll(uint64_t request);

  // Answers the request locally, unless the reply has arrived: the waiting caller gets `why`.
  void Cancel(uint64_t request, absl::Status why);

  // The reply is not needed.
  void IgnoreReply(uint64_t request);

  // Notifies the daemon that this communicator has new records. Lock-free; a system call only when
  // the daemon sleeps.
  void Notify(uint32_t comm_handle);

  // Regions to fail and release when the daemon dies; at once if it is dead already.
  void Watch(wire::CommRegion* region);
  void Unwatch(wire::CommRegion* region);
  // Whether a watched communicator has failed, so that its streams may be blocked.
  bool MayBlockStreams();

  // Sets a callback of the reader thread, called after every message and at the time that its last
  // call returned (nullopt: no timer). It may send and poll, but must not block. Null removes it;
  // on return it is not running.
  using ReaderCallback = std::function<std::optional<std::chrono::steady_clock::time_point>()>;
  void SetReaderCallback(ReaderCallback callback);

  // Sets the receiver of MapMemory, UnmapMemory, CopyMemory and DropCopy, called by the reader
  // thread. Null removes it; on return it is not running. Without one such messages are ignored.
  using MemoryHandler = std::function<void(Reply message)>;
  void SetMemoryHandler(MemoryHandler handler);

  // Kernels run the calls: the daemon maps no GPU memory, and messages to and from other hosts are
  // staged in host memory.
  bool uses_kernels() const { return uses_kernels_; }

  // NICs of the host reach memory on GPUs by dma-bufs.
  bool wants_dma_bufs() const { return wants_dma_bufs_; }

  // The image of the kernel that runs plans.
  const KernelImageFile& kernel_image() const { return kernel_image_; }

  bool dead() const { return dead_.load(std::memory_order_acquire); }

  // In a forked child: closes its copies of the descriptors, so that the daemon detects the
  // parent's death. Afterwards the child must not use or destroy the object.
  void CloseInForkedChild();

 private:
  explicit DaemonClient(std::string socket_path) : socket_path_(std::move(socket_path)) {}

  absl::Status Dial();
  absl::Status Greet();
  absl::StatusOr<uint64_t> SendBytes(void* message, size_t bytes,
                                     const MessageDescriptors& descriptors);
  // False: the connection is broken, and this is published.
  bool SendWhole(void* message, size_t bytes, const MessageDescriptors& descriptors);
  absl::StatusOr<Reply> Receive();
  void ReadUntilDead();
  // Runs the callback until a message can be read.
  void RunCallbackUntilReadable();
  void Deliver(Reply reply);
  void MarkDead(const absl::Status& why);
  // Fails it with death_status_. REQUIRES: mutex_ held, dead.
  void FailRegion(wire::CommRegion& region) const;

  const std::string socket_path_;
  bool uses_kernels_ = false;
  bool wants_dma_bufs_ = false;
  KernelImageFile kernel_image_;
  UniqueFd socket_;
  UniqueFd doorbell_;
  SharedRegion session_memory_;
  wire::SessionRegion* session_ = nullptr;
  std::thread reader_;

  std::mutex callback_mutex_;     // taken before mutex_
  ReaderCallback callback_;       // guarded by callback_mutex_
  MemoryHandler memory_handler_;  // likewise

  std::atomic<bool> dead_{false};  // set under mutex_; release, pairs with dead()
  std::mutex mutex_;
  std::condition_variable answered_;
  absl::Status death_status_;  // guarded by mutex_, like all below
  uint64_t next_request_ = 1;
  struct Pending {
    bool ignored = false;
    std::optional<absl::StatusOr<Reply>> answer;
  };
  std::unordered_map<uint64_t, Pending> pending_;
  std::vector<wire::CommRegion*> watched_;
};

namespace internal {
// Checks a reply's kind and size, and returns the status of its `status` member.
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

#endif  // MCCS_SHIM_DAEMON_DAEMON_CLIENT_H_

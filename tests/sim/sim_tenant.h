// A tenant process of the simulated world. It speaks proto/shim_control.h over a queue and posts
// work into the shared regions as the shim does, and never blocks.
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_SIM_TENANT_H_
#define MCCS_TESTS_SIM_SIM_TENANT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/shared_region.h"
#include "kernels/host_kernel.h"
#include "kernels/kernel_region.h"
#include "proto/shim_control.h"
#include "proto/unique_id.h"
#include "service/frontend/tenant_channel.h"
#include "tests/unit/device/local_importer.h"

namespace mccs {

// The two queues of an in-memory control connection.
struct SimPipe {
  std::deque<std::vector<std::byte>> to_daemon;
  // One for each MapChunk, and each RegisterBuffer with a dma-buf, in `to_daemon`, in order.
  std::deque<UniqueFd> descriptors;
  struct Answer {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
  };
  std::deque<Answer> to_tenant;
  bool dead = false;           // the process has ended
  size_t capacity = 1u << 20;  // unread answers
};

class SimTenantListener final : public TenantListener {
 public:
  // Connects a process to the daemon.
  std::shared_ptr<SimPipe> Connect(const TenantIdentity& identity);
  absl::StatusOr<std::unique_ptr<TenantChannel>> Accept() override;

 private:
  std::deque<std::unique_ptr<TenantChannel>> waiting_;
};

// One rank of a communicator in a process.
struct SimRank {
  uint64_t init_request = 0;
  bool answered = false;
  wire::ReplyStatus status{};
  uint32_t handle = 0;
  CommId id;
  int rank = -1;  // as the daemon answered
  int ranks = 0;
  std::vector<int> on_host;
  bool stages_collectives = false;
  std::string staged_text;
  SharedRegion memory;
  SharedRegion kernel_memory;  // KernelRegion, if kernels run plans
  // Kernels of the streams and captured slots in use.
  std::map<kernels::CommandQueue*, std::unique_ptr<kernels::HostKernel>> kernels;
  uint64_t posted = 0;       // number of calls
  uint64_t windows = 0;      // number of registered windows
  uint64_t end_request = 0;  // Destroy or Abort
  uint64_t capture_request = 0;
  bool captured = false;  // capture_request is answered
  uint64_t close_request = 0;
  bool closed = false;  // close_request is answered
  wire::ReplyStatus capture_status{};
  bool ended = false;  // end_request is answered

  kernels::KernelRegion* kernel_region() const {
    return reinterpret_cast<kernels::KernelRegion*>(kernel_memory.data());
  }
  wire::CommRegion& region() const { return *reinterpret_cast<wire::CommRegion*>(memory.data()); }
  uint64_t done() const { return region().done.value.load(); }
  bool failed() const { return region().failure.error.load() != 0; }
  std::string failure() const { return region().failure.text; }
};

// A call as the shim derives it from an NCCL call. Buffers are registered ids.
struct SimCall {
  OpKind kind = OpKind::kAllReduce;
  DataType type = DataType::kFloat32;
  ReduceOp redop = ReduceOp::kSum;
  int root = 0;  // or peer
  uint64_t count = 0;
  uint8_t flags = wire::kNoFlags;
  uint32_t stream = 0;  // ready slot of the call's stream
  wire::BufferRef send{};
  wire::BufferRef recv{};
  uint64_t scalar = 0;  // kPreMulSum
  wire::BufferRef scalar_buffer{};
  CallOptions options{};
  uint32_t signal = 0;  // this and the following: one-sided calls
  uint64_t window = 0;
  uint64_t window_offset = 0;  // bytes
};

// The ready slot and value of a captured group on one stream.
struct SimCaptureSlot {
  uint64_t capture = 0;
  uint32_t slot = 0;
  uint32_t group = 1;  // within the slot
};

// The id of communicator `comm_id`, with its rendezvous at this address and port.
wire::UniqueId MakeUniqueId(const std::string& host, uint16_t port, uint64_t comm_id);
// The library's id for NCCL_COMM_ID=name:5000 on a host where the name resolves to `address`.
wire::UniqueId MakeEnvironmentId(const std::string& address, bool resolved = true);
// The request of one rank; its GPU's UUID is derived from the rank.
wire::CommInit MakeCommInit(const wire::UniqueId& id, int ranks, int rank);

class SimTenant {
 public:
  // Connects to the daemon of `tenant_listener`, whose device imports memory through `importer`.
  SimTenant(SimTenantListener& tenant_listener, LocalImporter& importer,
            const TenantIdentity& identity);

  // Reads the daemon's answers, and runs kernels. Call between turns of the world. Returns true if
  // a kernel moved.
  bool Poll();

  bool connected() const { return session_.data() != nullptr; }
  // Requests a unique id; it is in unique_id() once has_unique_id().
  void RequestUniqueId();
  bool has_unique_id() const { return unique_id_.magic != 0; }
  const wire::UniqueId& unique_id() const { return unique_id_; }

  // Registers `bytes` bytes at `memory`, as memory on a GPU; if the daemon does not map that, also
  // as host memory, which messages to other hosts use: the copies of the library are left
  // out. BufferAt: the id once answered; 0 if pending or rejected.
  void Register(std::byte* memory, uint64_t bytes);
  uint32_t BufferAt(const std::byte* memory) const;
  bool HasAnswerFor(const std::byte* memory) const { return buffers_.contains(memory); }
  // Why the daemon rejected a buffer, the last time; empty: it has rejected none.
  const std::string& rejection() const { return rejection_; }

  // Releases the buffer; IsReleased: whether the daemon has answered the release.
  void Release(const std::byte* memory);
  bool IsReleased(const std::byte* memory) const { return released_.contains(memory); }

  // Its GPU exports no dma-bufs, for this reason.
  void HasNoDmaBufs(const std::string& why) { no_dma_bufs_ = why; }
  // The daemon asked for dma-bufs.
  bool wants_dma_bufs() const { return wants_dma_bufs_; }
  // Puts into windows that the daemon asked it to copy.
  uint64_t copies_requested() const { return copies_requested_; }

  // Registered memory that later calls of Init name as the probe of the GPU.
  void SetProbe(const std::byte* memory) { probe_ = memory; }
  // How it answers when the daemon asks it to map memory.
  enum class MapAnswer : uint8_t { kAddress, kError, kNone };
  void AnswerMapsWith(MapAnswer answer) { map_answer_ = answer; }
  uint64_t maps_requested() const { return maps_requested_; }
  // From now on it makes no copies that the daemon asks for, and does not answer, until
  // AnswerHeldCopies, which answers as if they were made.
  void HoldCopies() { holds_copies_ = true; }
  void AnswerHeldCopies();
  // The same, and makes them. REQUIRES: their communicator has not ended.
  void MakeHeldCopies();
  size_t held_copies() const { return held_copies_.size(); }

  // MCCS_WARN_AFTER of the communicators that it inits from now on.
  void SetWarnAfter(uint32_t ms) { warn_after_ms_ = ms; }
  SimRank& Init(const wire::UniqueId& id, int ranks, int rank, uint32_t timeout_ms = 0);
  SimRank& Split(const SimRank& parent, int color, int key);
  SimRank& Shrink(const SimRank& parent, const std::vector<int>& excluded, bool abort = false);
  SimRank& Grow(const SimRank& parent, int ranks);
  void RequestGrowId(const SimRank& parent);
  void Revoke(SimRank& rank);
  void Suspend(SimRank& rank, bool suspended = true);
  // Requests an estimate; estimates() has the valid answers.
  void Estimate(const SimRank& rank, OpKind kind, int root, uint64_t count);
  const std::vector<double>& estimates() const { return estimates_; }
  // Posts a call. `reached`: its stream has reached the call; otherwise MarkReached follows, for
  // this call or a later one.
  void Post(SimRank& rank, const SimCall& call, bool reached = true);
  static void MarkReached(SimRank& rank, uint32_t stream, uint64_t call) {
    rank.region().ready[stream].value.store(call);
  }
  // Captures a group. Replay does what the stream of a replay does, any number of times.
  void Capture(SimRank& rank, const SimCaptureSlot& place, const std::vector<SimCall>& calls);
  void ReleaseCapture(SimRank& rank, uint64_t capture);
  static void Replay(SimRank& rank, const SimCaptureSlot& place);
  static bool Replayed(const SimRank& rank, const SimCaptureSlot& place);
  // Registers the rank's next window (the answer is ignored); deregisters one.
  void OpenWindow(SimRank& rank, const wire::BufferRef& memory, uint64_t bytes);
  void CloseWindow(SimRank& rank, uint64_t number);
  void Abort(SimRank& rank);
  void Destroy(SimRank& rank);
  // Ends the process at once, as by SIGKILL.
  void Kill() { pipe_->dead = true; }

 private:
  template <typename Message>
  uint64_t Send(Message message);
  void OnReply(SimPipe::Answer answer);
  void MapMemory(SimPipe::Answer answer);
  void Answer(const wire::CopyMemory& request);
  static void AddKernel(SimRank& rank, kernels::CommandQueue& queue);
  bool RunKernels();

  LocalImporter& importer_;
  const pid_t process_;
  std::shared_ptr<SimPipe> pipe_;
  SharedRegion session_;
  std::map<uint64_t, SharedRegion> mapped_;  // the daemon's memory, by its number
  const std::byte* probe_ = nullptr;
  MapAnswer map_answer_ = MapAnswer::kAddress;
  uint64_t maps_requested_ = 0;
  bool holds_copies_ = false;
  std::vector<wire::CopyMemory> held_copies_;
  uint64_t copies_requested_ = 0;
  bool wants_dma_bufs_ = false;
  std::string no_dma_bufs_;
  uint32_t warn_after_ms_ = 0;
  uint64_t last_request_ = 0;
  wire::UniqueId unique_id_{};
  struct Registration {
    const std::byte* memory;
    bool of_host;
  };
  void RegisterAs(std::byte* memory, uint64_t bytes, bool of_host);
  void OnRegistered(const wire::RegisterReply& reply);
  // The record of a call, with memory that the daemon or a kernel can use.
  wire::WorkRecord RecordFor(const SimRank& rank, const SimCall& call) const;

  std::vector<std::span<std::byte>> unregistered_;  // until it is connected
  std::map<uint64_t, Registration> registering_;
  std::map<const std::byte*, std::map<bool, uint32_t>> registered_;  // until all are answered
  std::map<uint32_t, uint32_t> of_host_;                             // by the id of the same memory
  std::map<const std::byte*, uint32_t> buffers_;
  std::string rejection_;
  std::map<uint64_t, const std::byte*> releasing_;
  std::map<const std::byte*, int> unreleased_;  // releases that are not answered
  std::set<const std::byte*> released_;
  std::vector<double> estimates_;
  std::deque<SimRank> ranks_;  // stable addresses
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_TENANT_H_

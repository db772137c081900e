#include "tests/sim/sim_tenant.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace mccs {
namespace {

class SimChannel final : public TenantChannel {
 public:
  SimChannel(std::shared_ptr<SimPipe> pipe, TenantIdentity identity)
      : pipe_(std::move(pipe)), identity_(std::move(identity)) {}

  bool HasInput() override { return pipe_->dead || !pipe_->to_daemon.empty(); }
  absl::StatusOr<bool> Receive(TenantMessage* message) override {
    if (pipe_->dead) return absl::UnavailableError("the process has ended");
    if (pipe_->to_daemon.empty()) return false;
    const std::vector<std::byte>& bytes = pipe_->to_daemon.front();
    message->size = std::min(bytes.size(), message->bytes.size());
    std::copy_n(bytes.begin(), message->size, message->bytes.begin());
    wire::MessageHeader header{};
    std::memcpy(&header, message->bytes.data(), std::min(message->size, sizeof(header)));
    const bool has_descriptor =
        header.kind == wire::MessageKind::kMapChunk ||
        (header.kind == wire::MessageKind::kRegisterBuffer &&
         reinterpret_cast<const wire::RegisterBuffer*>(message->bytes.data())->has_dma_buf != 0);
    if (has_descriptor && !pipe_->descriptors.empty()) {
      message->fds[0] = std::move(pipe_->descriptors.front());
      pipe_->descriptors.pop_front();
    }
    pipe_->to_daemon.pop_front();
    return true;
  }

  absl::Status Send(std::span<const std::byte> message, std::span<const int> fds) override {
    if (pipe_->to_tenant.size() >= pipe_->capacity) {
      return absl::ResourceExhaustedError("the process does not read the replies to its requests");
    }
    SimPipe::Answer& answer = pipe_->to_tenant.emplace_back();
    answer.bytes.assign(message.begin(), message.end());
    for (int fd : fds) answer.fds.emplace_back(dup(fd));
    return absl::OkStatus();
  }

  int doorbell() const override { return -1; }  // The world polls every daemon.
  const TenantIdentity& identity() const override { return identity_; }

 private:
  const std::shared_ptr<SimPipe> pipe_;
  const TenantIdentity identity_;
};

template <typename Message>
Message As(const SimPipe::Answer& answer) {
  Message message;
  MCCS_CHECK(answer.bytes.size() == sizeof(Message));
  std::memcpy(&message, answer.bytes.data(), sizeof(Message));
  return message;
}

wire::WorkRecord RecordOf(const SimCall& call) {
  wire::WorkRecord record{};
  record.record = wire::RecordKind::kOperation;
  record.op = call.kind;
  record.type = call.type;
  record.redop = call.redop;
  record.flags = call.flags;
  record.root_or_peer = call.root;
  record.count = call.count;
  record.send = call.send;
  record.recv = call.recv;
  record.scalar = call.scalar;
  record.scalar_buffer = call.scalar_buffer;
  record.deadline_us = call.options.deadline_us;
  record.priority = call.options.priority;
  record.criticality = call.options.criticality;
  record.signal = call.signal;
  record.window = call.window;
  record.window_offset = call.window_offset;
  return record;
}

SharedRegion MapFirst(SimPipe::Answer& answer) {
  MCCS_CHECK(!answer.fds.empty());
  auto region = SharedRegion::Map(std::move(answer.fds.front()));
  MCCS_CHECK(region.ok());
  return std::move(*region);
}

}  // namespace

std::shared_ptr<SimPipe> SimTenantListener::Connect(const TenantIdentity& identity) {
  auto pipe = std::make_shared<SimPipe>();
  waiting_.push_back(std::make_unique<SimChannel>(pipe, identity));
  return pipe;
}

absl::StatusOr<std::unique_ptr<TenantChannel>> SimTenantListener::Accept() {
  if (waiting_.empty()) return nullptr;
  auto channel = std::move(waiting_.front());
  waiting_.pop_front();
  return channel;
}

SimTenant::SimTenant(SimTenantListener& tenant_listener, LocalImporter& importer,
                     const TenantIdentity& identity)
    : importer_(importer), process_(identity.process), pipe_(tenant_listener.Connect(identity)) {
  wire::Hello hello{};
  hello.magic = wire::kControlMagic;
  hello.oldest_version = wire::kOldestWireVersion;
  hello.newest_version = wire::kWireVersion;
  Send(hello);
}

template <typename Message>
uint64_t SimTenant::Send(Message message) {
  message.header = {.kind = Message::kKind, .bytes = sizeof(Message), .request = ++last_request_};
  const std::byte* bytes = reinterpret_cast<const std::byte*>(&message);
  pipe_->to_daemon.emplace_back(bytes, bytes + sizeof(Message));
  return last_request_;
}

bool SimTenant::Poll() {
  while (!pipe_->to_tenant.empty()) {
    SimPipe::Answer answer = std::move(pipe_->to_tenant.front());
    pipe_->to_tenant.pop_front();
    OnReply(std::move(answer));
  }
  return !pipe_->dead && RunKernels();
}

bool SimTenant::RunKernels() {
  bool moved = false;
  for (SimRank& rank : ranks_) {
    if (rank.ended) continue;
    for (auto& [queue, kernel] : rank.kernels) moved |= kernel->Advance();
  }
  return moved;
}

void SimTenant::AddKernel(SimRank& rank, kernels::CommandQueue& queue) {
  std::unique_ptr<kernels::HostKernel>& kernel = rank.kernels[&queue];
  if (kernel == nullptr) kernel = std::make_unique<kernels::HostKernel>(queue);
}

namespace {

void Make(const wire::CopyMemory& request) {
  std::memcpy(reinterpret_cast<void*>(request.to), reinterpret_cast<const void*>(request.from),
              request.bytes);
}

}  // namespace

void SimTenant::MapMemory(SimPipe::Answer answer) {
  const auto request = As<wire::MapMemory>(answer);
  wire::MemoryMapped message{};
  message.memory = request.memory;
  ++maps_requested_;
  if (map_answer_ == MapAnswer::kNone) return;
  if (map_answer_ == MapAnswer::kError) {
    message.status.error = wire::ErrorClass::kSystem;
    constexpr std::string_view kWhy = "the GPUs have no access to each other";
    kWhy.copy(message.status.text, sizeof(message.status.text) - 1);
  } else if (request.own_address != 0) {
    message.address = request.own_address;
  } else if (request.kind == wire::ExportKind::kHostMemory) {
    mapped_[request.memory] = MapFirst(answer);
    message.address = reinterpret_cast<uint64_t>(mapped_[request.memory].data());
  } else {
    LocalImporter::Handle handle;
    std::copy(std::begin(request.handle), std::end(request.handle), handle.begin());
    message.address = reinterpret_cast<uint64_t>(importer_.AddressOf(handle));
  }
  Send(message);
}

void SimTenant::OnReply(SimPipe::Answer answer) {
  wire::MessageHeader header;
  std::memcpy(&header, answer.bytes.data(), sizeof(header));
  switch (header.kind) {
    case wire::MessageKind::kHelloReply:
      session_ = MapFirst(answer);
      wants_dma_bufs_ = As<wire::HelloReply>(answer).wants_dma_bufs != 0;
      for (const std::span<std::byte> memory : std::exchange(unregistered_, {})) {
        Register(memory.data(), memory.size());
      }
      break;
    case wire::MessageKind::kUniqueIdReply:
      std::memcpy(&unique_id_, As<wire::UniqueIdReply>(answer).unique_id, sizeof(unique_id_));
      break;
    case wire::MessageKind::kRegisterReply:
      OnRegistered(As<wire::RegisterReply>(answer));
      break;
    case wire::MessageKind::kCommInitReply: {
      const auto reply = As<wire::CommInitReply>(answer);
      for (SimRank& rank : ranks_) {
        if (rank.init_request != header.request) continue;
        rank.answered = true;
        rank.status = reply.status;
        rank.handle = reply.comm_handle;
        rank.id = CommId(reply.comm_id);
        rank.rank = reply.rank;
        rank.ranks = reply.ranks;
        rank.on_host.assign(reply.on_host, reply.on_host + reply.local_ranks);
        rank.stages_collectives = reply.stages_collectives != 0;
        rank.staged_text = reply.staged_text;
        if (!answer.fds.empty()) rank.memory = MapFirst(answer);
        if (reply.role != wire::KernelRole::kRunsPlans) continue;
        auto kernel_memory = SharedRegion::Map(std::move(answer.fds.at(1)));
        MCCS_CHECK(kernel_memory.ok());
        rank.kernel_memory = std::move(*kernel_memory);
      }
      break;
    }
    case wire::MessageKind::kDone:
      for (SimRank& rank : ranks_) {
        rank.ended |= rank.end_request == header.request;
        rank.closed |= rank.close_request == header.request;
        if (rank.capture_request != header.request) continue;
        rank.captured = true;
        rank.capture_status = As<wire::Done>(answer).status;
      }
      if (const auto it = releasing_.find(header.request); it != releasing_.end()) {
        if (--unreleased_[it->second] == 0) released_.insert(it->second);
      }
      break;
    case wire::MessageKind::kMapMemory:
      MapMemory(std::move(answer));
      break;
    case wire::MessageKind::kUnmapMemory: {
      wire::MemoryUnmapped message{};
      message.memory = As<wire::UnmapMemory>(answer).memory;
      mapped_.erase(message.memory);
      Send(message);
      break;
    }
    case wire::MessageKind::kCopyMemory: {
      const auto request = As<wire::CopyMemory>(answer);
      ++copies_requested_;
      if (holds_copies_) {
        held_copies_.push_back(request);
        break;
      }
      Make(request);
      Answer(request);
      break;
    }
    case wire::MessageKind::kEstimateReply: {
      const auto reply = As<wire::EstimateReply>(answer);
      if (reply.status.error == wire::ErrorClass::kNone) estimates_.push_back(reply.microseconds);
      break;
    }
    default:
      break;
  }
}

void SimTenant::Answer(const wire::CopyMemory& request) {
  wire::MemoryCopied message{};
  message.copy = request.copy;
  Send(message);
}

void SimTenant::AnswerHeldCopies() {
  holds_copies_ = false;
  for (const wire::CopyMemory& request : std::exchange(held_copies_, {})) Answer(request);
}

void SimTenant::MakeHeldCopies() {
  for (const wire::CopyMemory& request : held_copies_) Make(request);
  AnswerHeldCopies();
}

void SimTenant::RequestUniqueId() { Send(wire::GetUniqueId{}); }

void SimTenant::Register(std::byte* memory, uint64_t bytes) {
  if (!importer_.maps_gpu_memory() && !connected()) {  // the daemon may want dma-bufs
    unregistered_.emplace_back(memory, bytes);
    return;
  }
  RegisterAs(memory, bytes, /*of_host=*/false);
  if (!importer_.maps_gpu_memory()) RegisterAs(memory, bytes, /*of_host=*/true);
}

void SimTenant::RegisterAs(std::byte* memory, uint64_t bytes, bool of_host) {
  wire::RegisterBuffer message{};
  message.kind = wire::ExportKind::kCudaIpc;
  message.bytes = bytes;
  message.address = reinterpret_cast<uint64_t>(memory);
  const auto handle = importer_.Register({memory, bytes}, process_, of_host);
  std::memcpy(message.handle, handle.data(), sizeof(message.handle));
  if (wants_dma_bufs_ && !of_host) {
    // Fake NICs find the memory by its address.
    message.has_dma_buf = no_dma_bufs_.empty() ? 1 : 0;
    no_dma_bufs_.copy(message.no_dma_buf, sizeof(message.no_dma_buf) - 1);
    if (message.has_dma_buf != 0) {
      pipe_->descriptors.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
    }
  }
  registering_[Send(message)] = {memory, of_host};
}

void SimTenant::OnRegistered(const wire::RegisterReply& reply) {
  const Registration& registration = registering_.at(reply.header.request);
  std::map<bool, uint32_t>& ids = registered_[registration.memory];
  ids[registration.of_host] = reply.buffer_id;
  if (reply.buffer_id == 0) rejection_ = reply.status.text;
  const bool all = importer_.maps_gpu_memory() || ids.size() == 2;
  if (!all) return;
  const uint32_t id = ids.at(false);
  if (ids.contains(true)) of_host_[id] = ids.at(true);
  buffers_[registration.memory] = ids.contains(true) && ids.at(true) == 0 ? 0 : id;
  registered_.erase(registration.memory);
}

void SimTenant::Release(const std::byte* memory) {
  const uint32_t id = BufferAt(memory);
  wire::ReleaseBuffer message{};
  if (const auto staged = of_host_.find(id); staged != of_host_.end()) {
    message.buffer_id = staged->second;
    releasing_[Send(message)] = memory;
    ++unreleased_[memory];
  }
  message.buffer_id = id;
  releasing_[Send(message)] = memory;
  ++unreleased_[memory];
}

uint32_t SimTenant::BufferAt(const std::byte* memory) const {
  auto it = buffers_.find(memory);
  return it == buffers_.end() ? 0 : it->second;
}

wire::UniqueId MakeUniqueId(const std::string& host, uint16_t port, uint64_t comm_id) {
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.port = port;
  id.comm_id = comm_id;
  host.copy(id.host, sizeof(id.host) - 1);
  return id;
}

wire::UniqueId MakeEnvironmentId(const std::string& address, bool resolved) {
  wire::UniqueId id = MakeUniqueId(address, 5000, 0xc0ffee);
  id.guessable = 1;
  id.resolved = resolved ? 1 : 0;
  return id;
}

wire::CommInit MakeCommInit(const wire::UniqueId& id, int ranks, int rank) {
  wire::CommInit message{};
  std::memcpy(message.unique_id, &id, sizeof(id));
  message.ranks = ranks;
  message.rank = rank;
  message.device_uuid[0] = static_cast<uint8_t>(rank);
  message.device_uuid[1] = static_cast<uint8_t>(rank >> 8);
  message.options.traffic_class = -1;
  return message;
}

SimRank& SimTenant::Init(const wire::UniqueId& id, int ranks, int rank, uint32_t timeout_ms) {
  wire::CommInit message = MakeCommInit(id, ranks, rank);
  message.options.init_timeout_ms = timeout_ms;
  message.options.warn_after_ms = warn_after_ms_;
  if (probe_ != nullptr) message.probe_buffer = BufferAt(probe_);
  SimRank& state = ranks_.emplace_back();
  state.init_request = Send(message);
  return state;
}

SimRank& SimTenant::Shrink(const SimRank& parent, const std::vector<int>& excluded, bool abort) {
  wire::CommShrink message{};
  message.comm_handle = parent.handle;
  message.options.traffic_class = -1;
  for (int rank : excluded) {
    if (message.count == wire::kExcludedPerMessage) {
      message.flags = wire::kShrinkMore;
      Send(message);
      message.count = 0;
    }
    message.excluded[message.count++] = rank;
  }
  message.flags = 0;
  if (abort) message.flags = wire::kShrinkAbort;
  SimRank& state = ranks_.emplace_back();
  state.init_request = Send(message);
  return state;
}

SimRank& SimTenant::Grow(const SimRank& parent, int ranks) {
  wire::CommGrow message{};
  message.comm_handle = parent.handle;
  message.ranks = ranks;
  message.options.traffic_class = -1;
  SimRank& state = ranks_.emplace_back();
  state.init_request = Send(message);
  return state;
}

void SimTenant::RequestGrowId(const SimRank& parent) {
  unique_id_ = {};
  wire::CommUniqueId message{};
  message.comm_handle = parent.handle;
  Send(message);
}

void SimTenant::Revoke(SimRank& rank) {
  wire::CommRevoke message{};
  message.comm_handle = rank.handle;
  rank.end_request = Send(message);
}

void SimTenant::Suspend(SimRank& rank, bool suspended) {
  wire::CommSuspend message{};
  message.comm_handle = rank.handle;
  message.suspended = suspended ? 1 : 0;
  Send(message);
}

void SimTenant::Estimate(const SimRank& rank, OpKind kind, int root, uint64_t count) {
  wire::Estimate message{};
  message.comm_handle = rank.handle;
  message.op = kind;
  message.type = DataType::kFloat32;
  message.root_or_peer = root;
  message.count = count;
  Send(message);
}

SimRank& SimTenant::Split(const SimRank& parent, int color, int key) {
  wire::CommSplit message{};
  message.comm_handle = parent.handle;
  message.color = color;
  message.key = key;
  message.options.traffic_class = -1;
  SimRank& state = ranks_.emplace_back();
  state.init_request = Send(message);
  return state;
}

wire::WorkRecord SimTenant::RecordFor(const SimRank& rank, const SimCall& call) const {
  wire::WorkRecord record = RecordOf(call);
  const bool copied = rank.kernel_region() != nullptr && !rank.stages_collectives &&
                      std::ranges::binary_search(rank.on_host, call.root);
  if (!HasPeer(call.kind) || copied) return record;
  for (wire::BufferRef* side : {&record.send, &record.recv}) {
    if (const auto staged = of_host_.find(side->id); staged != of_host_.end())
      side->id = staged->second;
  }
  return record;
}

void SimTenant::Post(SimRank& rank, const SimCall& call, bool reached) {
  wire::CommRegion& region = rank.region();
  const uint64_t tail = region.tail.load();
  MCCS_CHECK(tail - region.head.load() < wire::kRingRecords);
  wire::WorkRecord& record = region.records[tail % wire::kRingRecords];
  record = RecordFor(rank, call);
  record.sequence = ++rank.posted;
  record.ready_slot = call.stream;
  record.ready_value = rank.posted;
  if (reached) MarkReached(rank, call.stream, rank.posted);
  if (rank.kernel_region() != nullptr && call.stream < wire::kReadySlots)
    AddKernel(rank, rank.kernel_region()->posted[call.stream]);
  region.tail.store(tail + 1);
  auto* session = reinterpret_cast<wire::SessionRegion*>(session_.data());
  session->dirty[rank.handle / 64].fetch_or(uint64_t{1} << (rank.handle % 64));
}

void SimTenant::Capture(SimRank& rank, const SimCaptureSlot& place,
                        const std::vector<SimCall>& calls) {
  wire::CaptureWork message{};
  message.capture = place.capture;
  message.comm_handle = rank.handle;
  rank.captured = false;
  if (rank.kernel_region() != nullptr && place.slot < wire::kCapturedSlots)
    AddKernel(rank, rank.kernel_region()->captured[place.slot]);
  for (size_t i = 0; i < calls.size(); ++i) {
    message.record = RecordFor(rank, calls[i]);
    message.record.sequence = i + 1;
    message.record.ready_slot = place.slot;
    message.record.ready_value = place.group;
    message.record.flags = i + 1 < calls.size() ? wire::kMoreInGroup : wire::kNoFlags;
    rank.capture_request = Send(message);
  }
}

void SimTenant::ReleaseCapture(SimRank& rank, uint64_t capture) {
  wire::ReleaseCapture message{};
  message.capture = capture;
  message.comm_handle = rank.handle;
  Send(message);
}

void SimTenant::Replay(SimRank& rank, const SimCaptureSlot& place) {
  // Only the low half, as the node of the graph does.
  auto* low = reinterpret_cast<uint32_t*>(&rank.region().captured_done[place.slot].value);
  std::atomic_ref(*low).store(0);
  rank.region().captured_ready[place.slot].store(place.group);
}

bool SimTenant::Replayed(const SimRank& rank, const SimCaptureSlot& place) {
  return static_cast<int64_t>(rank.region().captured_done[place.slot].value.load() - 1) >= 0;
}

void SimTenant::OpenWindow(SimRank& rank, const wire::BufferRef& memory, uint64_t bytes) {
  wire::RegisterWindow message{};
  message.comm_handle = rank.handle;
  message.number = ++rank.windows;
  message.bytes = bytes;
  message.memory = memory;
  Send(message);
}

void SimTenant::CloseWindow(SimRank& rank, uint64_t number) {
  wire::DeregisterWindow message{};
  message.comm_handle = rank.handle;
  message.number = number;
  rank.closed = false;
  rank.close_request = Send(message);
}

void SimTenant::Abort(SimRank& rank) {
  wire::CommAbort message{};
  if (rank.answered) {
    message.comm_handle = rank.handle;
  } else {
    message.init_request = rank.init_request;
  }
  rank.end_request = Send(message);
}

void SimTenant::Destroy(SimRank& rank) {
  wire::CommDestroy message{};
  message.comm_handle = rank.handle;
  rank.end_request = Send(message);
}

}  // namespace mccs

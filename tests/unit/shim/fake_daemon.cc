#include "tests/unit/shim/fake_daemon.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "kernels/kernel_region.h"
#include "tests/unit/shim/fake_daemon_reply.h"

namespace mccs {
namespace {

constexpr int kTickMs = 1;

template <typename Element>
Element Reduce(ReduceOp op, Element a, Element b) {
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    default:
      return a + b;
  }
}

// out[0, count) = reduction over the inputs.
template <typename Element>
void ReduceAll(ReduceOp op, const std::vector<std::byte*>& inputs, size_t count,
               std::vector<std::byte>& out) {
  out.resize(count * sizeof(Element));
  auto* result = reinterpret_cast<Element*>(out.data());
  for (size_t i = 0; i < count; ++i) {
    Element sum = reinterpret_cast<Element*>(inputs[0])[i];
    for (size_t r = 1; r < inputs.size(); ++r) {
      sum = Reduce(op, sum, reinterpret_cast<Element*>(inputs[r])[i]);
    }
    if (op == ReduceOp::kAvg) sum = sum / static_cast<Element>(inputs.size());
    result[i] = sum;
  }
}

ssize_t ReceiveWithFds(int socket, std::vector<unsigned char>& bytes, std::vector<UniqueFd>* fds) {
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * wire::kMaxMessageFds)];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  fds->clear();
  if (cmsghdr* part = received > 0 ? CMSG_FIRSTHDR(&message) : nullptr) {
    for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int sent = -1;
      std::memcpy(&sent, CMSG_DATA(part) + i * sizeof(int), sizeof(sent));
      fds->emplace_back(sent);
    }
  }
  return received;
}

}  // namespace

FakeDaemon::FakeDaemon() {
  listener_.Reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, socket_path_.c_str());
  MCCS_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  MCCS_CHECK(listen(listener_.get(), 16) == 0);
  thread_ = std::thread([this] { Serve(); });
}

FakeDaemon::~FakeDaemon() {
  stop_ = true;
  thread_.join();
}

void FakeDaemon::GiveKernelImage(UniqueFd file, uint64_t bytes, const std::string& architectures) {
  std::lock_guard lock(mutex_);
  uses_kernels_ = true;
  image_ = {.file = std::move(file), .bytes = bytes, .architectures = architectures};
}

std::vector<wire::GpuFailed> FakeDaemon::GpuFailures() {
  std::lock_guard lock(mutex_);
  return gpu_failures_;
}

void FakeDaemon::Die() {
  die_ = true;
  while (die_) std::this_thread::yield();
}

void FakeDaemon::Serve() {
  while (!stop_) {
    std::vector<pollfd> polled;
    if (listener_.valid()) polled.push_back({listener_.get(), POLLIN, 0});
    const size_t first_session = polled.size();
    for (auto& session : sessions_) {
      polled.push_back({session->gone ? -1 : session->socket.get(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kTickMs);
    std::lock_guard lock(mutex_);
    if (die_) {
      listener_.Reset();
      for (auto& session : sessions_) session->socket.Reset();
      for (auto& session : sessions_) {
        session->gone = true;
        session->buffers.clear();
      }
      comms_.clear();
      die_ = false;
      continue;
    }
    const size_t known = sessions_.size();
    for (size_t i = 0; i < known; ++i) {
      if (polled[first_session + i].revents != 0) Read(*sessions_[i]);
    }
    if (first_session == 1 && polled[0].revents != 0) Accept();
    if (!hold_rings_) ServeRings();
    AnswerReleases();
  }
}

void FakeDaemon::Accept() {
  auto session = std::make_unique<Session>();
  session->socket.Reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  session->doorbell.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  session->memory = *SharedRegion::Create("fake-session", sizeof(wire::SessionRegion));
  // Always "asleep": every notification must ring the doorbell.
  reinterpret_cast<wire::SessionRegion*>(session->memory.data())->daemon_asleep = 1;
  sessions_.push_back(std::move(session));
}

void FakeDaemon::Read(Session& session) {
  if (reading_stopped_) return;
  std::vector<unsigned char> bytes(wire::kMaxMessageBytes);
  const ssize_t received = ReceiveWithFds(session.socket.get(), bytes, &session.received);
  if (received == 0) session.gone = true;
  if (received <= 0) return;
  bytes.resize(static_cast<size_t>(received));
  Handle(session, bytes);
}

namespace {
template <typename Message>
Message Open(const std::vector<unsigned char>& bytes) {
  MCCS_CHECK(bytes.size() == sizeof(Message));
  Message message;
  std::memcpy(&message, bytes.data(), sizeof(message));
  return message;
}

}  // namespace

void FakeDaemon::Handle(Session& session, const std::vector<unsigned char>& bytes) {
  wire::MessageHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  MCCS_CHECK(header.bytes == bytes.size());
  ++counts_[header.kind];
  if (ignored_kind_ == header.kind) return;
  const uint64_t request = header.request;
  switch (header.kind) {
    case wire::MessageKind::kHello: {
      MCCS_CHECK(Open<wire::Hello>(bytes).magic == wire::kControlMagic);
      auto reply = ErrorReply<wire::HelloReply>(request_error_);
      reply.version = wire::kWireVersion;
      reply.uses_kernels = maps_gpu_memory_ ? 0 : 1;
      reply.wants_dma_bufs = wants_dma_bufs_ ? 1 : 0;
      std::vector<int> fds{session.memory.fd(), session.doorbell.get()};
      reply.kernel_image_bytes = image_.bytes;
      std::strncpy(reply.kernel_architectures, image_.architectures.c_str(),
                   sizeof(reply.kernel_architectures) - 1);
      if (image_.file.valid()) fds.push_back(image_.file.get());
      return Answer(session, request, reply, fds);
    }
    case wire::MessageKind::kGetUniqueId: {
      auto reply = ErrorReply<wire::UniqueIdReply>(request_error_);
      wire::UniqueId id{};
      id.magic = wire::kUniqueIdMagic;
      id.version = wire::kWireVersion;
      id.comm_id = next_comm_id_++;
      std::memcpy(reply.unique_id, &id, sizeof(id));
      return Answer(session, request, reply);
    }
    case wire::MessageKind::kRegisterBuffer:
      return OnRegister(session, Open<wire::RegisterBuffer>(bytes));
    case wire::MessageKind::kMemoryCopied:
      copied_ = Open<wire::MemoryCopied>(bytes);
      copy_answers_.push_back(*copied_);
      break;
    case wire::MessageKind::kMemoryUnmapped:
      return;
    case wire::MessageKind::kMemoryMapped:
      mapped_ = Open<wire::MemoryMapped>(bytes);
      break;
    case wire::MessageKind::kReleaseBuffer:
      session.releasing[Open<wire::ReleaseBuffer>(bytes).buffer_id] = request;
      break;
    case wire::MessageKind::kReserveRange:
      return OnReserve(session, Open<wire::ReserveRange>(bytes));
    case wire::MessageKind::kMapChunk:
      return OnMapChunk(session, Open<wire::MapChunk>(bytes));
    case wire::MessageKind::kUnmapChunks:
      return OnUnmapChunks(session, Open<wire::UnmapChunks>(bytes));
    case wire::MessageKind::kCommInit:
      return OnInit(session, Open<wire::CommInit>(bytes));
    case wire::MessageKind::kCaptureWork:
      return OnCaptureWork(session, Open<wire::CaptureWork>(bytes));
    case wire::MessageKind::kReleaseCapture:
      return OnReleaseCapture(session, Open<wire::ReleaseCapture>(bytes));
    case wire::MessageKind::kRegisterWindow:
      return OnRegisterWindow(session, Open<wire::RegisterWindow>(bytes));
    case wire::MessageKind::kDeregisterWindow:
    case wire::MessageKind::kCommSuspend:
      return Answer(session, request, ErrorReply<wire::Done>(request_error_));
    case wire::MessageKind::kCommShrink:
      return OnShrink(session, Open<wire::CommShrink>(bytes));
    case wire::MessageKind::kCommGrow:
      return OnGrow(session, Open<wire::CommGrow>(bytes));
    case wire::MessageKind::kCommUniqueId: {
      auto reply = ErrorReply<wire::UniqueIdReply>(request_error_);
      const wire::UniqueId id = GrowId();
      std::memcpy(reply.unique_id, &id, sizeof(id));
      return Answer(session, request, reply);
    }
    case wire::MessageKind::kGpuFailed:
      gpu_failures_.push_back(Open<wire::GpuFailed>(bytes));
      return;
    case wire::MessageKind::kCommRevoke:
      return OnRevoke(session, Open<wire::CommRevoke>(bytes));
    case wire::MessageKind::kCommSplit:
      return OnSplit(session, Open<wire::CommSplit>(bytes));
    case wire::MessageKind::kCommAbort:
      return OnAbort(session, Open<wire::CommAbort>(bytes));
    case wire::MessageKind::kCommDestroy:
      return OnDestroy(session, Open<wire::CommDestroy>(bytes));
    case wire::MessageKind::kEstimate: {
      auto reply = ErrorReply<wire::EstimateReply>(request_error_);
      reply.microseconds = static_cast<double>(Open<wire::Estimate>(bytes).count);
      return Answer(session, request, reply);
    }
    default:
      MCCS_CHECK(false);
  }
}

void FakeDaemon::OnInit(Session& session, const wire::CommInit& message) {
  last_init_ = message;
  if (request_error_ != wire::ErrorClass::kNone) {
    Answer(session, message.header.request, ErrorReply<wire::CommInitReply>(request_error_));
    return;
  }
  wire::UniqueId id;
  std::memcpy(&id, message.unique_id, sizeof(id));
  auto& joins = joining_[id.comm_id];
  joins.push_back({&session, message.header.request, message.rank, message.ranks});
  if (joins.size() < static_cast<size_t>(message.ranks)) return;
  Admit(joins);
  joining_.erase(id.comm_id);
}

void FakeDaemon::Admit(std::vector<Join>& joins) {
  auto comm = std::make_unique<Comm>();
  for (Join& join : joins) {
    auto member = std::make_unique<Member>();
    member->session = join.session;
    member->handle = join.session->next_comm++;
    member->rank = join.rank;
    member->memory = *SharedRegion::Create("fake-comm", sizeof(wire::CommRegion));
    member->region().header.magic = wire::kFencePageMagic;
    member->region().header.bytes = member->memory.bytes();
    wire::CommInitReply reply{};
    reply.comm_handle = member->handle;
    reply.rank = join.rank;
    reply.ranks = join.ranks;
    reply.role = role_;
    for (const int rank : on_host_) reply.on_host[reply.local_ranks++] = rank;
    reply.stages_collectives = staged_.empty() ? 0 : 1;
    staged_.copy(reply.staged_text, sizeof(reply.staged_text) - 1);
    std::vector<int> fds{member->memory.fd()};
    if (uses_kernels_) {
      member->kernels = *SharedRegion::Create("fake-kernels", sizeof(kernels::KernelRegion));
      auto& region = *reinterpret_cast<kernels::KernelRegion*>(member->kernels.data());
      region.header = {.magic = wire::kFencePageMagic, .bytes = member->kernels.bytes()};
      reply.role = wire::KernelRole::kRunsPlans;
      fds.push_back(member->kernels.fd());
    }
    Answer(*join.session, join.request, reply, fds);
    comm->members[member->rank] = std::move(member);
  }
  comms_.push_back(std::move(comm));
}

std::pair<FakeDaemon::Comm*, FakeDaemon::Member*> FakeDaemon::Find(Session& session,
                                                                   uint32_t handle) {
  for (auto& comm : comms_) {
    for (auto& [rank, member] : comm->members) {
      if (member->session == &session && member->handle == handle)
        return {comm.get(), member.get()};
    }
  }
  MCCS_CHECK(false);
}

void FakeDaemon::OnAbort(Session& session, const wire::CommAbort& message) {
  if (message.init_request != 0) {
    for (auto& [id, joins] : joining_) {
      std::erase_if(joins, [&](const Join& join) {
        return join.session == &session && join.request == message.init_request;
      });
    }
    for (auto& comm : comms_) {
      for (auto& [number, calls] : comm->splits) {
        std::erase_if(calls, [&](const auto& call) {
          return call.second.header.request == message.init_request;
        });
      }
    }
  } else {
    for (auto& comm : comms_) {
      for (auto& [rank, member] : comm->members) {
        if (member->session != &session || member->handle != message.comm_handle) continue;
        member->gone = true;
      }
    }
  }
  Answer(session, message.header.request, wire::Done{});
}

void FakeDaemon::OnDestroy(Session& session, const wire::CommDestroy& message) {
  for (auto& comm : comms_) {
    for (auto& [rank, member] : comm->members) {
      if (member->session == &session && member->handle == message.comm_handle && !member->gone) {
        member->destroy_request = message.header.request;
      }
    }
  }
}

// ---- Rings -----------------------------------------------------------------------------------

void FakeDaemon::ServeRings() {
  for (auto& comm : comms_) {
    for (auto& [rank, member] : comm->members) {
      if (!member->gone) TakeRecords(*member);
    }
    while (RunOne(*comm) || RunCaptured(*comm)) {
    }
    for (auto& [rank, member] : comm->members) {
      if (member->destroy_request == 0 || !member->posted.empty() || member->gone) continue;
      member->gone = true;
      Answer(*member->session, member->destroy_request, wire::Done{});
    }
  }
}

void FakeDaemon::TakeRecords(Member& member) {
  auto* session = reinterpret_cast<wire::SessionRegion*>(member.session->memory.data());
  wire::CommRegion& region = member.region();
  const uint64_t tail = region.tail.load();
  if (tail == member.head) return;
  // A real daemon would never see new records without the dirty bit.
  const uint64_t bit = uint64_t{1} << (member.handle % 64);
  if ((session->dirty[member.handle / 64].load() & bit) == 0) return;
  session->dirty[member.handle / 64].fetch_and(~bit);
  for (const uint64_t now = region.tail.load(); member.head < now; ++member.head) {
    const wire::WorkRecord record = region.records[member.head % wire::kRingRecords];
    records_[member.rank].push_back(record);
    member.posted.push_back(record);
  }
  region.head.store(member.head);
}

// Whether the ready fences of the fence records in front and of the next operation are reached.
bool FakeDaemon::Ready(Member& member) {
  for (const wire::WorkRecord& record : member.posted) {
    if (record.ready_slot != wire::kNoReadySlot &&
        member.region().ready[record.ready_slot].value.load() < record.ready_value) {
      return false;
    }
    if (record.record == wire::RecordKind::kOperation) return true;
  }
  return false;
}

bool FakeDaemon::IsNamed(const Session& session, uint32_t buffer) {
  const auto names = [buffer](const wire::WorkRecord& record) {
    return record.send.id == buffer || record.recv.id == buffer ||
           record.scalar_buffer.id == buffer;
  };
  for (auto& comm : comms_) {
    for (auto& [rank, member] : comm->members) {
      if (member->session != &session || member->gone) continue;
      if (std::any_of(member->posted.begin(), member->posted.end(), names)) return true;
      for (uint64_t i = member->head; i != member->region().tail.load(); ++i) {
        if (names(member->region().records[i % wire::kRingRecords])) return true;
      }
    }
  }
  return false;
}

void FakeDaemon::AnswerReleases() {
  for (auto& session : sessions_) {
    std::erase_if(session->releasing, [&](const auto& release) {
      if (IsNamed(*session, release.first)) return false;
      session->buffers.erase(release.first);
      Answer(*session, release.second, wire::Done{});
      return true;
    });
  }
}

std::byte* FakeDaemon::Address(Member& member, const wire::BufferRef& ref) {
  return ref.id == 0 ? nullptr : member.session->buffers.at(ref.id).get() + ref.offset;
}

bool FakeDaemon::RunOne(Comm& comm) {
  for (auto& [rank, member] : comm.members) {
    if (member->gone || !Ready(*member)) return false;
  }
  std::vector<wire::WorkRecord> calls;
  for (auto& [rank, member] : comm.members) {
    while (member->posted.front().record == wire::RecordKind::kFence) member->posted.pop_front();
    calls.push_back(member->posted.front());
    member->posted.pop_front();
  }
  Compute(comm, calls);
  for (auto& [rank, member] : comm.members) {
    wire::SignalFence(member->region().done, calls[static_cast<size_t>(rank)].sequence);
  }
  return true;
}

void FakeDaemon::Compute(Comm& comm, const std::vector<wire::WorkRecord>& calls) {
  std::vector<std::byte*> sends;
  std::vector<std::byte*> recvs;
  for (auto& [rank, member] : comm.members) {
    const wire::WorkRecord& own = calls[static_cast<size_t>(rank)];
    sends.push_back(Address(*member, own.send));
    recvs.push_back(Address(*member, own.recv));
  }
  const wire::WorkRecord& call = calls[0];
  const size_t ranks = calls.size();
  const size_t block = call.count * SizeOf(call.type);
  std::vector<std::byte> result;
  switch (call.op) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter: {
      const size_t count = call.op == OpKind::kAllReduce ? call.count : call.count * ranks;
      if (call.type == DataType::kInt32) ReduceAll<int32_t>(call.redop, sends, count, result);
      if (call.type == DataType::kFloat32) ReduceAll<float>(call.redop, sends, count, result);
      break;
    }
    case OpKind::kAllGather:
      for (std::byte* send : sends) result.insert(result.end(), send, send + block);
      break;
    default:
      result.assign(sends[call.root_or_peer], sends[call.root_or_peer] + block);
  }
  // For a type that this fake cannot reduce, the receive buffers stay unchanged.
  for (size_t r = 0; r < ranks && !result.empty(); ++r) {
    const bool scatter = call.op == OpKind::kReduceScatter;
    std::memcpy(recvs[r], result.data() + (scatter ? r * block : 0),
                scatter ? block : result.size());
  }
}

// ---- For tests -------------------------------------------------------------------------------

void FakeDaemon::FailRank(int rank, wire::ErrorClass error, const std::string& text,
                          bool accepts_calls) {
  std::lock_guard lock(mutex_);
  Member& member = *comms_.back()->members.at(rank);
  member.region().failure.accepts_calls.store(accepts_calls ? 1 : 0);
  std::strcpy(member.region().failure.text, text.c_str());
  member.region().failure.error.store(static_cast<uint32_t>(error), std::memory_order_release);
}

void FakeDaemon::SetKernelUse(wire::KernelRole role, const std::string& staged) {
  std::lock_guard lock(mutex_);
  role_ = role;
  staged_ = staged;
}

void FakeDaemon::PutOnOneHost(std::vector<int> ranks) {
  std::lock_guard lock(mutex_);
  on_host_ = std::move(ranks);
}

wire::MemoryMapped FakeDaemon::AskToMap(const wire::MapMemory& request, int fd) {
  return Ask(request, mapped_, fd < 0 ? std::vector<int>() : std::vector{fd});
}

wire::MemoryCopied FakeDaemon::AskToCopy(const wire::CopyMemory& request) {
  return Ask(request, copied_);
}

template <typename Message>
void FakeDaemon::SendMessage(const Message& message) {
  std::lock_guard lock(mutex_);
  Answer(*sessions_.back(), /*request=*/0, message);
}
template void FakeDaemon::SendMessage(const wire::CopyMemory&);
template void FakeDaemon::SendMessage(const wire::DropCopy&);
template void FakeDaemon::SendMessage(const wire::UnmapMemory&);

std::vector<wire::MemoryCopied> FakeDaemon::CopyAnswers() {
  std::lock_guard lock(mutex_);
  return copy_answers_;
}

template <typename Request, typename Reply>
Reply FakeDaemon::Ask(const Request& request, std::optional<Reply>& reply, std::vector<int> fds) {
  {
    std::lock_guard lock(mutex_);
    reply.reset();
    Answer(*sessions_.back(), /*request=*/0, request, std::move(fds));
  }
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (reply.has_value()) return *reply;
    }
    std::this_thread::yield();
  }
}

std::vector<wire::WorkRecord> FakeDaemon::RecordsOf(int rank) {
  std::lock_guard lock(mutex_);
  return records_[rank];
}

int FakeDaemon::CountOf(wire::MessageKind kind) {
  std::lock_guard lock(mutex_);
  return counts_[kind];
}

std::vector<int> FakeDaemon::LastExcluded() {
  std::lock_guard lock(mutex_);
  return last_excluded_;
}

wire::CommSplit FakeDaemon::LastSplit() {
  std::lock_guard lock(mutex_);
  return last_split_;
}

wire::CommInit FakeDaemon::LastInit() {
  std::lock_guard lock(mutex_);
  return last_init_;
}

}  // namespace mccs

// Messages of one process on the daemon's socket (proto/shim_control.h), in any order: sessions,
// buffers, communicators of one rank and what is derived from them. The daemon answers or closes
// the session, and nothing remains of the process after its end.
//
// FUZZES: service/frontend/session*.cc service/frontend/rank_slot.cc
// FUZZES: service/frontend/buffer_registry.cc service/frontend/chunked_buffer.cc
// FUZZES: service/frontend/rank_windows.cc service/frontend/buffer_releases.cc
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/device/emulated_allocation.h"
#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace control_messages_fuzz {

constexpr pid_t kProcess = 5000;
constexpr size_t kBufferBytes = 64u << 10;
constexpr int kMostMessages = 64;

// A message that the daemon accepts, as far as its fields alone decide.
template <typename Message>
Message Valid() {
  return Message{};
}
template <>
wire::Hello Valid() {
  wire::Hello hello{};
  hello.magic = wire::kControlMagic;
  hello.oldest_version = wire::kOldestWireVersion;
  hello.newest_version = wire::kWireVersion;
  return hello;
}
template <>
wire::RegisterBuffer Valid() {
  wire::RegisterBuffer message{};
  message.kind = wire::ExportKind::kCudaIpc;
  message.bytes = kBufferBytes;
  message.handle[0] = 1;  // of LocalImporter
  return message;
}
template <>
wire::ReserveRange Valid() {
  wire::ReserveRange message{};
  message.bytes = 4 * kBufferBytes;
  return message;
}
template <>
wire::MapChunk Valid() {
  wire::MapChunk message{};
  message.buffer_id = 1;
  message.bytes = kBufferBytes;
  return message;
}
template <>
wire::UnmapChunks Valid() {
  wire::UnmapChunks message{};
  message.buffer_id = 1;
  message.bytes = kBufferBytes;
  return message;
}
template <>
wire::ReleaseBuffer Valid() {
  wire::ReleaseBuffer message{};
  message.buffer_id = 1;
  return message;
}
template <>
wire::CommInit Valid() {
  return MakeCommInit(MakeUniqueId(SimAddress(0), kSimPort, 0x1a), 1, 0);
}
template <>
wire::CommGrow Valid() {
  wire::CommGrow message{};
  message.ranks = 2;
  return message;
}
template <>
wire::CaptureWork Valid() {
  wire::CaptureWork message{};
  message.capture = 1;
  wire::WorkRecord& record = message.record;
  record.sequence = 1;
  record.record = wire::RecordKind::kOperation;
  record.op = OpKind::kAllReduce;
  record.type = DataType::kFloat32;
  record.count = 16;
  record.send.id = record.recv.id = 1;
  record.ready_value = 1;
  return message;
}
template <>
wire::RegisterWindow Valid() {
  wire::RegisterWindow message{};
  message.number = 1;
  message.bytes = 4096;
  message.memory.id = 1;
  return message;
}
template <>
wire::DeregisterWindow Valid() {
  wire::DeregisterWindow message{};
  message.number = 1;
  return message;
}
template <>
wire::Estimate Valid() {
  wire::Estimate message{};
  message.op = OpKind::kAllReduce;
  message.count = 1024;
  return message;
}

class Process {
 public:
  explicit Process(SimWorld& world)
      : world_(world), tenant_(world, 0, TenantIdentity{"red", kProcess}) {}

  // Sends one message of the input.
  void SendNext(FuzzInput& input) {
    switch (input.Below(28)) {
      case 0: {  // any bytes
        const std::span<const uint8_t> bytes = input.Bytes(input.Byte());
        return tenant_.SendBytes(bytes.data(), bytes.size());
      }
      case 1:
        return Send<wire::Hello>(input);
      case 2:
        return Send<wire::GetUniqueId>(input);
      case 3:
        return Send<wire::RegisterBuffer>(input);
      case 4:
        return Send<wire::ReserveRange>(input);
      case 5:
        tenant_.pipe().descriptors.emplace_back(dup(Allocation()));
        return Send<wire::MapChunk>(input);
      case 6:
        return Send<wire::UnmapChunks>(input);
      case 7:
        return Send<wire::ReleaseBuffer>(input);
      case 8:
        return Send<wire::CommInit>(input);
      case 9:
        return Send<wire::CommAbort>(input);
      case 10:
        return Send<wire::CommDestroy>(input);
      case 11:
        return Send<wire::CommSplit>(input);
      case 12:
        return Send<wire::CommShrink>(input);
      case 13:
        return Send<wire::CommGrow>(input);
      case 14:
        return Send<wire::CommUniqueId>(input);
      case 15:
        return Send<wire::CommRevoke>(input);
      case 16:
        return Send<wire::CommSuspend>(input);
      case 17:
        return Send<wire::CaptureWork>(input);
      case 18:
        return Send<wire::ReleaseCapture>(input);
      case 19:
        return Send<wire::RegisterWindow>(input);
      case 20:
        return Send<wire::DeregisterWindow>(input);
      case 21:
        return Send<wire::Estimate>(input);
      case 22:
        return Send<wire::GpuFailed>(input);
      case 23:
        return Send<wire::MemoryMapped>(input);
      case 24:
        return Send<wire::MemoryUnmapped>(input);
      case 25:
        return Send<wire::MemoryCopied>(input);
      case 26:  // an operator looks at the daemon's state
        world_.host(0).controller().questions.push_back(1);
        return world_.RunFor(kNsPerMs);
      default:
        return world_.RunFor(input.Byte() * kNsPerMs);
    }
  }

  // Whatever of the process's messages reaches the controller is a valid message there.
  void CheckReports() {
    for (const auto& [id, report] : world_.host(0).controller().reports) {
      MCCS_CHECK(agent::v1::Report().ParseFromString(report.SerializeAsString()));
    }
    for (const auto& [request, state] : world_.host(0).controller().answers) {
      MCCS_CHECK(state::Daemon().ParseFromString(state.SerializeAsString()));
    }
  }

  void CheckAnswers() {
    for (const SimPipe::Answer& answer : tenant_.pipe().to_tenant) {
      wire::MessageHeader header;
      MCCS_CHECK(answer.bytes.size() >= sizeof(header));
      std::memcpy(&header, answer.bytes.data(), sizeof(header));
      MCCS_CHECK(header.bytes == answer.bytes.size() && wire::IsFromDaemon(header.kind));
      if (header.bytes < sizeof(header) + sizeof(wire::ReplyStatus)) continue;  // no reply
      wire::ReplyStatus status;
      std::memcpy(&status, answer.bytes.data() + sizeof(header), sizeof(status));
      MCCS_CHECK(status.error == wire::ErrorClass::kNone || status.text[0] != '\0');
    }
    tenant_.pipe().to_tenant.clear();
  }
  void End() { tenant_.pipe().dead = true; }

 private:
  template <typename Message>
  void Send(FuzzInput& input) {
    Message message = Valid<Message>();
    message.header = {.kind = Message::kKind, .bytes = sizeof(Message), .request = ++requests_};
    input.Change(&message);
    tenant_.SendBytes(&message, sizeof(message));
  }
  static int Allocation() {
    static const EmulatedAllocation allocation(kBufferBytes);
    return allocation.fd();
  }

  SimWorld& world_;
  RawTenant tenant_;
  uint64_t requests_ = 0;
};

void Run(FuzzInput input) {
  static std::vector<std::byte> memory(kBufferBytes);
  SimWorld world({.seed = 1, .hosts = 1, .kernels = input.Below(2) == 1});
  SimHost& host = world.host(0);
  host.importer().Register(memory, kProcess);
  Process process(world);
  for (int i = 0; i < kMostMessages && !input.empty(); ++i) process.SendNext(input);
  world.RunFor(kNsPerMs);
  process.CheckAnswers();
  process.CheckReports();
  process.End();
  MCCS_CHECK(world.RunUntil(
      [&] { return host.daemon().sessions() == 0 && host.daemon().communicators() == 0; }));
}

const FuzzTarget kTarget("control_messages", Run);

}  // namespace control_messages_fuzz
}  // namespace mccs

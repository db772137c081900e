// The fake daemon's buffers, contiguous or made of chunks.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "emulation/include/mccs_emulation_ipc.h"
#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/fake_daemon_reply.h"

namespace mccs {
namespace {

constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::shared_ptr<std::byte> Map(size_t bytes, int protection, int flags, int fd) {
  void* const place = mmap(nullptr, bytes, protection, flags, fd, 0);
  MCCS_CHECK(place != MAP_FAILED);
  return {static_cast<std::byte*>(place), [bytes](std::byte* mapped) { munmap(mapped, bytes); }};
}

// The memory file of an allocation of this process.
UniqueFd OpenIpcHandle(const unsigned char* bytes) {
  MccsEmulationIpcHandle handle;
  std::memcpy(&handle, bytes, sizeof(handle));
  return UniqueFd(open(absl::StrCat("/proc/self/fd/", handle.fd).c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace

void FakeDaemon::FailChunks(const std::string& why) {
  std::lock_guard lock(mutex_);
  chunk_error_ = why;
}

void FakeDaemon::OnRegister(Session& session, const wire::RegisterBuffer& message) {
  auto reply = ErrorReply<wire::RegisterReply>(request_error_);
  reply.buffer_id = session.next_buffer++;
  const UniqueFd memory = message.kind == wire::ExportKind::kCudaIpc
                              ? OpenIpcHandle(message.handle)
                              : std::move(session.received.at(0));
  // By its inode.
  std::vector<uint64_t> files;
  for (const UniqueFd& fd : session.received) {
    struct stat file {};
    if (fd.valid() && fstat(fd.get(), &file) == 0) files.push_back(file.st_ino);
  }
  registered_.push_back({message, files});
  session.buffers[reply.buffer_id] =
      Map(message.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get());
  Answer(session, message.header.request, reply);
}

void FakeDaemon::OnRegisterWindow(Session& session, const wire::RegisterWindow& message) {
  windows_.push_back(message);
  Answer(session, message.header.request, ErrorReply<wire::Done>(window_error_));
}

std::vector<FakeDaemon::RegisteredBuffer> FakeDaemon::Registered() {
  std::lock_guard lock(mutex_);
  return registered_;
}

std::vector<wire::RegisterWindow> FakeDaemon::Windows() {
  std::lock_guard lock(mutex_);
  return windows_;
}

void FakeDaemon::OnReserve(Session& session, const wire::ReserveRange& message) {
  auto reply = ErrorReply<wire::RegisterReply>(request_error_);
  reply.buffer_id = session.next_buffer++;
  session.buffers[reply.buffer_id] = Map(message.bytes, PROT_NONE, kNothing, -1);
  session.ranges[reply.buffer_id] = message.bytes;
  Answer(session, message.header.request, reply);
}

void FakeDaemon::OnMapChunk(Session& session, const wire::MapChunk& message) {
  wire::Done done{};
  if (!chunk_error_.empty()) {
    done.status.error = wire::ErrorClass::kSystem;
    std::strncpy(done.status.text, chunk_error_.c_str(), sizeof(done.status.text) - 1);
  } else {
    MCCS_CHECK(message.offset + message.bytes <= session.ranges.at(message.buffer_id));
    std::byte* const place = session.buffers.at(message.buffer_id).get() + message.offset;
    const UniqueFd memory = std::move(session.received.at(0));
    MCCS_CHECK(mmap(place, message.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    memory.get(), 0) == place);
  }
  Answer(session, message.header.request, done);
}

void FakeDaemon::OnUnmapChunks(Session& session, const wire::UnmapChunks& message) {
  std::byte* const place = session.buffers.at(message.buffer_id).get() + message.offset;
  MCCS_CHECK(mmap(place, message.bytes, PROT_NONE, kNothing | MAP_FIXED, -1, 0) == place);
  Answer(session, message.header.request, wire::Done{});
}

}  // namespace mccs

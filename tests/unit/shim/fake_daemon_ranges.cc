// The fake daemon's buffers, contiguous or made of chunks.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tests/unit/shim/fake_daemon.h"
#include "tests/unit/shim/fake_daemon_reply.h"

namespace mccs {
namespace {

void* MapNothing(void* place, size_t bytes) {
  return mmap(place, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place == nullptr ? 0 : MAP_FIXED), -1,
              0);
}

}  // namespace

void FakeDaemon::FailChunks(const std::string& why) {
  std::lock_guard lock(mutex_);
  chunk_error_ = why;
}

void FakeDaemon::OnRegister(Session& session, const wire::RegisterBuffer& message) {
  auto reply = ErrorReply<wire::RegisterReply>(request_error_);
  reply.buffer_id = session.next_buffer++;
  std::byte*& place = session.buffers[reply.buffer_id];
  if (message.kind == wire::ExportKind::kFileDescriptor) {
    void* const mapped =
        mmap(nullptr, message.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, session.received.get(), 0);
    MCCS_CHECK(mapped != MAP_FAILED);
    place = static_cast<std::byte*>(mapped);
  } else {
    std::memcpy(&place, message.handle, sizeof(place));
  }
  Answer(session, message.header.request, reply);
}

void FakeDaemon::OnRegisterWindow(Session& session, const wire::RegisterWindow& message) {
  windows_.push_back(message);
  Answer(session, message.header.request, ErrorReply<wire::Done>(window_error_));
}

std::vector<wire::RegisterWindow> FakeDaemon::Windows() {
  std::lock_guard lock(mutex_);
  return windows_;
}

void FakeDaemon::OnReserve(Session& session, const wire::ReserveRange& message) {
  auto reply = ErrorReply<wire::RegisterReply>(request_error_);
  reply.buffer_id = session.next_buffer++;
  void* const place = MapNothing(nullptr, message.bytes);
  MCCS_CHECK(place != MAP_FAILED);
  session.buffers[reply.buffer_id] = static_cast<std::byte*>(place);
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
    std::byte* const place = session.buffers.at(message.buffer_id) + message.offset;
    MCCS_CHECK(mmap(place, message.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    session.received.get(), 0) == place);
  }
  Answer(session, message.header.request, done);
}

void FakeDaemon::OnUnmapChunks(Session& session, const wire::UnmapChunks& message) {
  MapNothing(session.buffers.at(message.buffer_id) + message.offset, message.bytes);
  Answer(session, message.header.request, wire::Done{});
}

}  // namespace mccs

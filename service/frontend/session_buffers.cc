// What a tenant process says about its memory.
#include <utility>
#include <vector>

#include "service/frontend/session.h"
#include "service/frontend/session_reply.h"

namespace mccs {
namespace {

constexpr size_t kRecordsPerRelease = 1 << 14;  // looked at for what is taken back
constexpr uint8_t kNoIpcHandle[wire::kIpcHandleBytes] = {};

}  // namespace

absl::Status Session::HandleRegister(const wire::RegisterBuffer& request, UniqueFd fd) {
  BufferExport offer{.kind = request.kind,
                     .handle = std::span<const uint8_t, wire::kIpcHandleBytes>(request.handle),
                     .fd = std::move(fd),
                     .bytes = request.bytes,
                     .owner = identity().process};
  auto id = buffers_.Register(offer);
  auto reply = Reply<wire::RegisterReply>(request.header.request, id.status());
  if (id.ok()) reply.buffer_id = id->value();
  return Send(reply);
}

absl::Status Session::HandleRelease(const wire::ReleaseBuffer& request) {
  const BufferId id(request.buffer_id);
  const absl::Status begun = releases_.Begin(request.header.request, id, UsesOf(id));
  if (!begun.ok()) return SendDone(request.header.request, begun);
  PollReleases();
  return absl::OkStatus();
}

// Where the posted records that name the buffer end.
std::vector<RingUse> Session::UsesOf(BufferId id) const {
  std::vector<RingUse> uses;
  size_t budget = kRecordsPerRelease;
  for (const auto& [handle, slot] : ranks_) {
    const uint64_t last = slot.endpoint->LastUseOf(id, &budget);
    if (last > 0) uses.push_back({handle, last});
  }
  return uses;
}

absl::Status Session::HandleReserve(const wire::ReserveRange& request) {
  auto id = buffers_.Reserve(request.bytes);
  auto reply = Reply<wire::RegisterReply>(request.header.request, id.status());
  if (id.ok()) reply.buffer_id = id->value();
  return Send(reply);
}

absl::Status Session::HandleMapChunk(const wire::MapChunk& request, UniqueFd fd) {
  const BufferExport offer{.kind = wire::ExportKind::kFileDescriptor,
                           .handle = std::span<const uint8_t, wire::kIpcHandleBytes>(kNoIpcHandle),
                           .fd = std::move(fd),
                           .bytes = request.bytes,
                           .owner = identity().process};
  return SendDone(request.header.request,
                  buffers_.MapChunk(BufferId(request.buffer_id), request.offset, offer));
}

absl::Status Session::HandleUnmapChunks(const wire::UnmapChunks& request) {
  const BufferId id(request.buffer_id);
  const absl::Status begun = releases_.BeginChunks(request.header.request, id,
                                                   {request.offset, request.bytes}, UsesOf(id));
  if (!begun.ok()) return SendDone(request.header.request, begun);
  PollReleases();
  return absl::OkStatus();
}

}  // namespace mccs

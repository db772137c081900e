// The part of a Session that handles messages about memory.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "service/frontend/session.h"
#include "service/frontend/session_reply.h"

namespace mccs {
namespace {

constexpr size_t kRecordsPerRelease = 1 << 14;  // checked for uses of a released buffer
constexpr size_t kRanksPerTurn = 64;            // checked while releases are pending

}  // namespace

// Takes `fd` when the mapping starts; otherwise PollMessages closes it.
absl::Status Session::HandleRegister(const wire::RegisterBuffer& request, UniqueFd& fd) {
  BufferExport offer{
      .kind = request.kind, .fd = {}, .bytes = request.bytes, .owner = identity().process};
  if (offer.kind == wire::ExportKind::kFileDescriptor) offer.fd = std::move(fd);
  std::copy(std::begin(request.handle), std::end(request.handle), offer.handle.begin());
  const absl::Status begun = buffers_.Register(request.header.request, std::move(offer));
  if (begun.ok()) return begun;
  if (offer.fd.valid()) fd = std::move(offer.fd);
  return Send(Reply<wire::RegisterReply>(request.header.request, begun));
}

// Answers requests whose memory was mapped or rejected.
bool Session::PollMapped() {
  if (state_ != State::kOpen) return false;
  const std::vector<BufferRegistry::Mapped> mapped = buffers_.TakeMapped();
  for (const BufferRegistry::Mapped& done : mapped) {
    if (done.is_chunk) {
      CheckSent(SendDone(done.request, done.id.status()));
      continue;
    }
    auto reply = Reply<wire::RegisterReply>(done.request, done.id.status());
    if (done.id.ok()) reply.buffer_id = done.id->value();
    CheckSent(Send(reply));
  }
  return !mapped.empty();
}

absl::Status Session::HandleRelease(const wire::ReleaseBuffer& request) {
  const BufferId id(request.buffer_id);
  const absl::Status begun = releases_.Begin(request.header.request, id, UsesOf(id));
  if (!begun.ok()) return SendDone(request.header.request, begun);
  PollReleases();
  return absl::OkStatus();
}

// For each ring, the last posted record that names the buffer.
std::vector<RingUse> Session::UsesOf(BufferId id) const {
  std::vector<RingUse> uses;
  size_t budget = kRecordsPerRelease;
  for (const auto& [handle, slot] : ranks_) {
    const uint64_t last = slot.endpoint->LastUseOf(id, &budget);
    if (last > 0) uses.push_back({handle, last, slot.serial});
  }
  return uses;
}

bool Session::PollReleases() {
  if (releases_.empty()) return false;
  DropSomeFailedCalls();
  const std::vector<uint64_t> ended = releases_.Poll([this](const RingUse& use) {
    const auto slot = ranks_.find(use.rank);
    // The handle may have been reused for another rank.
    return slot == ranks_.end() || slot->second.serial != use.serial ||
           slot->second.endpoint->HasTaken(use.records);
  });
  for (uint64_t request : ended) {
    if (state_ == State::kOpen) CheckSent(SendDone(request, absl::OkStatus()));
  }
  return !ended.empty();
}

// Releases may wait for failed calls.
void Session::DropSomeFailedCalls() {
  auto slot = ranks_.upper_bound(last_checked_);
  for (size_t i = std::min(ranks_.size(), kRanksPerTurn); i > 0; --i, ++slot) {
    if (slot == ranks_.end()) slot = ranks_.begin();
    slot->second.endpoint->DropFailedCalls();
    last_checked_ = slot->first;
  }
}

absl::Status Session::HandleReserve(const wire::ReserveRange& request) {
  auto id = buffers_.Reserve(request.bytes);
  auto reply = Reply<wire::RegisterReply>(request.header.request, id.status());
  if (id.ok()) reply.buffer_id = id->value();
  return Send(reply);
}

absl::Status Session::HandleMapChunk(const wire::MapChunk& request, UniqueFd& fd) {
  BufferExport offer{.kind = wire::ExportKind::kFileDescriptor,
                     .fd = std::move(fd),
                     .bytes = request.bytes,
                     .owner = identity().process};
  const absl::Status begun = buffers_.MapChunk(request.header.request, BufferId(request.buffer_id),
                                               request.offset, std::move(offer));
  if (begun.ok()) return begun;
  fd = std::move(offer.fd);
  return SendDone(request.header.request, begun);
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

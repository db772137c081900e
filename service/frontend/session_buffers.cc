// The part of a Session that handles messages about memory.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "service/frontend/session.h"
#include "service/frontend/tenant_text.h"

namespace mccs {
namespace {

constexpr size_t kRecordsPerRelease = 1 << 14;  // checked for uses of a released buffer
constexpr size_t kRanksPerTurn = 64;            // checked while releases are pending
// Costs in the units of the TurnBudget: records checked in the time of one, and the records that
// could be checked in the time that one rank takes.
constexpr size_t kRecordsPerUnit = 256;
constexpr size_t kRecordsPerRank = 2;
constexpr size_t kChecksPerUnit = 32;  // of releases and their uses

}  // namespace

// Takes `fds` when the mapping starts; otherwise PollMessages closes them, as dma-bufs that the
// daemon did not ask for.
Session::Outcome Session::HandleRegister(const wire::RegisterBuffer& request, MessageFds& fds) {
  const bool has_memory = request.kind != wire::ExportKind::kCudaIpc;
  const bool has_dma_buf = env_.wants_dma_bufs && request.has_dma_buf != 0;
  UniqueFd& memory = fds[0];
  UniqueFd& dma_buf = fds[has_memory ? 1 : 0];
  if (has_dma_buf && !dma_buf.valid()) {
    return absl::InvalidArgumentError("the message has no descriptor of the buffer's dma-buf");
  }
  BufferExport offer{.kind = request.kind,
                     .fd = {},
                     .dma_buf = {},
                     .bytes = request.bytes,
                     .owner = identity().process,
                     .address = request.address,
                     .device = request.device,
                     .dma_buf_offset = request.dma_buf_offset,
                     .no_dma_buf = TextOf(request.no_dma_buf)};
  if (has_memory) offer.fd = std::move(memory);
  if (has_dma_buf) offer.dma_buf = std::move(dma_buf);
  std::copy(std::begin(request.handle), std::end(request.handle), offer.handle.begin());
  const absl::Status begun = buffers_.Register(request.header.request, std::move(offer));
  if (!begun.ok() && has_memory) memory = std::move(offer.fd);
  if (!begun.ok() && has_dma_buf) dma_buf = std::move(offer.dma_buf);
  return Later(begun);
}

// Answers requests whose memory was mapped or rejected.
bool Session::PollMapped(TurnBudget& budget) {
  if (state_ != State::kOpen || buffers_.pending() == 0) return false;
  if (budget.left() == 0) return true;
  const std::vector<BufferRegistry::Mapped> mapped =
      buffers_.TakeMapped(static_cast<size_t>(budget.left()));
  budget.Spend(static_cast<int>(mapped.size()));
  for (const BufferRegistry::Mapped& done : mapped) {
    if (done.is_chunk) {
      Answer<wire::Done>(done.request, done.id.status());
      continue;
    }
    wire::RegisterReply reply{};
    if (done.id.ok()) reply.buffer_id = done.id->value();
    Answer(done.request, done.id.status(), reply);
  }
  return !mapped.empty();
}

Session::Outcome Session::HandleRelease(const wire::ReleaseBuffer& request) {
  const BufferId id(request.buffer_id);
  return Later(releases_.Begin(request.header.request, id, UsesOf(id)));
}

// For each ring, the last posted record that names the buffer.
std::vector<RingUse> Session::UsesOf(BufferId id) {
  std::vector<RingUse> uses;
  size_t budget = kRecordsPerRelease;
  for (const auto& [handle, slot] : ranks_) {
    const uint64_t last = slot.endpoint().LastUseOf(id, &budget);
    if (last > 0) uses.push_back({handle, last, slot.origin().serial});
  }
  extra_cost_ += static_cast<int>((ranks_.size() * kRecordsPerRank + kRecordsPerRelease - budget) /
                                  kRecordsPerUnit);
  return uses;
}

bool Session::PollReleases(TurnBudget& budget) {
  if (releases_.empty()) return false;
  if (budget.left() == 0) return true;
  const bool all_freed = FreeSomeFailedCalls(budget);
  const auto is_over = [this](const RingUse& use) {
    const auto slot = ranks_.find(use.rank);
    // The handle may have been reused for another rank.
    return slot == ranks_.end() || slot->second.origin().serial != use.serial ||
           slot->second.endpoint().HasTaken(use.records);
  };
  const BufferReleases::Polled polled = releases_.Poll(is_over, static_cast<size_t>(budget.left()));
  budget.Spend(static_cast<int>(polled.ended.size() + 1 + polled.checked / kChecksPerUnit));
  for (uint64_t request : polled.ended) AnswerDone(request);
  return polled.moved || !all_freed;
}

// Releases may wait for failed calls.
bool Session::FreeSomeFailedCalls(TurnBudget& budget) {
  auto slot = ranks_.upper_bound(last_checked_);
  for (size_t i = std::min(ranks_.size(), kRanksPerTurn); i > 0; --i, ++slot) {
    if (slot == ranks_.end()) slot = ranks_.begin();
    if (budget.left() == 0) return false;
    if (!FreeSome(slot->second.endpoint(), budget)) return false;  // the next turn goes on with it
    last_checked_ = slot->first;
  }
  return true;
}

absl::StatusOr<wire::RegisterReply> Session::HandleReserve(const wire::ReserveRange& request) {
  MCCS_ASSIGN_OR_RETURN(const BufferId id, buffers_.Reserve(request.bytes));
  wire::RegisterReply reply{};
  reply.buffer_id = id.value();
  return reply;
}

Session::Outcome Session::HandleMapChunk(const wire::MapChunk& request, MessageFds& fds) {
  BufferExport offer{.kind = wire::ExportKind::kFileDescriptor,
                     .fd = std::move(fds[0]),
                     .dma_buf = {},
                     .bytes = request.bytes,
                     .owner = identity().process};
  const absl::Status begun = buffers_.MapChunk(request.header.request, BufferId(request.buffer_id),
                                               request.offset, std::move(offer));
  if (!begun.ok()) fds[0] = std::move(offer.fd);
  return Later(begun);
}

Session::Outcome Session::HandleUnmapChunks(const wire::UnmapChunks& request) {
  const BufferId id(request.buffer_id);
  const absl::Status begun = releases_.BeginChunks(request.header.request, id,
                                                   {request.offset, request.bytes}, UsesOf(id));
  return Later(begun);
}

// ---- Memory for the process's kernels -----------------------------------------------------------

Session::Outcome Session::HandleMemoryMapped(const wire::MemoryMapped& message) {
  EndOnError(kernels_.OnMapped(message));
  WakeRanks();
  return std::nullopt;
}

// Operations of any rank may wait for the memory.
void Session::WakeRanks() {
  for (auto& [handle, slot] : ranks_) {
    if (slot.communicator() != nullptr) slot.communicator()->Wake();
  }
}

// Wakes no communicator: those with a copy in progress take part in each turn.
Session::Outcome Session::HandleMemoryCopied(const wire::MemoryCopied& message) {
  EndOnError(kernels_.OnCopied(message));
  return std::nullopt;
}

Session::Outcome Session::HandleMemoryUnmapped(const wire::MemoryUnmapped& message) {
  EndOnError(kernels_.OnUnmapped(message));
  return std::nullopt;
}

}  // namespace mccs

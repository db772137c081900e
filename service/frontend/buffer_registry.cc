#include "service/frontend/buffer_registry.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/device/mapped_memory.h"

namespace mccs {
namespace {

// Address space that the mapping of the whole allocation takes: of its file; without a descriptor,
// of whole pages.
uint64_t MostBytesOf(const BufferExport& offer) {
  if (offer.fd.valid()) return std::max(offer.bytes, CachedSize(offer.fd.get()));
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t rest = offer.bytes % page;
  return rest == 0 ? offer.bytes : offer.bytes - rest + page;
}

}  // namespace

absl::Status BufferRegistry::CheckLimit() const {
  if (buffers_.size() + pending_whole_ < kMaxBuffersPerProcess) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("too many buffers: this process has registered ",
                                                   buffers_.size() + pending_whole_,
                                                   " with mccsd, the limit of a process: "
                                                   "communicate from fewer, larger allocations"));
}

BufferId BufferRegistry::NextId() {
  do {
    ++last_id_;
  } while (last_id_ == 0 || buffers_.contains(BufferId(last_id_)));
  return BufferId(last_id_);
}

absl::Status BufferRegistry::Register(uint64_t request, BufferExport&& offer) {
  MCCS_RETURN_IF_ERROR(CheckLimit());
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<BufferShare> share,
                        quota_.Take(owner_.tenant, account_, budget_));
  offer.most_bytes = MostBytesOf(offer);
  MCCS_RETURN_IF_ERROR(share->SetBytes(offer.most_bytes));
  ++pending_whole_;
  pending_.push_back({.request = request,
                      .mapping = mapper_.Import(owner_, std::move(offer)),
                      .share = std::move(share)});
  return absl::OkStatus();
}

std::vector<BufferRegistry::Mapped> BufferRegistry::TakeMapped(size_t most) {
  std::vector<Mapped> mapped;
  for (size_t i = std::min({pending_.size(), kCheckedPerTurn, most}); i > 0; --i) {
    Pending pending = std::move(pending_.front());
    pending_.pop_front();
    if (!pending.mapping->ready()) {
      pending_.push_back(std::move(pending));
      continue;
    }
    const bool is_chunk = pending.chunk != nullptr;
    mapped.push_back({.request = pending.request,
                      .is_chunk = is_chunk,
                      .id = is_chunk ? FinishChunk(pending) : FinishRegistration(pending)});
  }
  return mapped;
}

absl::StatusOr<BufferId> BufferRegistry::FinishRegistration(Pending& pending) {
  --pending_whole_;
  MCCS_RETURN_IF_ERROR(pending.mapping->status);
  std::unique_ptr<Region> memory = std::move(pending.mapping->memory);
  memory->SetBudget(budget_);
  const uint64_t bytes = memory->bytes();
  absl::Status within = pending.share->SetBytes(bytes);
  if (within.ok()) within = pending.share->AddMemory(bytes);
  if (!within.ok()) {
    mapper_.Unmap(owner_, std::move(memory), std::move(pending.share));
    return within;
  }
  const BufferId id = NextId();
  Entry& entry = buffers_[id];
  entry.gone = pending.share;
  // Unmaps before it releases the share; a pending release may still read the pointer.
  entry.whole = BufferHold(memory.release(), [share = std::move(pending.share), owner = owner_,
                                              &mapper = mapper_](Region* mapped) mutable {
    mapper.Unmap(owner, std::unique_ptr<Region>(mapped), std::move(share));
  });
  return id;
}

absl::StatusOr<BufferId> BufferRegistry::FinishChunk(Pending& pending) {
  MCCS_RETURN_IF_ERROR(pending.chunk->Finish(pending.mapping->status));
  return pending.chunk_of;
}

absl::StatusOr<BufferId> BufferRegistry::Reserve(uint64_t bytes) {
  MCCS_RETURN_IF_ERROR(CheckLimit());
  const BufferId id = NextId();
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<BufferShare> share,
                        quota_.Take(owner_.tenant, nullptr, budget_));
  MCCS_RETURN_IF_ERROR(share->SetBytes(bytes));
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceRange> range, mapper_.Reserve(bytes));
  range->SetBudget(budget_);
  buffers_[id].chunks =
      std::make_unique<ChunkedBuffer>(mapper_, owner_, std::move(range), std::move(share));
  return id;
}

absl::StatusOr<ChunkedBuffer*> BufferRegistry::FindChunked(BufferId id) {
  const auto it = buffers_.find(id);
  if (it != buffers_.end() && it->second.chunks != nullptr) return it->second.chunks.get();
  return absl::InvalidArgumentError(absl::StrCat(
      "buffer ", id.value(), it == buffers_.end() ? " is not registered" : " has no chunks"));
}

absl::Status BufferRegistry::MapChunk(uint64_t request, BufferId id, uint64_t offset,
                                      BufferExport&& offer) {
  MCCS_ASSIGN_OR_RETURN(ChunkedBuffer * buffer, FindChunked(id));
  ChunkedBuffer::Shares shares;
  for (auto& share : shares) {
    MCCS_ASSIGN_OR_RETURN(share, quota_.Take(owner_.tenant, account_, budget_));
  }
  MCCS_RETURN_IF_ERROR(shares.front()->AddMemory(offer.bytes));
  MCCS_ASSIGN_OR_RETURN(auto chunk, buffer->Map(offset, std::move(offer), std::move(shares)));
  pending_.push_back(
      {.request = request, .mapping = chunk->mapping(), .chunk = std::move(chunk), .chunk_of = id});
  return absl::OkStatus();
}

absl::StatusOr<MappingEnd> BufferRegistry::UnmapChunks(BufferId id, const AddressRange& span) {
  MCCS_ASSIGN_OR_RETURN(ChunkedBuffer * buffer, FindChunked(id));
  return buffer->Unmap(span);
}

absl::StatusOr<MappingEnd> BufferRegistry::Release(BufferId id) {
  auto it = buffers_.find(id);
  if (it == buffers_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", id.value(), " is not registered"));
  }
  MappingEnd gone = it->second.chunks == nullptr ? it->second.gone : it->second.chunks->gone();
  buffers_.erase(it);
  return gone;
}

bool BufferRegistry::ReleaseSome(size_t most) {
  TakeMapped(most);
  for (size_t i = std::min(kReleasedPerTurn, most); i > 0 && !buffers_.empty(); --i)
    buffers_.erase(buffers_.begin());
  return buffers_.empty() && pending_.empty();
}

uint64_t BufferRegistry::bytes() const {
  uint64_t sum = 0;
  for (const auto& [id, entry] : buffers_) {
    sum += entry.chunks == nullptr ? entry.whole->bytes() : entry.chunks->Hold()->bytes();
  }
  return sum;
}

absl::StatusOr<BufferHold> BufferRegistry::Resolve(const wire::BufferRef& ref, uint64_t bytes,
                                                   size_t alignment) const {
  auto it = buffers_.find(BufferId(ref.id));
  if (it == buffers_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", ref.id, " is not registered"));
  }
  const Entry& entry = it->second;
  BufferHold hold = entry.chunks == nullptr ? entry.whole : entry.chunks->Hold();
  const uint64_t size = hold->bytes();
  if (ref.offset > size || bytes > size - ref.offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes, " bytes at offset ", ref.offset, " exceed buffer ", ref.id, " of ", size, " bytes"));
  }
  if (entry.chunks != nullptr && !entry.chunks->Covers({ref.offset, bytes})) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes, " bytes at offset ", ref.offset, " are not completely mapped in buffer ", ref.id));
  }
  if (ref.offset % alignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("offset ", ref.offset, " in buffer ", ref.id,
                                                   " is not aligned to elements of ", alignment,
                                                   " bytes"));
  }
  return hold;
}

}  // namespace mccs

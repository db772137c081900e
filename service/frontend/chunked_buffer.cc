#include "service/frontend/chunked_buffer.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

struct ChunkedBuffer::Epoch {
  explicit Epoch(std::shared_ptr<Ground> its_ground) : ground(std::move(its_ground)) {
    ++ground->epochs;
  }
  ~Epoch() {
    for (const uint64_t offset : taken_back) {
      const auto chunk = ground->chunks.find(offset);
      ground->range->Unmap(offset, chunk->second.bytes);
      ground->chunks.erase(chunk);
    }
    --ground->epochs;
  }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  const std::shared_ptr<Ground> ground;
  std::vector<uint64_t> taken_back;  // offsets
  std::shared_ptr<Epoch> next;
};

ChunkedBuffer::ChunkedBuffer(std::unique_ptr<DeviceRange> range, std::unique_ptr<BufferShare> share)
    : ground_(std::make_shared<Ground>()) {
  ground_->range = std::move(range);
  ground_->share = std::move(share);
  present_ = std::make_shared<Epoch>(ground_);
}

AddressRange ChunkedBuffer::RangeOf(const Chunks::value_type& chunk) {
  return {chunk.first, chunk.second.bytes};
}

ChunkedBuffer::Chunks::iterator ChunkedBuffer::FirstIn(const AddressRange& span) {
  auto& chunks = ground_->chunks;
  const auto it = FirstBeyond(chunks, span.base, [](const Chunk& chunk) { return chunk.bytes; });
  const bool inside = it != chunks.end() && RangeOf(*it).Overlaps(span);
  return inside ? it : chunks.end();
}

absl::Status ChunkedBuffer::Map(uint64_t offset, const BufferExport& offer, Shares shares) {
  const AddressRange span{offset, offer.bytes};
  const uint64_t size = ground_->range->bytes();
  if (span.bytes == 0 || offset > size || span.bytes > size - offset) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", span.bytes, " bytes at offset ",
                                                   offset, " exceeds its range of ", size,
                                                   " bytes"));
  }
  if (const auto there = FirstIn(span); there != ground_->chunks.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk of ", span.bytes, " bytes at offset ", offset,
                     " overlaps the one of ", there->second.bytes, " bytes at ", there->first,
                     there->second.leaving ? ", which work still holds" : ""));
  }
  MCCS_RETURN_IF_ERROR(ground_->range->Map(offset, offer));
  ground_->chunks[offset] = {.bytes = span.bytes, .leaving = false, .shares = std::move(shares)};
  AddRun(span);
  return absl::OkStatus();
}

absl::StatusOr<std::weak_ptr<DeviceMemory>> ChunkedBuffer::Unmap(const AddressRange& span) {
  if (ground_->epochs > kMostWaiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(ground_->epochs - 1,
                     " chunks or groups of them were taken back while work holds them, which is "
                     "the limit: let the work end first"));
  }
  std::vector<uint64_t> taken;
  for (auto it = FirstIn(span); it != ground_->chunks.end() && RangeOf(*it).Overlaps(span); ++it) {
    if (std::exchange(it->second.leaving, true)) continue;
    taken.push_back(it->first);
    CutRun(RangeOf(*it));
  }
  std::shared_ptr<Epoch> past = std::exchange(present_, std::make_shared<Epoch>(ground_));
  past->taken_back = std::move(taken);
  past->next = present_;
  return std::weak_ptr<DeviceMemory>(BufferHold(past, ground_->range.get()));
}

bool ChunkedBuffer::Covers(const AddressRange& span) const {
  const uint64_t size = ground_->range->bytes();
  if (span.base > size || span.bytes > size - span.base) return false;
  if (span.bytes == 0) return true;
  const auto after = runs_.upper_bound(span.base);
  return after != runs_.begin() && std::prev(after)->second >= span.base + span.bytes;
}

BufferHold ChunkedBuffer::Hold() const { return BufferHold(present_, ground_->range.get()); }

void ChunkedBuffer::AddRun(const AddressRange& span) {
  auto [run, added] = runs_.emplace(span.base, span.base + span.bytes);
  if (const auto next = std::next(run); next != runs_.end() && next->first == run->second) {
    run->second = next->second;
    runs_.erase(next);
  }
  if (run == runs_.begin()) return;
  if (const auto before = std::prev(run); before->second == run->first) {
    before->second = run->second;
    runs_.erase(run);
  }
}

// REQUIRES: the span lies within one run.
void ChunkedBuffer::CutRun(const AddressRange& span) {
  const auto run = std::prev(runs_.upper_bound(span.base));
  const uint64_t end = std::exchange(run->second, span.base);
  if (end > span.base + span.bytes) runs_.emplace(span.base + span.bytes, end);
  if (run->first == run->second) runs_.erase(run);
}

}  // namespace mccs

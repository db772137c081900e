#include "service/frontend/chunked_buffer.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

// Contiguously covered ranges.
struct ChunkedBuffer::Runs {
  void Add(const AddressRange& span);
  // REQUIRES: the span lies within one run.
  void Cut(const AddressRange& span);
  bool Cover(const AddressRange& span) const {
    const auto after = from_to.upper_bound(span.base);
    return after != from_to.begin() && std::prev(after)->second >= span.base + span.bytes;
  }

  std::map<uint64_t, uint64_t> from_to;
};

// The parts of a buffer that are still mapped after its end.
struct ChunkedBuffer::RemainingMappings {
  std::unique_ptr<BufferShare> share;
  Chunks chunks;
};

// State shared by the buffer, its holders, and chunks being mapped or unmapped; may outlive the
// buffer.
struct ChunkedBuffer::SharedState {
  SharedState(MemoryMapper& its_mapper, MappingOwner its_owner,
              std::unique_ptr<DeviceRange> its_range, std::unique_ptr<BufferShare> share)
      : mapper(its_mapper),
        owner(std::move(its_owner)),
        range(std::move(its_range)),
        remaining(std::make_shared<RemainingMappings>(
            RemainingMappings{.share = std::move(share), .chunks = {}})) {}
  ~SharedState() {
    MemoryMapper::Parts parts;
    for (const auto& chunk : remaining->chunks) parts.push_back(RangeOf(chunk));
    mapper.Unmap(owner, std::move(range), std::move(parts), std::move(remaining));
  }
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  MemoryMapper& mapper;
  const MappingOwner owner;
  std::unique_ptr<DeviceRange> range;
  std::shared_ptr<RemainingMappings> remaining;
  Runs runs;
  int epochs = 0;
};

struct ChunkedBuffer::Epoch {
  // The chunks removed in the epoch, until they are unmapped.
  struct RemovedChunks {
    explicit RemovedChunks(std::shared_ptr<SharedState> its_shared)
        : shared_state(std::move(its_shared)) {
      ++shared_state->epochs;
    }
    ~RemovedChunks() {
      for (const AddressRange& part : parts) shared_state->remaining->chunks.erase(part.base);
      --shared_state->epochs;
    }
    RemovedChunks(const RemovedChunks&) = delete;
    RemovedChunks& operator=(const RemovedChunks&) = delete;

    const std::shared_ptr<SharedState> shared_state;
    MemoryMapper::Parts parts;
  };

  explicit Epoch(const std::shared_ptr<SharedState>& shared_state)
      : taken_back(std::make_shared<RemovedChunks>(shared_state)) {}
  ~Epoch() {
    if (taken_back->parts.empty()) return;
    SharedState& shared_state = *taken_back->shared_state;
    MemoryMapper::Parts parts = taken_back->parts;
    shared_state.mapper.UnmapFrom(shared_state.owner, *shared_state.range, std::move(parts),
                                  std::move(taken_back));
  }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  std::shared_ptr<RemovedChunks> taken_back;
  std::shared_ptr<Epoch> next;
};

ChunkedBuffer::ChunkedBuffer(MemoryMapper& mapper, MappingOwner owner,
                             std::unique_ptr<DeviceRange> range, std::unique_ptr<BufferShare> share)
    : shared_(std::make_shared<SharedState>(mapper, std::move(owner), std::move(range),
                                            std::move(share))),
      current_(std::make_shared<Epoch>(shared_)) {}

AddressRange ChunkedBuffer::RangeOf(const Chunks::value_type& chunk) {
  return {chunk.first, chunk.second.bytes};
}

ChunkedBuffer::Chunks::iterator ChunkedBuffer::FirstOverlapping(const AddressRange& span) {
  Chunks& chunks = shared_->remaining->chunks;
  const auto it = FirstAfter(chunks, span.base, [](const Chunk& chunk) { return chunk.bytes; });
  const bool inside = it != chunks.end() && RangeOf(*it).Overlaps(span);
  return inside ? it : chunks.end();
}

absl::StatusOr<std::shared_ptr<ChunkedBuffer::PendingChunk>> ChunkedBuffer::Map(
    uint64_t offset, BufferExport&& offer, Shares shares) {
  const AddressRange span{offset, offer.bytes};
  const uint64_t size = shared_->range->bytes();
  if (span.bytes == 0 || offset > size || span.bytes > size - offset) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", span.bytes, " bytes at offset ",
                                                   offset, " exceeds its range of ", size,
                                                   " bytes"));
  }
  if (const auto there = FirstOverlapping(span); there != shared_->remaining->chunks.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk of ", span.bytes, " bytes at offset ", offset,
                     " overlaps the one of ", there->second.bytes, " bytes at ", there->first,
                     there->second.unmapping ? ", which operations still use" : ""));
  }
  shared_->remaining->chunks[offset] = {
      .bytes = span.bytes, .pending = true, .unmapping = false, .shares = std::move(shares)};
  // The job holds the shared state with the range.
  const std::shared_ptr<DeviceRange> range(shared_, shared_->range.get());
  return std::make_shared<PendingChunk>(
      shared_, offset, shared_->mapper.MapInto(shared_->owner, range, offset, std::move(offer)));
}

absl::Status ChunkedBuffer::PendingChunk::Finish(const absl::Status& status) {
  Chunks& chunks = shared_->remaining->chunks;
  const auto chunk = chunks.find(offset_);
  if (status.ok()) {
    chunk->second.pending = false;
    shared_->runs.Add(RangeOf(*chunk));
  } else {
    chunks.erase(chunk);
  }
  return status;
}

absl::StatusOr<MappingEnd> ChunkedBuffer::Unmap(const AddressRange& span) {
  if (shared_->epochs > kMaxHeldEpochs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot unmap chunks: ", shared_->epochs - 1,
                     " earlier removals still wait for operations, which is the limit; retry when "
                     "these operations have completed"));
  }
  MemoryMapper::Parts taken;
  const Chunks& chunks = shared_->remaining->chunks;
  for (auto it = FirstOverlapping(span); it != chunks.end() && RangeOf(*it).Overlaps(span); ++it) {
    if (it->second.pending || std::exchange(it->second.unmapping, true)) continue;
    taken.push_back(RangeOf(*it));
    shared_->runs.Cut(RangeOf(*it));
  }
  const std::shared_ptr<Epoch> past = std::exchange(current_, std::make_shared<Epoch>(shared_));
  past->taken_back->parts = std::move(taken);
  past->next = current_;
  return MappingEnd(past->taken_back);
}

bool ChunkedBuffer::Covers(const AddressRange& span) const {
  const uint64_t size = shared_->range->bytes();
  if (span.base > size || span.bytes > size - span.base) return false;
  if (span.bytes == 0) return true;
  return shared_->runs.Cover(span);
}

BufferHold ChunkedBuffer::Hold() const { return BufferHold(current_, shared_->range.get()); }

MappingEnd ChunkedBuffer::gone() const { return shared_->remaining; }

void ChunkedBuffer::Runs::Add(const AddressRange& span) {
  auto [run, added] = from_to.emplace(span.base, span.base + span.bytes);
  if (const auto next = std::next(run); next != from_to.end() && next->first == run->second) {
    run->second = next->second;
    from_to.erase(next);
  }
  if (run == from_to.begin()) return;
  if (const auto before = std::prev(run); before->second == run->first) {
    before->second = run->second;
    from_to.erase(run);
  }
}

void ChunkedBuffer::Runs::Cut(const AddressRange& span) {
  const auto run = std::prev(from_to.upper_bound(span.base));
  const uint64_t end = std::exchange(run->second, span.base);
  if (end > span.base + span.bytes) from_to.emplace(span.base + span.bytes, end);
  if (run->first == run->second) from_to.erase(run);
}

}  // namespace mccs

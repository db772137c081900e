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
struct ChunkedBuffer::Remains {
  std::unique_ptr<BufferShare> share;
  Chunks chunks;
};

// State shared by the buffer, its holders, and chunks being mapped or unmapped; may outlive the
// buffer.
struct ChunkedBuffer::Ground {
  Ground(MemoryMapper& its_mapper, MappingOwner its_owner, std::unique_ptr<DeviceRange> its_range,
         std::unique_ptr<BufferShare> share)
      : mapper(its_mapper),
        owner(std::move(its_owner)),
        range(std::move(its_range)),
        remains(std::make_shared<Remains>(Remains{.share = std::move(share), .chunks = {}})) {}
  ~Ground() {
    MemoryMapper::Parts parts;
    for (const auto& chunk : remains->chunks) parts.push_back(RangeOf(chunk));
    mapper.Unmap(owner, std::move(range), std::move(parts), std::move(remains));
  }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;

  MemoryMapper& mapper;
  const MappingOwner owner;
  std::unique_ptr<DeviceRange> range;
  std::shared_ptr<Remains> remains;
  Runs runs;
  int epochs = 0;
};

struct ChunkedBuffer::Epoch {
  // The chunks removed in the epoch, until they are unmapped.
  struct TakenBack {
    explicit TakenBack(std::shared_ptr<Ground> its_ground) : ground(std::move(its_ground)) {
      ++ground->epochs;
    }
    ~TakenBack() {
      for (const AddressRange& part : parts) ground->remains->chunks.erase(part.base);
      --ground->epochs;
    }
    TakenBack(const TakenBack&) = delete;
    TakenBack& operator=(const TakenBack&) = delete;

    const std::shared_ptr<Ground> ground;
    MemoryMapper::Parts parts;
  };

  explicit Epoch(const std::shared_ptr<Ground>& ground)
      : taken_back(std::make_shared<TakenBack>(ground)) {}
  ~Epoch() {
    if (taken_back->parts.empty()) return;
    Ground& ground = *taken_back->ground;
    MemoryMapper::Parts parts = taken_back->parts;
    ground.mapper.UnmapFrom(ground.owner, *ground.range, std::move(parts), std::move(taken_back));
  }
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  std::shared_ptr<TakenBack> taken_back;
  std::shared_ptr<Epoch> next;
};

ChunkedBuffer::ChunkedBuffer(MemoryMapper& mapper, MappingOwner owner,
                             std::unique_ptr<DeviceRange> range, std::unique_ptr<BufferShare> share)
    : ground_(
          std::make_shared<Ground>(mapper, std::move(owner), std::move(range), std::move(share))),
      present_(std::make_shared<Epoch>(ground_)) {}

AddressRange ChunkedBuffer::RangeOf(const Chunks::value_type& chunk) {
  return {chunk.first, chunk.second.bytes};
}

ChunkedBuffer::Chunks::iterator ChunkedBuffer::FirstIn(const AddressRange& span) {
  Chunks& chunks = ground_->remains->chunks;
  const auto it = FirstBeyond(chunks, span.base, [](const Chunk& chunk) { return chunk.bytes; });
  const bool inside = it != chunks.end() && RangeOf(*it).Overlaps(span);
  return inside ? it : chunks.end();
}

absl::StatusOr<std::shared_ptr<ChunkedBuffer::Coming>> ChunkedBuffer::Map(uint64_t offset,
                                                                          BufferExport&& offer,
                                                                          Shares shares) {
  const AddressRange span{offset, offer.bytes};
  const uint64_t size = ground_->range->bytes();
  if (span.bytes == 0 || offset > size || span.bytes > size - offset) {
    return absl::InvalidArgumentError(absl::StrCat("a chunk of ", span.bytes, " bytes at offset ",
                                                   offset, " exceeds its range of ", size,
                                                   " bytes"));
  }
  if (const auto there = FirstIn(span); there != ground_->remains->chunks.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk of ", span.bytes, " bytes at offset ", offset,
                     " overlaps the one of ", there->second.bytes, " bytes at ", there->first,
                     there->second.leaving ? ", which operations still use" : ""));
  }
  ground_->remains->chunks[offset] = {
      .bytes = span.bytes, .coming = true, .leaving = false, .shares = std::move(shares)};
  // The job holds the shared state with the range.
  const std::shared_ptr<DeviceRange> range(ground_, ground_->range.get());
  return std::make_shared<Coming>(
      ground_, offset, ground_->mapper.MapInto(ground_->owner, range, offset, std::move(offer)));
}

absl::Status ChunkedBuffer::Coming::Arrive(const absl::Status& status) {
  Chunks& chunks = ground_->remains->chunks;
  const auto chunk = chunks.find(offset_);
  if (status.ok()) {
    chunk->second.coming = false;
    ground_->runs.Add(RangeOf(*chunk));
  } else {
    chunks.erase(chunk);
  }
  return status;
}

absl::StatusOr<MappingGone> ChunkedBuffer::Unmap(const AddressRange& span) {
  if (ground_->epochs > kMostWaiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(ground_->epochs - 1,
                     " chunks or groups of them were removed while operations use them, which is "
                     "the limit: wait until the operations end"));
  }
  MemoryMapper::Parts taken;
  const Chunks& chunks = ground_->remains->chunks;
  for (auto it = FirstIn(span); it != chunks.end() && RangeOf(*it).Overlaps(span); ++it) {
    if (it->second.coming || std::exchange(it->second.leaving, true)) continue;
    taken.push_back(RangeOf(*it));
    ground_->runs.Cut(RangeOf(*it));
  }
  const std::shared_ptr<Epoch> past = std::exchange(present_, std::make_shared<Epoch>(ground_));
  past->taken_back->parts = std::move(taken);
  past->next = present_;
  return MappingGone(past->taken_back);
}

bool ChunkedBuffer::Covers(const AddressRange& span) const {
  const uint64_t size = ground_->range->bytes();
  if (span.base > size || span.bytes > size - span.base) return false;
  if (span.bytes == 0) return true;
  return ground_->runs.Cover(span);
}

BufferHold ChunkedBuffer::Hold() const { return BufferHold(present_, ground_->range.get()); }

MappingGone ChunkedBuffer::gone() const { return ground_->remains; }

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

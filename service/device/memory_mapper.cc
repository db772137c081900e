#include "service/device/memory_mapper.h"

#include <array>
#include <utility>

#include "base/units.h"
#include "service/device/mapped_memory.h"

namespace mccs {
namespace {

// The kernel takes about 8 ms to free this much of a memory file.
constexpr uint64_t kLongFromBytes = 64 * kMiB;
// Maximum number of processes with unmappings in progress; beyond it, finished ones are removed.
constexpr size_t kMaxTrackedProcesses = 256;

using Progress = MappingJob::Progress;

bool IsLarge(const UniqueFd& fd) { return fd.valid() && CachedSize(fd.get()) >= kLongFromBytes; }

// Opens and maps in the first step, populates page tables in the next ones.
class MapJob : public MappingJob {
 public:
  MapJob(MappingOwner owner, BufferExport offer)
      : MappingJob(std::move(owner)), offer_(std::move(offer)) {}

  Progress Step() final {
    if (!mapped_) {
      mapped_ = true;
      status_ = Map(offer_);
      // If the offer was rejected, its descriptors may be the last references to their files.
      closes_slowly_ = !status_.ok() && (IsLarge(offer_.fd) || IsLarge(offer_.dma_buf));
      if (closes_slowly_) return Progress::kLong;
      CloseOffer();
      return status_.ok() ? Progress::kMore : Progress::kDone;
    }
    if (closes_slowly_) {
      CloseOffer();
      return Progress::kDone;
    }
    return PopulatePart() ? Progress::kDone : Progress::kMore;
  }

 protected:
  virtual absl::Status Map(const BufferExport& offer) = 0;
  virtual bool PopulatePart() = 0;
  absl::Status status_;

 private:
  void CloseOffer() {
    offer_.fd.Reset();
    offer_.dma_buf.Reset();
  }

  BufferExport offer_;
  bool mapped_ = false;
  bool closes_slowly_ = false;
};

class ImportJob final : public MapJob {
 public:
  ImportJob(MappingOwner owner, BufferExport offer, MemoryMapper& mapper, MemoryImporter& importer,
            std::shared_ptr<PendingMapping> pending)
      : MapJob(std::move(owner), std::move(offer)),
        mapper_(mapper),
        importer_(importer),
        pending_(std::move(pending)) {}

  void Finish() override {
    if (pending_.use_count() == 1 && memory_ != nullptr) {
      return mapper_.Unmap(owner(), std::move(memory_), nullptr);
    }
    pending_->done = true;
    pending_->status = status_;
    pending_->memory = std::move(memory_);
  }

 private:
  absl::Status Map(const BufferExport& offer) override {
    auto memory = importer_.Import(offer);
    if (memory.ok()) memory_ = std::move(*memory);
    return memory.status();
  }
  bool PopulatePart() override { return memory_->PopulatePart(); }

  MemoryMapper& mapper_;
  MemoryImporter& importer_;
  const std::shared_ptr<PendingMapping> pending_;
  std::unique_ptr<Region> memory_;
};

class MapIntoJob final : public MapJob {
 public:
  MapIntoJob(MappingOwner owner, BufferExport offer, std::shared_ptr<DeviceRange> range,
             uint64_t offset, std::shared_ptr<PendingMapping> pending,
             const MemoryMapper::Releaser& releaser)
      : MapJob(std::move(owner), std::move(offer)),
        releaser_(releaser),
        range_(std::move(range)),
        offset_(offset),
        pending_(std::move(pending)) {}

  void Finish() override {
    pending_->done = true;
    pending_->status = status_;
    if (releaser_) releaser_(*range_, nullptr);
  }

 private:
  absl::Status Map(const BufferExport& offer) override { return range_->Map(offset_, offer); }
  bool PopulatePart() override { return range_->PopulatePart(); }

  const MemoryMapper::Releaser& releaser_;
  const std::shared_ptr<DeviceRange> range_;
  const uint64_t offset_;
  const std::shared_ptr<PendingMapping> pending_;
};

using Tokens = std::array<std::shared_ptr<void>, 2>;

// Releases pages in pieces, part by part.
class PartsJob : public MappingJob {
 public:
  // `tokens` are destroyed when everything is unmapped.
  PartsJob(MappingOwner owner, MemoryMapper::Parts parts, Tokens tokens)
      : MappingJob(std::move(owner)), parts_(std::move(parts)), tokens_(std::move(tokens)) {}

  void Finish() final { tokens_ = {}; }

 protected:
  // Releases one piece of the current part. Returns true if more is left.
  bool ReleaseFrom(Region& memory) {
    if (next_ == parts_.size()) return false;
    const AddressRange& part = parts_[next_];
    if (done_ < part.bytes) done_ += memory.ReleasePart(part.base + done_, part.bytes - done_);
    return done_ < part.bytes;
  }
  const AddressRange* part() const { return next_ < parts_.size() ? &parts_[next_] : nullptr; }
  void NextPart() {
    ++next_;
    done_ = 0;
  }

 private:
  const MemoryMapper::Parts parts_;
  Tokens tokens_;
  size_t next_ = 0;
  uint64_t done_ = 0;  // bytes of the current part
};

// The last step unmaps a mapping without pages, and may free the file.
class UnmapJob final : public PartsJob {
 public:
  UnmapJob(MappingOwner owner, std::unique_ptr<Region> memory, MemoryMapper::Parts parts,
           Tokens tokens)
      : PartsJob(std::move(owner), std::move(parts), std::move(tokens)),
        memory_(std::move(memory)) {}

  Progress Step() override {
    if (part() != nullptr) {
      if (!ReleaseFrom(*memory_)) NextPart();
      const bool last_is_long = part() == nullptr && memory_->LargestFile() >= kLongFromBytes;
      return last_is_long ? Progress::kLong : Progress::kMore;
    }
    memory_.reset();
    return Progress::kDone;
  }

 private:
  std::unique_ptr<Region> memory_;
};

class UnmapFromJob final : public PartsJob {
 public:
  UnmapFromJob(MappingOwner owner, DeviceRange& range, MemoryMapper::Parts parts, Tokens tokens)
      : PartsJob(std::move(owner), std::move(parts), std::move(tokens)), range_(range) {}

  Progress Step() override {
    if (part() == nullptr) return Progress::kDone;
    if (!empty_) {
      empty_ = !ReleaseFrom(range_);
      return empty_ && range_.LargestFile() >= kLongFromBytes ? Progress::kLong : Progress::kMore;
    }
    range_.Unmap(part()->base, part()->bytes);
    empty_ = false;
    NextPart();
    return part() == nullptr ? Progress::kDone : Progress::kMore;
  }

 private:
  DeviceRange& range_;
  bool empty_ = false;  // no pages are left in the part
};

}  // namespace

class MemoryMapper::CloseJob final : public MappingJob {
 public:
  CloseJob(MappingOwner owner, UniqueFd fd, MemoryMapper& mapper)
      : MappingJob(std::move(owner)), mapper_(mapper), fd_(std::move(fd)) {
    ++mapper_.closing_[this->owner().tenant];
  }

  Progress Step() override {
    if (!std::exchange(looked_at_, true) && IsLarge(fd_)) return Progress::kLong;
    fd_.Reset();
    return Progress::kDone;
  }
  void Finish() override {
    const auto own = mapper_.closing_.find(owner().tenant);
    if (--own->second == 0) mapper_.closing_.erase(own);
  }

 private:
  MemoryMapper& mapper_;
  UniqueFd fd_;
  bool looked_at_ = false;
};

void MemoryMapper::Start(MappingRunner::Lane lane, std::unique_ptr<MappingJob> job) {
  if (runner_ != nullptr) return runner_->Start(lane, std::move(job));
  while (job->Step() != Progress::kDone) {
  }
  job->Finish();
}

std::shared_ptr<PendingMapping> MemoryMapper::Import(const MappingOwner& owner,
                                                     BufferExport offer) {
  auto pending = std::make_shared<PendingMapping>();
  pending->before = TakeUnmappings(owner);
  Start(MappingRunner::Lane::kMap,
        std::make_unique<ImportJob>(owner, std::move(offer), *this, *importer_, pending));
  return pending;
}

std::shared_ptr<PendingMapping> MemoryMapper::MapInto(const MappingOwner& owner,
                                                      std::shared_ptr<DeviceRange> range,
                                                      uint64_t offset, BufferExport offer) {
  auto pending = std::make_shared<PendingMapping>();
  pending->before = TakeUnmappings(owner);
  Start(MappingRunner::Lane::kMap,
        std::make_unique<MapIntoJob>(owner, std::move(offer), std::move(range), offset, pending,
                                     releaser_));
  return pending;
}

std::shared_ptr<void> MemoryMapper::TrackUnmapping(const MappingOwner& owner) {
  if (unmapping_.size() > kMaxTrackedProcesses) {
    std::erase_if(unmapping_, [](const auto& noted) { return noted.second.expired(); });
  }
  std::weak_ptr<void>& begun = unmapping_[owner.process];
  std::shared_ptr<void> token = begun.lock();
  if (token == nullptr) begun = token = std::make_shared<char>();
  return token;
}

std::weak_ptr<void> MemoryMapper::TakeUnmappings(const MappingOwner& owner) {
  const auto begun = unmapping_.extract(owner.process);
  return begun.empty() ? std::weak_ptr<void>() : begun.mapped();
}

void MemoryMapper::StartReleased(const Region& region, std::unique_ptr<MappingJob> job) {
  if (!releaser_) return Start(MappingRunner::Lane::kUnmap, std::move(job));
  struct Pending {
    Pending(MemoryMapper& its_mapper, std::unique_ptr<MappingJob> its_job)
        : mapper(its_mapper), job(std::move(its_job)) {}
    ~Pending() { mapper.Start(MappingRunner::Lane::kUnmap, std::move(job)); }
    Pending(const Pending&) = delete;

    MemoryMapper& mapper;
    std::unique_ptr<MappingJob> job;
  };
  releaser_(region, std::make_shared<Pending>(*this, std::move(job)));
}

void MemoryMapper::Unmap(const MappingOwner& owner, std::unique_ptr<Region> memory, Parts parts,
                         std::shared_ptr<void> token) {
  const Region& region = *memory;
  StartReleased(region,
                std::make_unique<UnmapJob>(owner, std::move(memory), std::move(parts),
                                           Tokens{std::move(token), TrackUnmapping(owner)}));
}

void MemoryMapper::UnmapFrom(const MappingOwner& owner, DeviceRange& range, Parts parts,
                             std::shared_ptr<void> token) {
  StartReleased(range,
                std::make_unique<UnmapFromJob>(owner, range, std::move(parts),
                                               Tokens{std::move(token), TrackUnmapping(owner)}));
}

void MemoryMapper::Close(const MappingOwner& owner, UniqueFd fd) {
  if (!fd.valid()) return;
  Start(MappingRunner::Lane::kUnmap, std::make_unique<CloseJob>(owner, std::move(fd), *this));
}

bool MemoryMapper::Poll() {
  if (runner_ == nullptr) return false;
  for (int i = 0; i < kDeliveredPerTurn; ++i) {
    const std::unique_ptr<MappingJob> job = runner_->TakeFinished();
    if (job == nullptr) return i > 0;
    job->Finish();
  }
  return true;
}

}  // namespace mccs

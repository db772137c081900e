#include "service/transport/exposure.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

bool Exceeds(const RemoteTarget& target, uint64_t bytes, uint64_t memory_bytes) {
  return target.offset > memory_bytes || bytes > memory_bytes - target.offset;
}

absl::Status OutOfRange(const RemoteTarget& target, uint64_t bytes, uint64_t memory_bytes) {
  return absl::OutOfRangeError(absl::StrCat(bytes, " bytes at offset ", target.offset,
                                            " exceed the exposed memory of ", memory_bytes,
                                            " bytes with key ", target.key.value()));
}

}  // namespace

// ---- The receiver's end -------------------------------------------------------------------------

absl::Status ExposedMemory::Expose(RemoteKey key, ExposureName name, const RegionSpan& memory) {
  MCCS_CHECK(key.value() != 0);
  if (std::ranges::any_of(exposures_, [&](const Exposure& e) { return e.name == name; })) {
    return absl::AlreadyExistsError(
        absl::StrCat("memory with name ", name.value(), " is exposed on this lane already"));
  }
  if (exposures_.size() >= kMaxExposures) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot expose more memory on a lane: ", kMaxExposures, " parts are exposed already"));
  }
  exposures_.push_back({key, name, memory});
  changes_.push_back({.withdrawn = false, .key = key, .name = name, .bytes = memory.bytes});
  return absl::OkStatus();
}

void ExposedMemory::Withdraw(RemoteKey key) {
  const auto exposure =
      std::ranges::find_if(exposures_, [&](const Exposure& e) { return e.key == key; });
  MCCS_CHECK(exposure != exposures_.end());
  const Change withdrawal{.withdrawn = true, .key = key, .name = exposure->name, .bytes = 0};
  exposures_.erase(exposure);
  // The peer need not learn of memory that it never knew: so the list stays bounded.
  const auto unsent =
      std::ranges::find_if(changes_, [&](const Change& change) { return change.key == key; });
  if (unsent == changes_.end()) {
    changes_.push_back(withdrawal);
  } else {
    changes_.erase(unsent);
  }
}

absl::StatusOr<RegionSpan> ExposedMemory::Find(const RemoteTarget& target, uint64_t bytes) const {
  for (const Exposure& exposure : exposures_) {
    if (exposure.key != target.key) continue;
    if (Exceeds(target, bytes, exposure.memory.bytes)) {
      return OutOfRange(target, bytes, exposure.memory.bytes);
    }
    return exposure.memory.Part(target.offset, bytes);
  }
  return absl::NotFoundError(
      absl::StrCat("no memory with key ", target.key.value(), " is exposed on this lane"));
}

std::optional<ExposedMemory::Change> ExposedMemory::TakeChange() {
  if (changes_.empty()) return std::nullopt;
  const Change change = changes_.front();
  changes_.pop_front();
  return change;
}

void ExposedMemory::RepeatAll() {
  changes_.clear();
  for (const Exposure& exposure : exposures_) {
    changes_.push_back({.withdrawn = false,
                        .key = exposure.key,
                        .name = exposure.name,
                        .bytes = exposure.memory.bytes});
  }
}

// ---- The sender's end ---------------------------------------------------------------------------

absl::Status PeerMemory::OnExposed(ExposureName name, const RemoteRegion& region) {
  const bool known = std::ranges::any_of(regions_, [&](const Entry& entry) {
    return entry.name == name || entry.region.key == region.key;
  });
  if (known || region.key.value() == 0 || regions_.size() >= kMaxExposures) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid exposure with key ", region.key.value(), " and name ", name.value()));
  }
  regions_.push_back({name, region});
  return absl::OkStatus();
}

absl::Status PeerMemory::OnWithdrawn(RemoteKey key) {
  if (std::erase_if(regions_, [&](const Entry& entry) { return entry.region.key == key; }) > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("withdrawal of key ", key.value(), ", which is not exposed"));
}

std::optional<RemoteRegion> PeerMemory::Find(ExposureName name) const {
  for (const Entry& entry : regions_) {
    if (entry.name == name) return entry.region;
  }
  return std::nullopt;
}

absl::Status PeerMemory::Check(const RemoteTarget& target, uint64_t bytes) const {
  for (const Entry& entry : regions_) {
    if (entry.region.key != target.key) continue;
    return Exceeds(target, bytes, entry.region.bytes)
               ? OutOfRange(target, bytes, entry.region.bytes)
               : absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the peer does not expose memory with key ",
                                                    target.key.value(), " on this lane"));
}

}  // namespace mccs

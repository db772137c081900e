#include "shim/buffers/virtual_ranges.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "shim/cuda/memory_kind.h"
#include "shim/daemon/fence.h"

namespace mccs::shim {
namespace {

// A daemon that takes longer to map a chunk counts as stuck.
constexpr std::chrono::seconds kMapTimeout{30};
// A call waits this long for a former mapping's place to become free; then it stages.
constexpr std::chrono::milliseconds kFreeTimeout{20};
// The number of descriptors in flight: the kernel counts them against the process's limit.
constexpr size_t kMaxPendingMappings = 32;
// Each new chunk checks this many others for memory that was unmapped unseen.
constexpr int kCheckedPerChunk = 8;
// Alignment of reserved ranges, as of CUDA's mappings.
constexpr uint64_t kReservationUnit = 2 * kMiB;
// Assumed if the driver does not report a GPU's memory size.
constexpr uint64_t kUnknownDeviceBytes = 128 * kGiB;

absl::Status NothingAt(uint64_t address) {
  return absl::InvalidArgumentError(absl::StrCat("nothing is mapped at 0x", absl::Hex(address)));
}

}  // namespace

// ---- Reserved ranges -------------------------------------------------------------------------

VirtualRanges::ReservedRange* VirtualRanges::ReservedRangeOf(const AddressRange& use) const {
  for (const auto& reserved_range : ranges_) {
    if (reserved_range->range.Contains(use)) return reserved_range.get();
  }
  return nullptr;
}

// PyTorch reserves 9/8 of the GPU's memory for a segment, so this reserves as much on either side.
// No more, because reservations count against the tenant's quota.
uint64_t VirtualRanges::ReservationBytes(const AddressRange& use) const {
  int device = 0;
  size_t device_bytes = 0;
  if (driver_.DeviceTotalMem == nullptr ||
      driver_.PointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, use.base) !=
          CUDA_SUCCESS ||
      driver_.DeviceTotalMem(&device_bytes, device) != CUDA_SUCCESS) {
    device_bytes = kUnknownDeviceBytes;
  }
  const uint64_t segment = std::max<uint64_t>(device_bytes + device_bytes / 8, use.bytes);
  return 2 * (segment / kReservationUnit + 2) * kReservationUnit;  // a use may begin within a unit
}

// Returns reservations without mappings to the daemon, because they count against the tenant's
// quota.
void VirtualRanges::ReleaseEmptyRanges() {
  std::erase_if(ranges_, [&](const std::unique_ptr<ReservedRange>& reserved_range) {
    DropReleased(*reserved_range);
    if (!reserved_range->chunks.empty() || !reserved_range->pending.empty()) return false;
    wire::ReleaseBuffer message{};
    message.buffer_id = reserved_range->id;
    if (const auto request = client_.Send(message); request.ok()) client_.IgnoreReply(*request);
    return true;
  });
}

absl::StatusOr<VirtualRanges::ReservedRange*> VirtualRanges::Reserve(const AddressRange& use) {
  ReleaseEmptyRanges();
  auto reserved_range = std::make_unique<ReservedRange>();
  reserved_range->range.bytes = ReservationBytes(use);
  const uint64_t half = reserved_range->range.bytes / 2;
  const uint64_t middle = use.base / kReservationUnit * kReservationUnit;
  reserved_range->range.base = middle > half ? middle - half : 0;
  wire::ReserveRange message{};
  message.bytes = reserved_range->range.bytes;
  driver_.PointerGetAttribute(&message.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, use.base);
  CUuuid uuid;
  if (driver_.DeviceGetUuid(&uuid, message.device) == CUDA_SUCCESS) {
    std::copy_n(uuid.bytes, sizeof(message.device_uuid), message.device_uuid);
  }
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, client_.Send(message));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, client_.Await(request, kMapTimeout));
  MCCS_ASSIGN_OR_RETURN(const auto registered, reply.As<wire::RegisterReply>());
  reserved_range->id = registered.buffer_id;
  ranges_.push_back(std::move(reserved_range));
  return ranges_.back().get();
}

VirtualRanges::Chunks::iterator VirtualRanges::FirstAfter(ReservedRange& reserved_range,
                                                          uint64_t address) {
  return mccs::FirstAfter(reserved_range.chunks, address,
                          [](const Chunk& chunk) { return chunk.bytes; });
}

std::optional<AddressRange> VirtualRanges::ChunksAround(uint32_t id,
                                                        const AddressRange& span) const {
  for (const auto& reserved_range : ranges_) {
    if (reserved_range->id != id) continue;
    uint64_t first = reserved_range->range.base + span.base;
    uint64_t end = first + span.bytes;
    auto it = FirstAfter(*reserved_range, first);
    if (it != reserved_range->chunks.end()) first = std::min(first, it->first);
    it = FirstAfter(*reserved_range, end - 1);
    if (it != reserved_range->chunks.end() && it->first < end) end = it->first + it->second.bytes;
    return AddressRange{first, end - first};
  }
  return std::nullopt;
}

bool VirtualRanges::IsMapped(uint64_t address, unsigned long long cuda_id) const {
  for (const auto& reserved_range : ranges_) {
    if (!reserved_range->range.Contains(address)) continue;
    const auto it = FirstAfter(*reserved_range, address);
    if (it != reserved_range->chunks.end() && it->first <= address)
      return it->second.cuda_id == cuda_id;
  }
  return false;
}

bool VirtualRanges::empty() const {
  return std::all_of(ranges_.begin(), ranges_.end(), [](const auto& reserved_range) {
    return reserved_range->chunks.empty() && reserved_range->pending.empty();
  });
}

// ---- Looking up, and mapping missing chunks --------------------------------------------------

absl::StatusOr<VirtualRanges::Found> VirtualRanges::Resolve(const AddressRange& use) {
  Found found;
  ReservedRange* reserved_range = ReservedRangeOf(use);
  if (reserved_range == nullptr) {
    MCCS_RETURN_IF_ERROR(CheckMapped(use));
    absl::StatusOr<ReservedRange*> opened = Reserve(use);
    if (!opened.ok() && client_.dead()) return opened.status();
    if (!opened.ok()) found.map_failure = std::string(opened.status().message());
    if (opened.ok()) reserved_range = *opened;
  }
  if (reserved_range == nullptr) return found;
  const absl::Status mapped = MapMissing(*reserved_range, use, found);
  const absl::Status collected = Collect(*reserved_range, found);
  MCCS_RETURN_IF_ERROR(mapped);
  MCCS_RETURN_IF_ERROR(collected);
  if (!found.map_failure.empty()) found.id = 0;
  return found;
}

// Checks first, so that an invalid count causes no reservation and no staging.
absl::Status VirtualRanges::CheckMapped(const AddressRange& use) const {
  for (uint64_t at = use.base; at < use.end();) {
    const std::optional<AddressRange> extent = ExtentOf(driver_, at);
    if (!extent || !extent->Contains(at)) return NothingAt(at);
    if (KindOf(driver_, at) != MemoryKind::kVirtual) {
      return absl::InvalidArgumentError(
          absl::StrCat("memory at 0x", absl::Hex(at), " is not virtual memory"));
    }
    at = extent->end();
  }
  return absl::OkStatus();
}

absl::Status VirtualRanges::MapMissing(ReservedRange& reserved_range, const AddressRange& use,
                                       Found& found) {
  found.id = reserved_range.id;
  found.offset = use.base - reserved_range.range.base;
  const ExportLeases::Use now = leases_.UsedNow();
  const uint64_t end = use.end();
  auto it = FirstAfter(reserved_range, use.base);
  for (uint64_t at = use.base; at < end;) {
    const std::optional<unsigned long long> cuda_id = BufferIdOf(driver_, at);
    if (!cuda_id) return NothingAt(at);
    AddressRange chunk;
    Chunk* known = nullptr;
    if (it != reserved_range.chunks.end() && it->first <= at && it->second.cuda_id == *cuda_id) {
      chunk = {it->first, it->second.bytes};
      known = &it->second;
      ++it;
    } else {
      const std::optional<AddressRange> extent = ExtentOf(driver_, at);
      if (!extent || !extent->Contains(at)) return NothingAt(at);
      chunk = *extent;
      MCCS_ASSIGN_OR_RETURN(known, Add(reserved_range, chunk, *cuda_id, found));
      it = reserved_range.chunks.upper_bound(at);
    }
    if (known != nullptr) {
      known->last_use = now;
      if (!known->shared) found.id = 0;
    }
    if (at == use.base) {
      found.chunk = chunk;
      found.cuda_id = *cuda_id;
    }
    at = chunk.end();
  }
  return absl::OkStatus();
}

// Null if the chunk cannot be mapped now.
absl::StatusOr<VirtualRanges::Chunk*> VirtualRanges::Add(ReservedRange& reserved_range,
                                                         const AddressRange& chunk,
                                                         unsigned long long cuda_id, Found& found) {
  // The former mappings at these addresses are gone.
  RequestRelease(
      reserved_range, chunk, [](const auto&, const auto&) { return true; }, nullptr);
  MCCS_ASSIGN_OR_RETURN(const UniqueFd fd, DescriptorOf(driver_, chunk.base));
  Chunk fresh{.bytes = chunk.bytes, .cuda_id = cuda_id, .shared = fd.valid(), .last_use = {}};
  if (fresh.shared) {
    if (!reserved_range.range.Contains(chunk)) {
      found.map_failure = "it exceeds its reserved address range";
      return nullptr;
    }
    if (!IsFree(reserved_range, chunk)) {
      found.map_failure = "the former mapping at these addresses is still in use";
      return nullptr;
    }
    if (pending_mappings_.size() == kMaxPendingMappings)
      MCCS_RETURN_IF_ERROR(Collect(reserved_range, found));
    ReleaseUnmapped();
    wire::MapChunk message{};
    message.buffer_id = reserved_range.id;
    message.offset = chunk.base - reserved_range.range.base;
    message.bytes = chunk.bytes;
    MCCS_ASSIGN_OR_RETURN(const uint64_t request, client_.Send(message, {.first = fd.get()}));
    pending_mappings_.push_back({chunk.base, request});
  }
  return &(reserved_range.chunks[chunk.base] = fresh);
}

// Removes the entries of chunks that the daemon has released.
void VirtualRanges::DropReleased(ReservedRange& reserved_range) {
  std::erase_if(reserved_range.pending, [&](const PendingRelease& pending) {
    return client_.dead() || client_.Poll(pending.request).has_value();
  });
}

// Whether the daemon has released the former mappings of the range.
bool VirtualRanges::IsFree(ReservedRange& reserved_range, const AddressRange& range) {
  const auto until = std::chrono::steady_clock::now() + kFreeTimeout;
  for (BackoffWait wait;; wait.Pause()) {
    DropReleased(reserved_range);
    const bool free =
        std::none_of(reserved_range.pending.begin(), reserved_range.pending.end(),
                     [&](const PendingRelease& pending) { return pending.range.Overlaps(range); });
    if (free || std::chrono::steady_clock::now() >= until) return free;
  }
}

// Reads the replies to all requests. The next call requests rejected chunks again.
absl::Status VirtualRanges::Collect(ReservedRange& reserved_range, Found& found) {
  absl::Status broken;
  for (const PendingMapping& pending_mapping : std::exchange(pending_mappings_, {})) {
    absl::Status answer = [&]() -> absl::Status {
      MCCS_ASSIGN_OR_RETURN(const Reply reply, client_.Await(pending_mapping.request, kMapTimeout));
      return reply.As<wire::Done>().status();
    }();
    if (answer.ok()) continue;
    reserved_range.chunks.erase(pending_mapping.address);
    found.map_failure = std::string(answer.message());
    if (client_.dead()) broken = std::move(answer);
  }
  return broken;
}

// ---- Releasing -------------------------------------------------------------------------------

// Combines adjacent chunks into one message.
bool VirtualRanges::RequestRelease(ReservedRange& reserved_range, const AddressRange& range,
                                   Predicate predicate, std::vector<PendingRelease>* requests,
                                   size_t most) {
  AddressRange run;
  const auto send = [&] {
    if (run.bytes == 0) return;
    wire::UnmapChunks message{};
    message.buffer_id = reserved_range.id;
    message.offset = run.base - reserved_range.range.base;
    message.bytes = run.bytes;
    if (const auto request = client_.Send(message); request.ok()) {
      (requests != nullptr ? *requests : reserved_range.pending).push_back({run, *request});
    }
    run = {};
  };
  for (auto it = FirstAfter(reserved_range, range.base); it != reserved_range.chunks.end();) {
    const AddressRange chunk{it->first, it->second.bytes};
    if (!chunk.Overlaps(range)) break;
    if (!predicate(chunk, it->second.last_use)) {
      ++it;
      continue;
    }
    if (it->second.shared) {
      if (run.end() != chunk.base) send();
      if (run.bytes == 0) {
        if (most-- == 0) return false;
        run.base = chunk.base;
      }
      run.bytes = chunk.end() - run.base;
    }
    it = reserved_range.chunks.erase(it);
  }
  send();
  return true;
}

bool VirtualRanges::BeginRelease(const AddressRange& range, Predicate predicate,
                                 std::vector<PendingRelease>* requests) {
  const size_t before = requests->size();
  for (const auto& reserved_range : ranges_) {
    std::erase_if(reserved_range->pending, [&](const PendingRelease& pending) {
      if (!pending.range.Overlaps(range)) return false;
      requests->push_back(pending);
      return true;
    });
    RequestRelease(*reserved_range, range, predicate, requests);
  }
  return requests->size() != before;
}

bool VirtualRanges::ReleaseMatching(Predicate predicate, size_t most) {
  for (const auto& reserved_range : ranges_) {
    const size_t before = reserved_range->pending.size();
    if (!RequestRelease(*reserved_range, reserved_range->range, predicate, nullptr, most))
      return false;
    most -= std::min(most, reserved_range->pending.size() - before);
  }
  ReleaseEmptyRanges();
  return true;
}

size_t VirtualRanges::CountUnanswered() {
  size_t count = 0;
  for (const auto& reserved_range : ranges_) {
    DropReleased(*reserved_range);
    count += reserved_range->pending.size();
  }
  return count;
}

// Bounds the number of chunks that a program unmaps unseen.
void VirtualRanges::ReleaseUnmapped() {
  for (int i = 0; i < kCheckedPerChunk; ++i) {
    ReservedRange* reserved_range = nullptr;
    uint64_t next = 0;
    for (const auto& each : ranges_) {  // the next higher address, over all reserved ranges
      const auto it = each->chunks.upper_bound(checked_up_to_);
      if (it == each->chunks.end() || (reserved_range != nullptr && it->first >= next)) continue;
      reserved_range = each.get();
      next = it->first;
    }
    checked_up_to_ = next;  // 0 if there is none: restart from the beginning
    if (reserved_range == nullptr) return;
    const Chunk& chunk = reserved_range->chunks.at(next);
    if (BufferIdOf(driver_, next) == chunk.cuda_id) continue;
    RequestRelease(
        *reserved_range, {next, 1}, [](const auto&, const auto&) { return true; }, nullptr);
  }
}

}  // namespace mccs::shim

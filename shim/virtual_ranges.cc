#include "shim/virtual_ranges.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "shim/fence.h"
#include "shim/memory_kind.h"

namespace mccs::shim {
namespace {

// A daemon that takes longer to map a chunk counts as stuck.
constexpr std::chrono::seconds kMapTime{30};
// A call waits this long for a former mapping's place to become free; then it stages.
constexpr std::chrono::milliseconds kFreeTime{20};
// The number of descriptors in flight: the kernel counts them against the process's limit.
constexpr size_t kMostAsked = 32;
// Each new chunk checks this many others for memory that was unmapped unseen.
constexpr int kCheckedPerChunk = 8;
// Alignment of reserved ranges, as of CUDA's mappings.
constexpr uint64_t kWindowUnit = 2 * kMiB;
// Assumed if the driver does not report a GPU's memory size.
constexpr uint64_t kUnknownDeviceBytes = 128 * kGiB;

absl::Status NothingAt(uint64_t address) {
  return absl::InvalidArgumentError(absl::StrCat("nothing is mapped at 0x", absl::Hex(address)));
}

}  // namespace

// ---- Reserved ranges -------------------------------------------------------------------------

VirtualRanges::Window* VirtualRanges::WindowOf(const AddressRange& use) const {
  for (const auto& window : windows_) {
    if (window->range.Contains(use)) return window.get();
  }
  return nullptr;
}

// PyTorch reserves 9/8 of the GPU's memory for a segment, so this reserves as much on either side.
// No more, because reservations count against the tenant's quota.
uint64_t VirtualRanges::WindowBytes(const AddressRange& use) const {
  int device = 0;
  size_t device_bytes = 0;
  if (driver_.DeviceTotalMem == nullptr ||
      driver_.PointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, use.base) !=
          CUDA_SUCCESS ||
      driver_.DeviceTotalMem(&device_bytes, device) != CUDA_SUCCESS) {
    device_bytes = kUnknownDeviceBytes;
  }
  const uint64_t segment = std::max<uint64_t>(device_bytes + device_bytes / 8, use.bytes);
  return 2 * (segment / kWindowUnit + 2) * kWindowUnit;  // a use may begin within a unit
}

// Returns reservations without mappings to the daemon, because they count against the tenant's
// quota.
void VirtualRanges::CloseEmptyWindows() {
  std::erase_if(windows_, [&](const std::unique_ptr<Window>& window) {
    DropLeft(*window);
    if (!window->chunks.empty() || !window->leaving.empty()) return false;
    wire::ReleaseBuffer message{};
    message.buffer_id = window->id;
    if (const auto request = client_.Send(message); request.ok()) client_.Forget(*request);
    return true;
  });
}

absl::StatusOr<VirtualRanges::Window*> VirtualRanges::OpenWindow(const AddressRange& use) {
  CloseEmptyWindows();
  auto window = std::make_unique<Window>();
  window->range.bytes = WindowBytes(use);
  const uint64_t half = window->range.bytes / 2;
  const uint64_t middle = use.base / kWindowUnit * kWindowUnit;
  window->range.base = middle > half ? middle - half : 0;
  wire::ReserveRange message{};
  message.bytes = window->range.bytes;
  driver_.PointerGetAttribute(&message.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, use.base);
  CUuuid uuid;
  if (driver_.DeviceGetUuid(&uuid, message.device) == CUDA_SUCCESS) {
    std::copy_n(uuid.bytes, sizeof(message.device_uuid), message.device_uuid);
  }
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, client_.Send(message));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, client_.Await(request, kMapTime));
  MCCS_ASSIGN_OR_RETURN(const auto registered, reply.As<wire::RegisterReply>());
  window->id = registered.buffer_id;
  windows_.push_back(std::move(window));
  return windows_.back().get();
}

VirtualRanges::Chunks::iterator VirtualRanges::FirstBeyond(Window& window, uint64_t address) {
  return mccs::FirstBeyond(window.chunks, address, [](const Chunk& chunk) { return chunk.bytes; });
}

std::optional<AddressRange> VirtualRanges::ChunksAround(uint32_t id,
                                                        const AddressRange& span) const {
  for (const auto& window : windows_) {
    if (window->id != id) continue;
    uint64_t first = window->range.base + span.base;
    uint64_t end = first + span.bytes;
    auto it = FirstBeyond(*window, first);
    if (it != window->chunks.end()) first = std::min(first, it->first);
    it = FirstBeyond(*window, end - 1);
    if (it != window->chunks.end() && it->first < end) end = it->first + it->second.bytes;
    return AddressRange{first, end - first};
  }
  return std::nullopt;
}

bool VirtualRanges::Knows(uint64_t address, unsigned long long cuda_id) const {
  for (const auto& window : windows_) {
    if (!window->range.Contains(address)) continue;
    const auto it = FirstBeyond(*window, address);
    if (it != window->chunks.end() && it->first <= address) return it->second.cuda_id == cuda_id;
  }
  return false;
}

bool VirtualRanges::empty() const {
  return std::all_of(windows_.begin(), windows_.end(), [](const auto& window) {
    return window->chunks.empty() && window->leaving.empty();
  });
}

// ---- Looking up, and mapping missing chunks --------------------------------------------------

absl::StatusOr<VirtualRanges::Found> VirtualRanges::Resolve(const AddressRange& use) {
  Found found;
  Window* window = WindowOf(use);
  if (window == nullptr) {
    MCCS_RETURN_IF_ERROR(CheckMapped(use));
    absl::StatusOr<Window*> opened = OpenWindow(use);
    if (!opened.ok() && client_.dead()) return opened.status();
    if (!opened.ok()) found.refusal = std::string(opened.status().message());
    if (opened.ok()) window = *opened;
  }
  if (window == nullptr) return found;
  const absl::Status mapped = MapMissing(*window, use, found);
  const absl::Status collected = Collect(*window, found);
  MCCS_RETURN_IF_ERROR(mapped);
  MCCS_RETURN_IF_ERROR(collected);
  if (!found.refusal.empty()) found.id = 0;
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

absl::Status VirtualRanges::MapMissing(Window& window, const AddressRange& use, Found& found) {
  found.id = window.id;
  found.offset = use.base - window.range.base;
  const ExportLeases::Use now = leases_.UsedNow();
  const uint64_t end = use.end();
  auto it = FirstBeyond(window, use.base);
  for (uint64_t at = use.base; at < end;) {
    const std::optional<unsigned long long> cuda_id = BufferIdOf(driver_, at);
    if (!cuda_id) return NothingAt(at);
    AddressRange chunk;
    Chunk* known = nullptr;
    if (it != window.chunks.end() && it->first <= at && it->second.cuda_id == *cuda_id) {
      chunk = {it->first, it->second.bytes};
      known = &it->second;
      ++it;
    } else {
      const std::optional<AddressRange> extent = ExtentOf(driver_, at);
      if (!extent || !extent->Contains(at)) return NothingAt(at);
      chunk = *extent;
      MCCS_ASSIGN_OR_RETURN(known, Add(window, chunk, *cuda_id, found));
      it = window.chunks.upper_bound(at);
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
absl::StatusOr<VirtualRanges::Chunk*> VirtualRanges::Add(Window& window, const AddressRange& chunk,
                                                         unsigned long long cuda_id, Found& found) {
  // The former mappings at these addresses are gone.
  TakeOut(
      window, chunk, [](const auto&, const auto&) { return true; }, nullptr);
  MCCS_ASSIGN_OR_RETURN(const UniqueFd fd, DescriptorOf(driver_, chunk.base));
  Chunk fresh{.bytes = chunk.bytes, .cuda_id = cuda_id, .shared = fd.valid(), .last_use = {}};
  if (fresh.shared) {
    if (!window.range.Contains(chunk)) {
      found.refusal = "it exceeds its reserved address range";
      return nullptr;
    }
    if (!IsFree(window, chunk)) {
      found.refusal = "the former mapping at these addresses is still in use";
      return nullptr;
    }
    if (asked_.size() == kMostAsked) MCCS_RETURN_IF_ERROR(Collect(window, found));
    ForgetUnmapped();
    wire::MapChunk message{};
    message.buffer_id = window.id;
    message.offset = chunk.base - window.range.base;
    message.bytes = chunk.bytes;
    MCCS_ASSIGN_OR_RETURN(const uint64_t request, client_.Send(message, fd.get()));
    asked_.push_back({chunk.base, request});
  }
  return &(window.chunks[chunk.base] = fresh);
}

// Removes the entries of chunks that the daemon has released.
void VirtualRanges::DropLeft(Window& window) {
  std::erase_if(window.leaving, [&](const Leaving& leaving) {
    return client_.dead() || client_.Poll(leaving.request).has_value();
  });
}

// Whether the daemon has released the former mappings of the range.
bool VirtualRanges::IsFree(Window& window, const AddressRange& range) {
  const auto until = std::chrono::steady_clock::now() + kFreeTime;
  for (PoliteWait wait;; wait.Pause()) {
    DropLeft(window);
    const bool free =
        std::none_of(window.leaving.begin(), window.leaving.end(),
                     [&](const Leaving& leaving) { return leaving.range.Overlaps(range); });
    if (free || std::chrono::steady_clock::now() >= until) return free;
  }
}

// Reads the replies to all requests. The next call requests rejected chunks again.
absl::Status VirtualRanges::Collect(Window& window, Found& found) {
  absl::Status broken;
  for (const Asked& asked : std::exchange(asked_, {})) {
    absl::Status answer = [&]() -> absl::Status {
      MCCS_ASSIGN_OR_RETURN(const Reply reply, client_.Await(asked.request, kMapTime));
      return reply.As<wire::Done>().status();
    }();
    if (answer.ok()) continue;
    window.chunks.erase(asked.address);
    found.refusal = std::string(answer.message());
    if (client_.dead()) broken = std::move(answer);
  }
  return broken;
}

// ---- Releasing -------------------------------------------------------------------------------

// Combines adjacent chunks into one message.
bool VirtualRanges::TakeOut(Window& window, const AddressRange& range, Chooser chosen,
                            std::vector<Leaving>* requests, size_t most) {
  AddressRange run;
  const auto send = [&] {
    if (run.bytes == 0) return;
    wire::UnmapChunks message{};
    message.buffer_id = window.id;
    message.offset = run.base - window.range.base;
    message.bytes = run.bytes;
    if (const auto request = client_.Send(message); request.ok()) {
      (requests != nullptr ? *requests : window.leaving).push_back({run, *request});
    }
    run = {};
  };
  for (auto it = FirstBeyond(window, range.base); it != window.chunks.end();) {
    const AddressRange chunk{it->first, it->second.bytes};
    if (!chunk.Overlaps(range)) break;
    if (!chosen(chunk, it->second.last_use)) {
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
    it = window.chunks.erase(it);
  }
  send();
  return true;
}

bool VirtualRanges::BeginLettingGo(const AddressRange& range, Chooser chosen,
                                   std::vector<Leaving>* requests) {
  const size_t before = requests->size();
  for (const auto& window : windows_) {
    std::erase_if(window->leaving, [&](const Leaving& leaving) {
      if (!leaving.range.Overlaps(range)) return false;
      requests->push_back(leaving);
      return true;
    });
    TakeOut(*window, range, chosen, requests);
  }
  return requests->size() != before;
}

bool VirtualRanges::LetGoOf(Chooser chosen, size_t most) {
  for (const auto& window : windows_) {
    const size_t before = window->leaving.size();
    if (!TakeOut(*window, window->range, chosen, nullptr, most)) return false;
    most -= std::min(most, window->leaving.size() - before);
  }
  CloseEmptyWindows();
  return true;
}

size_t VirtualRanges::CountUnanswered() {
  size_t count = 0;
  for (const auto& window : windows_) {
    DropLeft(*window);
    count += window->leaving.size();
  }
  return count;
}

// Bounds the number of chunks that a program unmaps unseen.
void VirtualRanges::ForgetUnmapped() {
  for (int i = 0; i < kCheckedPerChunk; ++i) {
    Window* window = nullptr;
    uint64_t next = 0;
    for (const auto& each : windows_) {  // the next higher address, over all reserved ranges
      const auto it = each->chunks.upper_bound(checked_up_to_);
      if (it == each->chunks.end() || (window != nullptr && it->first >= next)) continue;
      window = each.get();
      next = it->first;
    }
    checked_up_to_ = next;  // 0 if there is none: restart from the beginning
    if (window == nullptr) return;
    const Chunk& chunk = window->chunks.at(next);
    if (BufferIdOf(driver_, next) == chunk.cuda_id) continue;
    TakeOut(
        *window, {next, 1}, [](const auto&, const auto&) { return true; }, nullptr);
  }
}

}  // namespace mccs::shim

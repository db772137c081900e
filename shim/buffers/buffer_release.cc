// How exports end: the part of BufferExports that releases buffers at the daemon.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shim/buffers/buffer_export.h"
#include "shim/config/diagnostics.h"
#include "shim/daemon/fence.h"

namespace mccs::shim {
namespace {

// Each export checks this many others for memory that was freed unseen, so leaked exports stay
// bounded by what the program uses.
constexpr int kCheckedPerExport = 8;
// The reader sends requests while it reads nothing, and the daemon ends a session whose socket is
// full of replies. So the number of outstanding requests is limited.
constexpr size_t kMaxUnanswered = 64;
constexpr std::chrono::milliseconds kRetryInterval{10};

wire::ReleaseBuffer ReleaseOf(const ExportedBuffer& buffer) {
  wire::ReleaseBuffer message{};
  message.buffer_id = buffer.id;
  return message;
}

}  // namespace

BufferExports::BufferExports(const DriverApi& driver, const VirtualAllocations& allocations,
                             DaemonClient& client, std::chrono::milliseconds lease)
    : driver_(driver),
      allocations_(allocations),
      client_(client),
      leases_(lease),
      virtual_(driver, client, leases_) {
  if (!leases_.unlimited()) client_.SetReaderCallback([this] { return EndLeases(); });
}

BufferExports::~BufferExports() { client_.SetReaderCallback(nullptr); }

BufferExports::Entries::iterator BufferExports::FirstAfter(uint64_t address) {
  return mccs::FirstAfter(entries_, address,
                          [](const Entry& entry) { return entry.buffer.range.bytes; });
}

// ---- Frees that were not seen ----------------------------------------------------------------

BufferExports::Entries::iterator BufferExports::DropFreed(Entries::iterator gone) {
  if (auto request = client_.Send(ReleaseOf(gone->second.buffer)); request.ok()) {
    client_.IgnoreReply(*request);
  }
  return entries_.erase(gone);
}

void BufferExports::ReleaseFreed() {
  for (int i = 0; i < kCheckedPerExport && !entries_.empty(); ++i) {
    auto it = entries_.upper_bound(checked_up_to_);
    if (it == entries_.end()) it = entries_.begin();
    checked_up_to_ = it->first;
    unsigned long long cuda_id = 0;
    const CUresult known =
        driver_.PointerGetAttribute(&cuda_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, it->first);
    const bool freed = known == CUDA_ERROR_INVALID_VALUE ||
                       (known == CUDA_SUCCESS && cuda_id != it->second.buffer.cuda_id);
    if (freed) DropFreed(it);
  }
}

// ---- Frees that were seen --------------------------------------------------------------------

bool BufferExports::ReleaseRange(const AddressRange& range) { return ReleaseRange(range, true); }

bool BufferExports::ReleaseUnlessPinned(const AddressRange& range) {
  return ReleaseRange(range, false);
}

bool BufferExports::ReleaseRange(const AddressRange& range, bool pinned_too) {
  if (!has_exports_.load(std::memory_order_acquire) || client_.dead()) return true;
  const Clock::time_point until = Clock::now() + kReleaseTimeout;
  const auto requests = BeginRelease(range, pinned_too, until);
  std::vector<PendingRelease> late;
  for (const PendingRelease& pending : requests.value_or(std::vector<PendingRelease>{})) {
    const auto left = std::max(until - Clock::now(), Clock::duration::zero());
    if (client_.WaitFor(pending.request, std::chrono::ceil<std::chrono::milliseconds>(left))) {
      client_.IgnoreReply(pending.request);
    } else {
      late.push_back(pending);
    }
  }
  if (requests.has_value() && late.empty()) return true;
  WarnDelayedRelease(range);
  // A second free of the same memory must wait, too.
  std::lock_guard lock(late_mutex_);
  late_releases_.insert(late_releases_.end(), late.begin(), late.end());
  has_exports_ = true;
  return false;
}

void BufferExports::CollectLateReleases() {
  std::lock_guard lock(late_mutex_);
  pending_releases_.insert(pending_releases_.end(), late_releases_.begin(), late_releases_.end());
  late_releases_.clear();
}

std::optional<std::vector<BufferExports::PendingRelease>> BufferExports::BeginRelease(
    const AddressRange& range, bool pinned_too, Clock::time_point until) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (BackoffWait wait; !lock; wait.Pause()) {
    if (Clock::now() >= until) return std::nullopt;
    (void)lock.try_lock();
  }
  CollectLateReleases();
  std::vector<PendingRelease> requests;
  std::erase_if(pending_releases_, [&](const PendingRelease& pending) {
    if (!pending.range.Overlaps(range)) return client_.Poll(pending.request).has_value();
    requests.push_back(pending);
    return true;
  });
  bool any = false;
  for (auto it = FirstAfter(range.base);
       it != entries_.end() && it->second.buffer.range.Overlaps(range);) {
    if (!pinned_too && leases_.IsPinned(it->second.buffer.range)) {
      ++it;
      continue;
    }
    any = true;
    const auto request = client_.Send(ReleaseOf(it->second.buffer));
    if (request.ok()) requests.push_back({it->second.buffer.range, *request});
    it = entries_.erase(it);
  }
  any |= virtual_.BeginRelease(
      range,
      [&](const AddressRange& chunk, const ExportLeases::Use&) {
        return pinned_too || !leases_.IsPinned(chunk);
      },
      &requests);
  if (any) leases_.BeginGeneration();
  return requests;
}

void BufferExports::WarnDelayedRelease(const AddressRange& range) {
  if (warned_.exchange(true) || !IsLogged(Verbosity::kWarn)) return;
  LogLine(Verbosity::kWarn,
          absl::StrCat("memory at 0x", absl::Hex(range.base),
                       " is freed, but the MCCS daemon did not release it within ",
                       kReleaseTimeout.count(),
                       " s: an operation still uses it; complete operations before you free their "
                       "buffers"));
}

// ---- Leases ----------------------------------------------------------------------------------

std::optional<BufferExports::Clock::time_point> BufferExports::EndLeases() {
  if (!has_exports_.load(std::memory_order_acquire)) {
    watching_ = false;
    return std::nullopt;
  }
  const Clock::time_point now = Clock::now();
  if (!std::exchange(watching_, true)) leases_.Start(now);
  const ExportLeases::Step step = leases_.Poll(now);
  if (!step.may_expire) return step.next;
  return EndLeasesNow(now) ? Clock::now() : now + kRetryInterval;
}

// False if it must be repeated.
bool BufferExports::EndLeasesNow(Clock::time_point now) {
  // The lock's owner may be waiting for a reply that this thread has to read.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  CollectLateReleases();
  std::erase_if(pending_releases_,
                [this](const PendingRelease& l) { return client_.Poll(l.request).has_value(); });
  size_t unanswered = pending_releases_.size() + virtual_.CountUnanswered();
  for (auto it = entries_.begin(); it != entries_.end();) {
    const AddressRange range = it->second.buffer.range;
    if (!leases_.HasExpired(it->second.last_use, range, now)) {
      ++it;
      continue;
    }
    if (unanswered >= kMaxUnanswered) return false;
    const auto request = client_.Send(ReleaseOf(it->second.buffer));
    if (!request.ok()) return true;  // the daemon is dead
    pending_releases_.push_back({range, *request});
    it = entries_.erase(it);
    ++unanswered;
  }
  const bool all_ended = virtual_.ReleaseMatching(
      [&](const AddressRange& chunk, const ExportLeases::Use& last_use) {
        return leases_.HasExpired(last_use, chunk, now);
      },
      kMaxUnanswered - std::min(unanswered, kMaxUnanswered));
  if (!all_ended) return false;
  leases_.EndRound(now);
  std::lock_guard late_lock(late_mutex_);
  if (entries_.empty() && pending_releases_.empty() && late_releases_.empty() && virtual_.empty())
    has_exports_ = false;
  return true;
}

}  // namespace mccs::shim

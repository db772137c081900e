// How exports end: the part of BufferExports that releases buffers at the daemon.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shim/buffer_export.h"
#include "shim/diagnostics.h"
#include "shim/fence.h"

namespace mccs::shim {
namespace {

// Each export checks this many others for memory that was freed unseen, so leaked exports stay
// bounded by what the program uses.
constexpr int kCheckedPerExport = 8;
// The reader sends requests while it reads nothing, and the daemon ends a session whose socket is
// full of replies. So the number of outstanding requests is limited.
constexpr size_t kMostUnanswered = 64;
constexpr std::chrono::milliseconds kAgain{10};

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
  if (!leases_.endless()) client_.SetChore([this] { return EndLeases(); });
}

BufferExports::~BufferExports() { client_.SetChore(nullptr); }

BufferExports::Entries::iterator BufferExports::FirstBeyond(uint64_t address) {
  return mccs::FirstBeyond(entries_, address,
                           [](const Entry& entry) { return entry.buffer.range.bytes; });
}

// ---- Frees that were not seen ----------------------------------------------------------------

BufferExports::Entries::iterator BufferExports::Forget(Entries::iterator gone) {
  if (auto request = client_.Send(ReleaseOf(gone->second.buffer)); request.ok()) {
    client_.Forget(*request);
  }
  return entries_.erase(gone);
}

void BufferExports::ForgetFreed() {
  for (int i = 0; i < kCheckedPerExport && !entries_.empty(); ++i) {
    auto it = entries_.upper_bound(checked_up_to_);
    if (it == entries_.end()) it = entries_.begin();
    checked_up_to_ = it->first;
    unsigned long long cuda_id = 0;
    const CUresult known =
        driver_.PointerGetAttribute(&cuda_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, it->first);
    const bool freed = known == CUDA_ERROR_INVALID_VALUE ||
                       (known == CUDA_SUCCESS && cuda_id != it->second.buffer.cuda_id);
    if (freed) Forget(it);
  }
}

// ---- Frees that were seen --------------------------------------------------------------------

bool BufferExports::LetGo(const AddressRange& range) { return LetGo(range, true); }

bool BufferExports::LetGoUnlessKept(const AddressRange& range) { return LetGo(range, false); }

bool BufferExports::LetGo(const AddressRange& range, bool kept_too) {
  if (!any_.load(std::memory_order_acquire) || client_.dead()) return true;
  const Clock::time_point until = Clock::now() + kLetGoTime;
  const auto requests = BeginLettingGo(range, kept_too, until);
  std::vector<Leaving> late;
  for (const Leaving& leaving : requests.value_or(std::vector<Leaving>{})) {
    const auto left = std::max(until - Clock::now(), Clock::duration::zero());
    if (client_.WaitFor(leaving.request, std::chrono::ceil<std::chrono::milliseconds>(left))) {
      client_.Forget(leaving.request);
    } else {
      late.push_back(leaving);
    }
  }
  if (requests.has_value() && late.empty()) return true;
  WarnOfDelay(range);
  // A second free of the same memory must wait, too.
  std::lock_guard lock(late_mutex_);
  late_.insert(late_.end(), late.begin(), late.end());
  any_ = true;
  return false;
}

void BufferExports::TakeInLate() {
  std::lock_guard lock(late_mutex_);
  leaving_.insert(leaving_.end(), late_.begin(), late_.end());
  late_.clear();
}

std::optional<std::vector<BufferExports::Leaving>> BufferExports::BeginLettingGo(
    const AddressRange& range, bool kept_too, Clock::time_point until) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (PoliteWait wait; !lock; wait.Pause()) {
    if (Clock::now() >= until) return std::nullopt;
    (void)lock.try_lock();
  }
  TakeInLate();
  std::vector<Leaving> requests;
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    if (!leaving.range.Overlaps(range)) return client_.Poll(leaving.request).has_value();
    requests.push_back(leaving);
    return true;
  });
  bool any = false;
  for (auto it = FirstBeyond(range.base);
       it != entries_.end() && it->second.buffer.range.Overlaps(range);) {
    if (!kept_too && leases_.IsKept(it->second.buffer.range)) {
      ++it;
      continue;
    }
    any = true;
    const auto request = client_.Send(ReleaseOf(it->second.buffer));
    if (request.ok()) requests.push_back({it->second.buffer.range, *request});
    it = entries_.erase(it);
  }
  any |= virtual_.BeginLettingGo(
      range,
      [&](const AddressRange& chunk, const ExportLeases::Use&) {
        return kept_too || !leases_.IsKept(chunk);
      },
      &requests);
  if (any) leases_.BeginGeneration();
  return requests;
}

void BufferExports::WarnOfDelay(const AddressRange& range) {
  if (warned_.exchange(true) || !Shows(Verbosity::kWarn)) return;
  Say(Verbosity::kWarn,
      absl::StrCat("memory at 0x", absl::Hex(range.base),
                   " is freed while the MCCS daemon still maps it: no release within ",
                   kLetGoTime.count(), " s, because an operation with it is not complete"));
}

// ---- Leases ----------------------------------------------------------------------------------

std::optional<BufferExports::Clock::time_point> BufferExports::EndLeases() {
  if (!any_.load(std::memory_order_acquire)) {
    watching_ = false;
    return std::nullopt;
  }
  const Clock::time_point now = Clock::now();
  if (!std::exchange(watching_, true)) leases_.Start(now);
  const ExportLeases::Step step = leases_.Poll(now);
  if (!step.may_end) return step.next;
  return EndLeasesNow(now) ? Clock::now() : now + kAgain;
}

// False if it must be repeated.
bool BufferExports::EndLeasesNow(Clock::time_point now) {
  // The lock's owner may be waiting for a reply that this thread has to read.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  TakeInLate();
  std::erase_if(leaving_, [this](const Leaving& l) { return client_.Poll(l.request).has_value(); });
  size_t unanswered = leaving_.size() + virtual_.CountUnanswered();
  for (auto it = entries_.begin(); it != entries_.end();) {
    const AddressRange range = it->second.buffer.range;
    if (!leases_.HasEnded(it->second.last_use, range, now)) {
      ++it;
      continue;
    }
    if (unanswered >= kMostUnanswered) return false;
    const auto request = client_.Send(ReleaseOf(it->second.buffer));
    if (!request.ok()) return true;  // the daemon is dead
    leaving_.push_back({range, *request});
    it = entries_.erase(it);
    ++unanswered;
  }
  const bool all_ended = virtual_.LetGoOf(
      [&](const AddressRange& chunk, const ExportLeases::Use& last_use) {
        return leases_.HasEnded(last_use, chunk, now);
      },
      kMostUnanswered - std::min(unanswered, kMostUnanswered));
  if (!all_ended) return false;
  leases_.RoundDone(now);
  std::lock_guard late_lock(late_mutex_);
  if (entries_.empty() && leaving_.empty() && late_.empty() && virtual_.empty()) any_ = false;
  return true;
}

}  // namespace mccs::shim

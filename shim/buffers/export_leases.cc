#include "shim/buffers/export_leases.h"

#include <algorithm>

namespace mccs::shim {

// ---- Kept ranges -----------------------------------------------------------------------------

void ExportLeases::Pin(const AddressRange& range) {
  std::lock_guard lock(pinned_mutex_);
  pinned_.push_back(range);
}

void ExportLeases::Unpin(const AddressRange& range) {
  std::lock_guard lock(pinned_mutex_);
  const auto found = std::find(pinned_.begin(), pinned_.end(), range);
  if (found != pinned_.end()) pinned_.erase(found);
}

bool ExportLeases::IsPinned(const AddressRange& range) const {
  std::lock_guard lock(pinned_mutex_);
  return std::any_of(pinned_.begin(), pinned_.end(),
                     [&](const AddressRange& kept) { return kept.Overlaps(range); });
}

// ---- Rounds ----------------------------------------------------------------------------------

void ExportLeases::Start(Clock::time_point now) {
  next_ = now + lease_ / 2;
  polling_ = false;
}

ExportLeases::Step ExportLeases::Poll(Clock::time_point now) {
  if (now < next_) return {next_};
  if (!polling_) {
    polling_ = true;
    polls_ = 0;
    BeginGeneration();
  }
  if (AllHavePosted()) return {.next = now + kPollInterval, .may_expire = true};
  if (++polls_ == kMaxPolls) {
    EndRound(now);
  } else {
    next_ = now + kPollInterval;
  }
  return {next_};
}

// A lock that is held belongs to a communicator that is posting. Taking the lock once also orders
// its threads' earlier work before the work that follows here.
bool ExportLeases::AllHavePosted() {
  std::lock_guard lock(users_mutex_);
  const uint64_t now = generation();
  bool all = true;
  for (UnpostedCalls* user : users_) {
    if (user->idle_generation_ == now) continue;
    std::unique_lock submit_lock(user->submit_lock_, std::try_to_lock);
    if (submit_lock && user->count_ == 0) user->idle_generation_ = now;
    all &= user->idle_generation_ == now;
  }
  if (all) all_posted_generation_ = now;
  return all;
}

bool ExportLeases::HasExpired(const Use& last, const AddressRange& range,
                              Clock::time_point now) const {
  return last.generation < all_posted_generation_ && now - last.when >= lease_ && !IsPinned(range);
}

void ExportLeases::EndRound(Clock::time_point now) { Start(now); }

// ---- Lookups ---------------------------------------------------------------------------------

UnpostedCalls::UnpostedCalls(ExportLeases& leases, std::mutex& submit_lock)
    : leases_(leases), submit_lock_(submit_lock) {
  std::lock_guard lock(leases_.users_mutex_);
  leases_.users_.push_back(this);
}

UnpostedCalls::~UnpostedCalls() {
  std::lock_guard lock(leases_.users_mutex_);
  std::erase(leases_.users_, this);
}

}  // namespace mccs::shim

#include "shim/export_leases.h"

#include <algorithm>

namespace mccs::shim {

// ---- Kept ranges -----------------------------------------------------------------------------

void ExportLeases::Keep(const AddressRange& range) {
  std::lock_guard lock(kept_mutex_);
  kept_.push_back(range);
}

void ExportLeases::EndKeep(const AddressRange& range) {
  std::lock_guard lock(kept_mutex_);
  const auto found = std::find(kept_.begin(), kept_.end(), range);
  if (found != kept_.end()) kept_.erase(found);
}

bool ExportLeases::IsKept(const AddressRange& range) const {
  std::lock_guard lock(kept_mutex_);
  return std::any_of(kept_.begin(), kept_.end(),
                     [&](const AddressRange& kept) { return kept.Overlaps(range); });
}

// ---- Rounds ----------------------------------------------------------------------------------

void ExportLeases::Start(Clock::time_point now) {
  next_ = now + lease_ / 2;
  asking_ = false;
}

ExportLeases::Step ExportLeases::Poll(Clock::time_point now) {
  if (now < next_) return {next_};
  if (!asking_) {
    asking_ = true;
    questions_ = 0;
    BeginGeneration();
  }
  if (AllHavePosted()) return {.next = now + kBetweenQuestions, .may_end = true};
  if (++questions_ == kMostQuestions) {
    RoundDone(now);
  } else {
    next_ = now + kBetweenQuestions;
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
    if (user->seen_without_ == now) continue;
    std::unique_lock submit_lock(user->submit_lock_, std::try_to_lock);
    if (submit_lock && user->count_ == 0) user->seen_without_ = now;
    all &= user->seen_without_ == now;
  }
  if (all) quiet_ = now;
  return all;
}

bool ExportLeases::HasEnded(const Use& last, const AddressRange& range,
                            Clock::time_point now) const {
  return last.generation < quiet_ && now - last.when >= lease_ && !IsKept(range);
}

void ExportLeases::RoundDone(Clock::time_point now) { Start(now); }

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

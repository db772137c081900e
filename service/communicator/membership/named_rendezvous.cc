#include "service/communicator/membership/named_rendezvous.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {

NamedRendezvous::Seeker::Seeker(NamedRendezvous& named, CommId id, Waker* waker)
    : named_(named), id_(id), waker_(waker) {
  named_.seekers_.emplace(id, this);
  named_.changed_ = true;
  if (named_.open_.contains(id)) {
    found_ = named_.Here(id);
  } else if (const auto known = named_.answers_.find(id); known != named_.answers_.end()) {
    found_ = known->second;
  }
}

NamedRendezvous::Seeker::~Seeker() {
  auto [it, end] = named_.seekers_.equal_range(id_);
  while (it != end && it->second != this) ++it;
  named_.seekers_.erase(it);
  named_.changed_ = true;
}

absl::Status NamedRendezvous::Open(CommId id, const std::string& tenant) {
  if (open_.contains(id)) return absl::OkStatus();
  const auto held =
      std::ranges::count_if(open_, [&](const auto& entry) { return entry.second == tenant; });
  if (held >= kMaxNamedRendezvousPerTenant) {
    return absl::ResourceExhaustedError(
        absl::StrCat("NCCL_COMM_ID: ranks of ", held,
                     " jobs of this tenant are still joining on this host, which is the limit; "
                     "retry when they have joined, or use ncclGetUniqueId"));
  }
  open_.emplace(id, tenant);
  changed_ = true;
  Answer(Here(id));
  return absl::OkStatus();
}

FoundRendezvous NamedRendezvous::Here(CommId id) const {
  FoundRendezvous here = own_;
  here.id = id;
  return here;
}

void NamedRendezvous::Answer(const FoundRendezvous& found) {
  const auto [begin, end] = seekers_.equal_range(found.id);
  for (auto it = begin; it != end; ++it) {
    it->second->found_ = found;
    it->second->waker_->Wake();
  }
}

bool NamedRendezvous::Poll() {
  bool moved = false;
  while (const std::optional<FoundRendezvous> found = controller_.TakeFoundRendezvous()) {
    answers_[found->id] = *found;
    Answer(*found);
    moved = true;
  }
  DropThoseThatAreOver();
  if (!std::exchange(changed_, false)) return moved;
  Send();
  return true;
}

void NamedRendezvous::DropThoseThatAreOver() {
  if (std::exchange(seen_ended_, rendezvous_.ended()) == rendezvous_.ended()) return;
  changed_ |= std::erase_if(open_, [this](const auto& entry) {
                return !rendezvous_.SecretOf(entry.first).has_value();
              }) > 0;
}

void NamedRendezvous::Send() {
  agent::v1::NamedRendezvous all;
  for (const auto& [id, tenant] : open_) {
    if (all.open_size() == kMaxNamedRendezvous) break;
    all.add_open(id.value());
  }
  for (auto it = seekers_.begin(); it != seekers_.end(); it = seekers_.upper_bound(it->first)) {
    if (all.sought_size() == kMaxNamedRendezvous) break;
    if (!open_.contains(it->first)) all.add_sought(it->first.value());
  }
  std::erase_if(answers_, [this](const auto& entry) { return !seekers_.contains(entry.first); });
  controller_.SetNamedRendezvous(all);
}

}  // namespace mccs

#include "service/communicator/membership/named_rendezvous.h"

#include <algorithm>
#include <list>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace mccs {

NamedRendezvous::Seeker::Seeker(NamedRendezvous& named, CommId id, const std::string& tenant,
                                Waker* waker)
    : named_(named), id_(id), tenant_(tenant), waker_(waker) {
  named_.Begin(*this);
}

NamedRendezvous::Seeker::~Seeker() { named_.End(*this); }

void NamedRendezvous::Begin(Seeker& seeker) {
  Tenant& tenant = tenants_[seeker.tenant_];
  if (tenant.active.size() < kMaxNamedRendezvousPerTenant) return Activate(tenant, seeker);
  seeker.place_ = tenant.waiting.insert(tenant.waiting.end(), &seeker);
}

void NamedRendezvous::Activate(Tenant& tenant, Seeker& seeker) {
  seeker.active_ = true;
  seeker.place_ = tenant.active.insert(tenant.active.end(), &seeker);
  seekers_.emplace(seeker.id_, &seeker);
  changed_ = true;
  if (open_.contains(seeker.id_)) {
    seeker.found_ = Here(seeker.id_);
  } else if (const auto known = answers_.find(seeker.id_); known != answers_.end()) {
    seeker.found_ = known->second;
  }
  if (seeker.found_.has_value()) seeker.waker_->Wake();
}

void NamedRendezvous::End(Seeker& seeker) {
  const auto own = tenants_.find(seeker.tenant_);
  Tenant& tenant = own->second;
  (seeker.active_ ? tenant.active : tenant.waiting).erase(seeker.place_);
  if (seeker.active_) {
    auto [it, end] = seekers_.equal_range(seeker.id_);
    while (it != end && it->second != &seeker) ++it;
    seekers_.erase(it);
    changed_ = true;
    if (!tenant.waiting.empty()) {
      Seeker& next = *tenant.waiting.front();
      tenant.waiting.pop_front();
      Activate(tenant, next);
    }
  }
  if (tenant.active.empty()) tenants_.erase(own);
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
  const MonotonicNs now = clock_.Now();
  if (!changed_ || now < next_message_) return moved;
  changed_ = false;
  next_message_ = now + kNamedRendezvousIntervalNs;
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
  absl::flat_hash_set<CommId> sought;
  const auto add = [&](const Seeker& seeker) {
    if (open_.contains(seeker.id_) || !sought.insert(seeker.id_).second) return;
    all.add_sought(seeker.id_.value());
  };
  struct Rest {
    std::list<Seeker*>::const_iterator next, end;
  };
  std::vector<Rest> rests;
  for (const auto& [name, tenant] : tenants_)
    rests.push_back({tenant.active.begin(), tenant.active.end()});
  while (!rests.empty() && all.sought_size() < kMaxNamedRendezvous) {
    for (Rest& rest : rests) {
      if (all.sought_size() < kMaxNamedRendezvous) add(**rest.next++);
    }
    std::erase_if(rests, [](const Rest& rest) { return rest.next == rest.end; });
  }
  std::erase_if(answers_, [this](const auto& entry) { return !seekers_.contains(entry.first); });
  controller_.SetNamedRendezvous(all);
}

}  // namespace mccs

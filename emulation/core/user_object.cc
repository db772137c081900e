#include "emulation/core/user_object.h"

namespace mccs::emulation {

void UserReferences::Add(const std::shared_ptr<UserObject>& object, uint64_t count) {
  counts_[object] += count;
}

bool UserReferences::Remove(const std::shared_ptr<UserObject>& object, uint64_t count) {
  const auto found = counts_.find(object);
  if (found == counts_.end() || found->second < count) return false;
  found->second -= count;
  if (found->second == 0) counts_.erase(found);
  return true;
}

UserReferences UserReferences::Duplicate() const {
  for (const auto& [object, count] : counts_) object->references.fetch_add(count);
  return *this;
}

std::vector<std::shared_ptr<UserObject>> UserReferences::ReleaseAll() {
  std::vector<std::shared_ptr<UserObject>> unused;
  for (const auto& [object, count] : counts_) {
    if (object->references.fetch_sub(count) == count) unused.push_back(object);
  }
  counts_.clear();
  return unused;
}

}  // namespace mccs::emulation

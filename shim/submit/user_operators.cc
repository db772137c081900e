#include "shim/submit/user_operators.h"

#include "absl/strings/str_cat.h"

namespace mccs::shim {
absl::StatusOr<int> UserOperators::Add(const PreMulSum& made, OperatorNumbers& numbers) {
  std::lock_guard lock(mutex_);
  if (operators_.size() >= kMaxOperators) {
    return absl::FailedPreconditionError(
        absl::StrCat("the communicator has ", operators_.size(),
                     " reduction operators, which is the limit; destroy unused ones"));
  }
  for (;;) {
    const int number = numbers.Next();
    if (operators_.emplace(number, made).second) return number;
  }
}

std::optional<PreMulSum> UserOperators::Find(int number) const {
  std::lock_guard lock(mutex_);
  const auto found = operators_.find(number);
  if (found == operators_.end()) return std::nullopt;
  return found->second;
}

bool UserOperators::Remove(int number) {
  std::lock_guard lock(mutex_);
  return operators_.erase(number) != 0;
}

}  // namespace mccs::shim

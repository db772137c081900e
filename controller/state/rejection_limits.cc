#include "controller/state/rejection_limits.h"

#include <utility>

namespace mccs {

std::optional<uint64_t> RejectionLimits::Admit(const std::string& user, UnixNs now) {
  if (operators_.size() >= kMaxOperators && !operators_.contains(user)) {
    std::erase_if(operators_, [&](const auto& entry) {
      return entry.second.tokens.IsFull(now) && entry.second.unlisted == 0;
    });
  }
  const bool shared = operators_.size() >= kMaxOperators && !operators_.contains(user);
  OfOperator& of = operators_[shared ? std::string() : user];
  if (!of.tokens.Take(now)) {
    ++of.unlisted;
    return std::nullopt;
  }
  return std::exchange(of.unlisted, 0);
}

}  // namespace mccs

// Limits how many rejected requests of one operator the audit log lists, so that a flood of them
// does not push out the entries of others.
//
// OWNER: the Catalog. THREAD: the owner's mutex.
#ifndef MCCS_CONTROLLER_STATE_REJECTION_LIMITS_H_
#define MCCS_CONTROLLER_STATE_REJECTION_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "controller/state/burst_limit.h"

namespace mccs {

class RejectionLimits {
 public:
  // At once, and then one per interval: 100,000 entries, all that a store keeps, take 69 days.
  static constexpr int kBurst = 20;
  static constexpr int64_t kIntervalNs = 60 * kNsPerSec;
  // Operators that are told apart; further ones count as one.
  static constexpr size_t kMaxOperators = 1024;

  // Whether a rejection at `now` is listed. If so, the number of those before it that were not;
  // else nothing.
  std::optional<uint64_t> Admit(const std::string& user, UnixNs now);

 private:
  struct OfOperator {
    BurstLimit tokens{kBurst, kIntervalNs};
    uint64_t unlisted = 0;
  };

  std::map<std::string, OfOperator> operators_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_REJECTION_LIMITS_H_

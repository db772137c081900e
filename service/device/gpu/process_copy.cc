#include "service/device/gpu/process_copy.h"

#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<bool> ProcessCopy::Advance() {
  // Its memory has ended with it, or its rank has left. Departures decide what becomes of the
  // communicator.
  if (!process_->alive()) return true;
  if (abandoned()) {
    if (number_ != 0) process_->ForgetCopy(number_);
    return true;
  }
  if (number_ != 0) return process_->TakeCopied(number_);
  MCCS_ASSIGN_OR_RETURN(const uint64_t from, AddressOf(*process_, from_));
  MCCS_ASSIGN_OR_RETURN(const uint64_t to, AddressOf(*process_, to_));
  if (from == 0 || to == 0) return false;
  number_ = process_->StartCopy(to, from, to_.bytes);
  return false;
}

}  // namespace mccs

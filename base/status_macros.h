// Return an error to the caller unchanged: for functions with absl::Status or absl::StatusOr.
#ifndef MCCS_BASE_STATUS_MACROS_H_
#define MCCS_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define MCCS_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                     \
    if (absl::Status mccs_status_ = (expression); !mccs_status_.ok()) return mccs_status_; \
  } while (false)

#define MCCS_CONCAT_INNER_(a, b) a##b
#define MCCS_CONCAT_(a, b) MCCS_CONCAT_INNER_(a, b)

// MCCS_ASSIGN_OR_RETURN(auto x, F()): declares or assigns x from a StatusOr.
#define MCCS_ASSIGN_OR_RETURN(lhs, expression) \
  MCCS_ASSIGN_OR_RETURN_IMPL_(MCCS_CONCAT_(mccs_status_or_, __LINE__), lhs, expression)

#define MCCS_ASSIGN_OR_RETURN_IMPL_(holder, lhs, expression) \
  auto holder = (expression);                                \
  if (!holder.ok()) return std::move(holder).status();       \
  lhs = *std::move(holder)

#endif  // MCCS_BASE_STATUS_MACROS_H_

// MCCS_CHECK: an internal invariant. A violation is a bug in this program and aborts it. Input of
// tenants or peers is not checked by it: invalid input is an absl::Status.
#ifndef MCCS_BASE_CHECK_H_
#define MCCS_BASE_CHECK_H_

#include <string_view>

namespace mccs {

// Writes the line about a violated invariant, and what the program has logged before it. THREAD:
// any. Blocks for a limited time.
using CheckFailureWriter = void (*)(std::string_view line);

// Replaces the writer of this process; null: writes to stderr, the default.
void SetCheckFailureWriter(CheckFailureWriter writer);

[[noreturn]] void AbortForFailedCheck(const char* file, int line, const char* condition);

}  // namespace mccs

#define MCCS_CHECK(condition)                                      \
  do {                                                             \
    if (__builtin_expect(!(condition), 0)) {                       \
      ::mccs::AbortForFailedCheck(__FILE__, __LINE__, #condition); \
    }                                                              \
  } while (false)

#endif  // MCCS_BASE_CHECK_H_

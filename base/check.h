// MCCS_CHECK: an internal invariant. A violation is a bug in this program and aborts it. Input of
// tenants or peers is not checked by it: invalid input is an absl::Status.
#ifndef MCCS_BASE_CHECK_H_
#define MCCS_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define MCCS_CHECK(condition)                                                                  \
  do {                                                                                         \
    if (__builtin_expect(!(condition), 0)) {                                                   \
      std::fprintf(stderr, "%s:%d: violated invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                            \
    }                                                                                          \
  } while (false)

#endif  // MCCS_BASE_CHECK_H_

// MCCS_CHECK: an invariant of our own. A violation is a defect of this program and aborts it.
// What a tenant or a peer sends is never an invariant: that is an absl::Status.
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

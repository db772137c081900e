// The result of a test, for one rank and for all of them.
#ifndef TESTS_CONFORMANCE_OUTCOME_H_
#define TESTS_CONFORMANCE_OUTCOME_H_

#include <cstdint>
#include <string>

namespace conformance {

enum class Outcome : uint32_t {
  kPassed,
  kIdle,     // this rank does not take part in the test
  kSkipped,  // with a reason
  kStopped,  // because another rank had failed
  kFailed,
};

struct Verdict {
  Outcome outcome = Outcome::kPassed;
  std::string text;  // why it failed or was skipped; one line
  double seconds = 0;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_OUTCOME_H_

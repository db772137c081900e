// Matchers for messages: what a message must name, not its wording. Whole messages are in golden
// files (tests/unit/golden.h).
#ifndef MCCS_TESTS_UNIT_MENTIONS_H_
#define MCCS_TESTS_UNIT_MENTIONS_H_

#include <gmock/gmock.h>

namespace mccs {

// The message contains each of `fields`: place, object, field, value, remedy's keyword.
template <typename... Field>
auto Mentions(const Field&... fields) {
  return testing::AllOf(testing::HasSubstr(fields)...);
}

// Likewise, and it is the only message: one line.
template <typename... Field>
auto OneLineMentions(const Field&... fields) {
  return testing::AllOf(testing::Not(testing::HasSubstr("\n")), testing::HasSubstr(fields)...);
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_MENTIONS_H_

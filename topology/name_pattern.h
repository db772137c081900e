// Short forms of many names, as cluster tools write them:
//
//   h[1-4]          h1 h2 h3 h4
//   h[08-11]        h08 h09 h10 h11
//   r[0-1]-h[0,2]   r0-h0 r0-h2 r1-h0 r1-h2
//   spine0,leaf[0-1]  spine0 leaf0 leaf1
#ifndef MCCS_TOPOLOGY_NAME_PATTERN_H_
#define MCCS_TOPOLOGY_NAME_PATTERN_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mccs {

inline constexpr size_t kMaxNamesOfPattern = 65'536;

// All names, in the order written; with several brackets, the last one varies fastest. Does not
// check the characters of names.
// kInvalidArgument: an unmatched or nested bracket, an empty name or range, a descending range, or
// more than kMaxNamesOfPattern names; the message says which.
absl::StatusOr<std::vector<std::string>> ExpandNames(std::string_view pattern);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_NAME_PATTERN_H_

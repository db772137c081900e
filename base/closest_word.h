// "Did you mean": the known word that a mistyped one resembles.
#ifndef MCCS_BASE_CLOSEST_WORD_H_
#define MCCS_BASE_CLOSEST_WORD_H_

#include <string>
#include <string_view>
#include <vector>

namespace mccs {

// The word of `known` that is the fewest insertions, deletions and changes of one letter away from
// `word`, if those are at most two and less than half of the word; the first of equals. Null
// otherwise. LIFETIME: points into `known`.
const std::string* ClosestWord(std::string_view word, const std::vector<std::string>& known);

}  // namespace mccs

#endif  // MCCS_BASE_CLOSEST_WORD_H_

// "Did you mean": finds the known word that is most similar to a mistyped one.
#ifndef MCCS_BASE_CLOSEST_WORD_H_
#define MCCS_BASE_CLOSEST_WORD_H_

#include <string>
#include <string_view>
#include <vector>

namespace mccs {

// Returns the word of `known` with the smallest number of one-letter insertions, deletions and
// changes from `word`, if that is at most two and less than half of the word; the first of equals.
// Otherwise null. LIFETIME: points into `known`.
const std::string* ClosestWord(std::string_view word, const std::vector<std::string>& known);

// "; did you mean 'leaf0'?" if ClosestWord finds one, else "; " and the remedy, if any.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known,
                       std::string_view remedy);

}  // namespace mccs

#endif  // MCCS_BASE_CLOSEST_WORD_H_

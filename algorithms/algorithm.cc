#include "algorithms/algorithm.h"

namespace mccs {

std::string_view Name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kPat:
      return "pat";
    case Algorithm::kGrid:
      return "grid";
  }
  return "unknown";
}

std::optional<Algorithm> ParseAlgorithm(std::string_view name) {
  for (int i = 0; i < kAlgorithms; ++i) {
    if (name == Name(static_cast<Algorithm>(i))) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

}  // namespace mccs

// Inputs whose results are known exactly, and the expected results.
//
// Inputs are small integers chosen per type, operator and number of ranks, so that the type
// represents every partial result in any order: results must be bit-exact. There is one exception:
// the average of floats over a number of ranks that is not a power of two, because 1/n itself is
// rounded. It is compared within (n + 2) half units in the last place.
//
// The data repeats after kPeriod elements. The period is a prime, so that a slice or block at a
// wrong offset (which is never a multiple of it) is detected.
#ifndef EXAMPLES_COLLECTIVE_PERF_PATTERN_H_
#define EXAMPLES_COLLECTIVE_PERF_PATTERN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "collective_perf/element_type.h"
#include "collective_perf/options.h"

namespace collective_perf {

inline constexpr size_t kPeriod = 8191;
// Factors of scaled operators are 1 or this value.
inline constexpr double kLargestFactor = 2;

// One period of elements, encoded; readable from any index on, repeatedly.
class PeriodicData {
 public:
  PeriodicData(const ElementType& type, const std::vector<double>& values, double tolerance = 0);

  // Writes `count` elements to `out`; the first is element `first_index` of the infinite sequence.
  void Fill(std::byte* out, size_t first_index, size_t count) const;

  // The number of elements at `data`, of `count`, that differ from the sequence from `first_index`
  // on.
  size_t CountWrong(const std::byte* data, size_t first_index, size_t count) const;

 private:
  // Calls visit(offset into the caller's buffer, offset into encoded_, bytes) for contiguous
  // pieces.
  template <typename Visit>
  void ForEachPiece(size_t first_index, size_t count, Visit visit) const;

  const ElementType& type_;
  double tolerance_;  // relative; 0 means bit-exact
  std::vector<double> values_;
  std::vector<std::byte> encoded_;
};

class Pattern {
 public:
  // Without an operator: data that is only moved, not reduced.
  Pattern(const ElementType& type, std::optional<ReductionOp> reduction, int ranks);

  PeriodicData Input(int rank) const;
  PeriodicData Reduced() const;
  // The factor of this rank's inputs under a scaled operator.
  double Factor(int rank) const {
    return reduction_ && reduction_->scaled && rank % 2 == 0 ? kLargestFactor : 1;
  }

 private:
  double InputValue(int rank, size_t index) const;
  double ReducedValue(size_t index) const;

  const ElementType& type_;
  std::optional<ReductionOp> reduction_;
  int ranks_;
};

}  // namespace collective_perf

#endif  // EXAMPLES_COLLECTIVE_PERF_PATTERN_H_

// Values of the symbolic run: unique expressions, so that equal ids mean equal expressions.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_CHECK_EXPRESSIONS_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_CHECK_EXPRESSIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"

namespace mccs::check {

using ExpressionId = uint32_t;
inline constexpr ExpressionId kUnwritten = 0;

// One slice of one block of one rank's input.
struct InputSlice {
  Rank rank;
  int32_t block = 0;
  uint64_t round = 0;
  friend auto operator<=>(const InputSlice&, const InputSlice&) = default;
};

class Expressions {
 public:
  Expressions();

  ExpressionId Input(const InputSlice& slice);
  // `of` times its rank's scale. REQUIRES: `of` is an input.
  ExpressionId Scaled(ExpressionId of);
  // `sources` accumulated in order. A single source without finish yields that source itself.
  ExpressionId Accumulated(const std::vector<ExpressionId>& sources, bool finish);

  // Why `id` is not the finished accumulation of exactly `inputs`, each `scaled` or not; empty if
  // it is. REQUIRES: `inputs` ascending.
  std::string ReductionError(ExpressionId id, const std::vector<InputSlice>& inputs,
                             bool scaled) const;
  // Why `id` is not that input, untouched; empty if it is.
  std::string InputError(ExpressionId id, const InputSlice& input) const;

 private:
  enum class Form : uint8_t { kUnwritten, kInput, kScaled, kAccumulated, kFinished };
  struct Expression {
    Form form = Form::kUnwritten;
    InputSlice input;
    std::vector<ExpressionId> sources;
    friend auto operator<=>(const Expression&, const Expression&) = default;
  };
  struct ExpressionCounts {
    std::vector<InputSlice> inputs;
    uint64_t scaled = 0;    // of the inputs
    uint64_t finished = 0;  // below the top
  };

  ExpressionId Keep(Expression expression);
  void Count(ExpressionId id, bool top, ExpressionCounts* census) const;

  std::vector<Expression> expressions_;
  std::map<Expression, ExpressionId> ids_;
};

}  // namespace mccs::check

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_CHECK_EXPRESSIONS_H_

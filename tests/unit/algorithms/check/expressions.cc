#include "tests/unit/algorithms/check/expressions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs::check {
namespace {

std::string Describe(const InputSlice& input) {
  return absl::StrCat("rank ", input.rank.value(), "'s input (block ", input.block, ", round ",
                      input.round, ")");
}

}  // namespace

Expressions::Expressions() { Keep({}); }

ExpressionId Expressions::Input(const InputSlice& slice) {
  return Keep({.form = Form::kInput, .input = slice, .sources = {}});
}

ExpressionId Expressions::Scaled(ExpressionId of) {
  MCCS_CHECK(expressions_[of].form == Form::kInput);
  return Keep({.form = Form::kScaled, .input = {}, .sources = {of}});
}

ExpressionId Expressions::Accumulated(const std::vector<ExpressionId>& sources, bool finish) {
  if (sources.size() == 1 && !finish) return sources[0];
  return Keep(
      {.form = finish ? Form::kFinished : Form::kAccumulated, .input = {}, .sources = sources});
}

ExpressionId Expressions::Keep(Expression expression) {
  const auto [it, added] =
      ids_.try_emplace(std::move(expression), static_cast<ExpressionId>(expressions_.size()));
  if (added) expressions_.push_back(it->first);
  return it->second;
}

void Expressions::Count(ExpressionId id, bool top, ExpressionCounts* census) const {
  const Expression& expression = expressions_[id];
  if (expression.form == Form::kInput) census->inputs.push_back(expression.input);
  if (expression.form == Form::kScaled) ++census->scaled;
  if (expression.form == Form::kFinished && !top) ++census->finished;
  for (ExpressionId source : expression.sources) Count(source, false, census);
}

std::string Expressions::ReductionError(ExpressionId id, const std::vector<InputSlice>& inputs,
                                        bool scaled) const {
  if (id == kUnwritten) return "was never written";
  ExpressionCounts census;
  Count(id, true, &census);
  std::sort(census.inputs.begin(), census.inputs.end());
  const auto [have, want] =
      std::mismatch(census.inputs.begin(), census.inputs.end(), inputs.begin(), inputs.end());
  if (have != census.inputs.end() || want != inputs.end()) {
    if (want != inputs.end() && (have == census.inputs.end() || *want < *have)) {
      return absl::StrCat("lacks ", Describe(*want));
    }
    const bool twice = have != census.inputs.begin() && *have == *(have - 1);
    return absl::StrCat("has ", Describe(*have), twice ? " twice" : ", which is not part of it");
  }
  if (census.scaled != (scaled ? inputs.size() : 0)) {
    return absl::StrCat("has ", census.scaled, " of ", inputs.size(), " inputs scaled");
  }
  if (expressions_[id].form != Form::kFinished) return "was never finished";
  if (census.finished > 0)
    return absl::StrCat("was finished ", census.finished, " times before it was complete");
  return "";
}

std::string Expressions::InputError(ExpressionId id, const InputSlice& input) const {
  if (id == kUnwritten) return "was never written";
  const Expression& expression = expressions_[id];
  if (expression.form == Form::kInput && expression.input == input) return "";
  if (expression.form == Form::kInput) {
    return absl::StrCat("has ", Describe(expression.input), " instead of ", Describe(input));
  }
  return absl::StrCat("has a computed value instead of ", Describe(input));
}

}  // namespace mccs::check

#include "tests/unit/algorithms/check/values.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/status_macros.h"
#include "tests/unit/algorithms/check/contract.h"

namespace mccs::check {
namespace {

// Values of the symbolic run: unique expressions, so that equal ids mean equal expressions.
using ExpressionId = uint32_t;
constexpr ExpressionId kUnwritten = 0;

// One slice of one block of one rank's input.
struct InputSlice {
  Rank rank;
  int32_t block = 0;
  uint64_t slice = 0;
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

std::string Describe(const InputSlice& input) {
  return absl::StrCat("rank ", input.rank.value(), "'s input (block ", input.block, ", slice ",
                      input.slice, ")");
}

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

class SymbolicRun {
 public:
  SymbolicRun(const ProofInput& proof, const ChannelEvents& events, const Memory& memory)
      : proof_(proof),
        plan_(proof.plans[0]),
        events_(events),
        memory_(memory),
        values_(memory.cells(), kUnwritten),
        writers_(memory.cells(), kNobody),
        in_flight_(events.instances().size()) {}

  absl::Status Run() {
    GiveInputs();
    std::vector<std::pair<EventId, InstanceId>> acts;
    for (InstanceId id = 0; id < events_.instances().size(); ++id) {
      const Instance& instance = events_.instances()[id];
      acts.emplace_back(instance.step->kind == StepKind::kSend ? instance.begin : instance.end, id);
    }
    std::vector<InstanceId> by_event(events_.graph().events(), kNobody);
    for (const auto& [event, id] : acts) by_event[event] = id;
    for (EventId event : events_.graph().order()) {
      if (by_event[event] != kNobody) MCCS_RETURN_IF_ERROR(Act(by_event[event]));
    }
    return CheckOutputs();
  }

 private:
  static constexpr InstanceId kNobody = ~InstanceId{0};

  Rank RankOf(int host, uint16_t local) const { return proof_.layout.hosts[host][local]; }

  template <typename Visitor>
  void ForEachBlock(Visitor visit) const {
    for (int host = 0; host < proof_.layout.host_count(); ++host) {
      for (uint16_t local = 0; local < proof_.layout.hosts[host].size(); ++local) {
        for (int32_t block = 0; block < plan_.blocks; ++block) {
          for (uint64_t slice = 0; slice < events_.block_slices(); ++slice)
            visit(host, local, block, slice);
        }
      }
    }
  }

  void GiveInputs() {
    ForEachBlock([&](int host, uint16_t local, int32_t block, uint64_t slice) {
      const Rank rank = RankOf(host, local);
      if (!ProvidesInput(plan_, rank, block)) return;
      values_[memory_.Input(host, slice, local, block)] = expressions_.Input({rank, block, slice});
    });
  }

  absl::Status Act(InstanceId id) {
    const Instance& instance = events_.instances()[id];
    switch (instance.step->kind) {
      case StepKind::kCombine:
        return ActCombines(id, instance);
      case StepKind::kSend:
        for (const Place& place : instance.step->pieces) {
          MCCS_ASSIGN_OR_RETURN(const ExpressionId value, Read(instance, place));
          in_flight_[id].push_back(value);
        }
        return absl::OkStatus();
      case StepKind::kReceive:
        for (size_t i = 0; i < instance.step->pieces.size(); ++i) {
          Write(id, instance, instance.step->pieces[i], in_flight_[instance.peer][i]);
        }
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status ActCombines(InstanceId id, const Instance& instance) {
    for (const Combine& combine : instance.step->combines) {
      std::vector<ExpressionId> sources;
      const uint64_t elements = Elements(instance, combine.sources[0]);
      for (const Place& place : combine.sources) {
        MCCS_ASSIGN_OR_RETURN(ExpressionId value, Read(instance, place));
        if (plan_.key.scaled && place.space == Space::kInput) value = expressions_.Scaled(value);
        if (Elements(instance, place) != elements) return Uneven(instance);
        sources.push_back(value);
      }
      const ExpressionId result = expressions_.Accumulated(sources, combine.finish);
      for (const Place& place : combine.destinations) {
        if (Elements(instance, place) != elements) return Uneven(instance);
        if (!memory_.IsOmitted(instance, combine, place)) Write(id, instance, place, result);
      }
    }
    return absl::OkStatus();
  }

  uint64_t Elements(const Instance& instance, const Place& place) const {
    return proof_.geometry.Slice(events_.channel(), instance.round, place.block).count;
  }

  absl::Status Uneven(const Instance& instance) const {
    return absl::FailedPreconditionError(
        absl::StrCat(events_.Where(instance), " combines places of different lengths"));
  }

  absl::StatusOr<ExpressionId> Read(const Instance& instance, const Place& place) {
    const CellId cell = memory_.Cell(instance, place);
    const ExpressionId value = values_[cell];
    if (value == kUnwritten) {
      return absl::FailedPreconditionError(absl::StrCat(events_.Where(instance), " reads block ",
                                                        place.block,
                                                        " of something that was never written"));
    }
    if (place.space == Space::kInput) {
      const Rank rank = RankOf(instance.host, place.index);
      if (value != expressions_.Input({rank, place.block, instance.block_slice})) {
        return absl::FailedPreconditionError(absl::StrCat(
            events_.Where(instance), " reads block ", place.block, " of the input of rank ",
            rank.value(), " after it was overwritten by ", Writer(cell)));
      }
    }
    return value;
  }

  void Write(InstanceId id, const Instance& instance, const Place& place, ExpressionId value) {
    const CellId cell = memory_.Cell(instance, place);
    values_[cell] = value;
    writers_[cell] = id;
  }

  std::string Writer(CellId cell) const {
    return writers_[cell] == kNobody ? "no step"
                                     : events_.Where(events_.instances()[writers_[cell]]);
  }

  absl::Status CheckOutputs() {
    absl::Status status;
    // Ranks with the same result must have the same expression; compared by the first input in it.
    std::map<InputSlice, std::pair<ExpressionId, Rank>> first;
    ForEachBlock([&](int host, uint16_t local, int32_t block, uint64_t slice) {
      const Rank rank = RankOf(host, local);
      if (!status.ok() || !RequiresOutput(plan_, rank, block)) return;
      const CellId cell = memory_.Output(host, slice, local, block);
      const auto [it, added] =
          first.try_emplace(FirstPromised(rank, block, slice), values_[cell], rank);
      std::string bad;
      if (!added && it->second.first != values_[cell]) {
        bad = WhyNotPromised(rank, block, slice, values_[cell]);
        if (bad.empty())
          bad = absl::StrCat("has another expression than rank ", it->second.second.value());
      } else if (added) {
        bad = WhyNotPromised(rank, block, slice, values_[cell]);
      }
      if (bad.empty()) return;
      status = absl::FailedPreconditionError(
          absl::StrCat("host ", host, ", channel ", events_.channel().value(), ", slice ", slice,
                       ": block ", block, " of the output of rank ", rank.value(), " ", bad,
                       values_[cell] == kUnwritten ? "" : "; last written by ",
                       values_[cell] == kUnwritten ? "" : Writer(cell)));
    });
    return status;
  }

  InputSlice FirstPromised(Rank rank, int32_t block, uint64_t slice) const {
    if (Reduces(plan_.key.kind)) return {Rank(0), block, slice};
    const InputBlock origin = SourceOf(plan_, rank, block);
    return {origin.rank, origin.block, slice};
  }

  std::string WhyNotPromised(Rank rank, int32_t block, uint64_t slice, ExpressionId value) const {
    if (!Reduces(plan_.key.kind)) {
      return expressions_.InputError(value, FirstPromised(rank, block, slice));
    }
    std::vector<InputSlice> inputs;
    for (int32_t from = 0; from < proof_.layout.rank_count(); ++from) {
      if (ProvidesInput(plan_, Rank(from), block)) inputs.push_back({Rank(from), block, slice});
    }
    return expressions_.ReductionError(value, inputs, plan_.key.scaled);
  }

  const ProofInput& proof_;
  const Plan& plan_;
  const ChannelEvents& events_;
  const Memory& memory_;
  Expressions expressions_;
  std::vector<ExpressionId> values_;                  // by cell
  std::vector<InstanceId> writers_;                   // by cell: the last writer
  std::vector<std::vector<ExpressionId>> in_flight_;  // by send: its pieces
};

}  // namespace

absl::Status CheckValues(const ProofInput& proof, const ChannelEvents& events,
                         const Memory& memory) {
  return SymbolicRun(proof, events, memory).Run();
}

}  // namespace mccs::check

#include "tests/unit/algorithms/check/values.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/unit/algorithms/check/contract.h"
#include "tests/unit/algorithms/check/expressions.h"

namespace mccs::check {
namespace {

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
          for (uint64_t round = 0; round < events_.rounds(); ++round)
            visit(host, local, block, round);
        }
      }
    }
  }

  void GiveInputs() {
    ForEachBlock([&](int host, uint16_t local, int32_t block, uint64_t round) {
      const Rank rank = RankOf(host, local);
      if (!ProvidesInput(plan_, rank, block)) return;
      values_[memory_.Input(host, round, local, block)] = expressions_.Input({rank, block, round});
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
      if (value != expressions_.Input({rank, place.block, instance.round})) {
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
    return writers_[cell] == kNobody ? "nobody"
                                     : events_.Where(events_.instances()[writers_[cell]]);
  }

  absl::Status CheckOutputs() {
    absl::Status status;
    // Ranks with the same result must have the same expression; compared by the first input in it.
    std::map<InputSlice, std::pair<ExpressionId, Rank>> first;
    ForEachBlock([&](int host, uint16_t local, int32_t block, uint64_t round) {
      const Rank rank = RankOf(host, local);
      if (!status.ok() || !RequiresOutput(plan_, rank, block)) return;
      const CellId cell = memory_.Output(host, round, local, block);
      const auto [it, added] =
          first.try_emplace(FirstPromised(rank, block, round), values_[cell], rank);
      std::string bad;
      if (!added && it->second.first != values_[cell]) {
        bad = WhyNotPromised(rank, block, round, values_[cell]);
        if (bad.empty())
          bad = absl::StrCat("has another expression than rank ", it->second.second.value());
      } else if (added) {
        bad = WhyNotPromised(rank, block, round, values_[cell]);
      }
      if (bad.empty()) return;
      status = absl::FailedPreconditionError(
          absl::StrCat("host ", host, ", channel ", events_.channel().value(), ", round ", round,
                       ": block ", block, " of the output of rank ", rank.value(), " ", bad,
                       values_[cell] == kUnwritten ? "" : "; last written by ",
                       values_[cell] == kUnwritten ? "" : Writer(cell)));
    });
    return status;
  }

  InputSlice FirstPromised(Rank rank, int32_t block, uint64_t round) const {
    if (Reduces(plan_.key.kind)) return {Rank(0), block, round};
    const InputBlock origin = SourceOf(plan_, rank, block);
    return {origin.rank, origin.block, round};
  }

  std::string WhyNotPromised(Rank rank, int32_t block, uint64_t round, ExpressionId value) const {
    if (!Reduces(plan_.key.kind)) {
      return expressions_.InputError(value, FirstPromised(rank, block, round));
    }
    std::vector<InputSlice> inputs;
    for (int32_t from = 0; from < proof_.layout.rank_count(); ++from) {
      if (ProvidesInput(plan_, Rank(from), block)) inputs.push_back({Rank(from), block, round});
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

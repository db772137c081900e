// Chooses the algorithm of a call: by a rule of the strategy, else the fastest for its size by the
// cost model (cost.h). A pure function of kind, size, layout and strategy, and independent of the
// host, so that all hosts choose the same.
//
// The model estimates the plans of a few hosts of the first channel's ring: the first, second,
// middle and last, and the one with most ranks, with the root on the first. The slowest host
// counts. Sizes are rounded up to a power of two, so a few cached results serve all calls.
//
// The plans that a kind needs are built one at a time (PrepareNext), so that a caller can divide
// the time.
//
// THREAD: one.
#ifndef MCCS_ALGORITHMS_ALGORITHM_CHOICE_H_
#define MCCS_ALGORITHMS_ALGORITHM_CHOICE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "algorithms/algorithm.h"
#include "algorithms/build_plan.h"
#include "algorithms/cost.h"
#include "algorithms/plan.h"
#include "algorithms/plan_size.h"

namespace mccs {

// Overrides the model: calls of this kind and size use this algorithm.
struct AlgorithmRule {
  OpKind kind = OpKind::kNone;
  Algorithm algorithm = Algorithm::kRing;
  uint64_t min_bytes = 0;  // size of the call's count; the range includes both ends
  uint64_t max_bytes = std::numeric_limits<uint64_t>::max();
  friend bool operator==(const AlgorithmRule&, const AlgorithmRule&) = default;
};

inline constexpr size_t kMaxAlgorithmRules = 64;

// The parameters of the choice, from the strategy.
struct ChoiceParameters {
  CostParameters costs;
  // The first rule that matches a call applies, if there is such a plan for these hosts and lanes.
  std::vector<AlgorithmRule> rules;
  // Number of rules from operators: the first ones; the others are from the daemon's configuration.
  uint32_t operator_rules = 0;
  // The configured costs, if `costs` were measured. Not used for the choice.
  std::optional<CostParameters> configured_costs = {};
  friend bool operator==(const ChoiceParameters&, const ChoiceParameters&) = default;
};

// kInvalidArgument, with the field: a cost that is not a positive number, a rule with an algorithm
// that does not support its kind or with an empty range, too many rules.
absl::Status ValidateChoice(const ChoiceParameters& parameters);

// The inputs from which plans are built.
struct ChoiceInputs {
  const Layout& layout;
  const ChannelOrders& orders;
  uint32_t slot_bytes = 0;
  int max_peers = 0;  // maximum number of hosts to which a host has memory for lanes, both ways
};

// Maximum number of other hosts with which one host has lanes, for any root. For a grid including
// those of PAT, which are all of ring and tree as well: a communicator may use all of them.
int PeersOf(Algorithm algorithm, int hosts);

class AlgorithmChooser {
 public:
  // LIFETIME: `inputs` outlives the chooser.
  // REQUIRES: ValidateChoice(parameters) is OK; a ring per channel, one channel or more.
  AlgorithmChooser(const ChoiceInputs& inputs, ChoiceParameters parameters);

  // For a call of `bytes` bytes. The first call of a kind builds what is not prepared, and caches
  // the plans' weights.
  // REQUIRES, for all: there are plans for the kind.
  Algorithm Choose(OpKind kind, uint64_t bytes);
  // Choose has nothing to build.
  bool IsPrepared(OpKind kind, uint64_t bytes) const;
  // Builds or weighs a part of the plans that Choose needs. Returns its size, in the unit of
  // PlanBuild::last_parts.
  // REQUIRES: !IsPrepared(kind, …).
  uint64_t PrepareNext(OpKind kind);
  // Whether the plan of such a call is packed (plan.h), with this algorithm.
  bool Packs(OpKind kind, Algorithm algorithm, uint64_t bytes) const;

 private:
  static constexpr int kSizeClasses = 41;  // up to 1 TiB; larger sizes use the last class

  struct Candidate {
    Algorithm algorithm;
    bool packed;
    std::vector<HostIndex> hosts;     // to estimate
    std::vector<PlanWeight> weights;  // of the first ones
  };
  struct Kind {
    std::vector<Candidate> candidates;     // empty: not known yet
    bool prepared = false;                 // all have their weights, or need none
    std::optional<PlanBuild> build;        // of the next weight
    std::optional<PlanWeighing> weighing;  // of the plan that was built
    std::array<std::optional<Algorithm>, kSizeClasses> chosen;
  };

  bool IsCandidate(Algorithm algorithm, OpKind kind, uint64_t bytes) const;
  // Peers, with slots and staging memory for each, whose memory is enough for the call.
  int MemoryPeersOf(Algorithm algorithm, OpKind kind, uint64_t bytes) const;
  std::optional<Algorithm> ByRule(OpKind kind, uint64_t bytes) const;
  Algorithm ByModel(Kind& known, OpKind kind, uint64_t bytes);
  // Without weights.
  std::vector<Candidate> Candidates(OpKind kind) const;
  // The hosts whose plans are estimated for this algorithm.
  std::vector<HostIndex> HostsToWeigh(Algorithm algorithm, OpKind kind) const;
  // Begins the plan of the candidate's next host. Without one, the kind has its usual algorithm
  // alone.
  uint64_t BeginPlan(Kind& known, const Candidate& candidate, OpKind kind) const;
  double CostUs(const Candidate& candidate, uint64_t bytes) const;

  const ChoiceInputs inputs_;
  const ChoiceParameters parameters_;
  const LayoutSize size_;
  const ChannelOrders first_;  // the first channel's ring
  std::array<Kind, kOpKinds> kinds_;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_ALGORITHM_CHOICE_H_

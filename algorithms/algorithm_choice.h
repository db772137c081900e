// Which algorithm a call takes: a rule of the strategy, else the one that the cost model (cost.h)
// says is the fastest for its size. A pure function of kind, size, layout and strategy, so that
// every host chooses alike; whose plan it is does not come into it.
//
// The model is asked about a few hosts of the first channel's ring (its first, second, middle and
// last, and the one with most ranks, with the root on the first); the slowest of them counts. Sizes
// are rounded up to a power of two before, so that few answers serve all calls.
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
#include "algorithms/cost.h"
#include "algorithms/plan.h"

namespace mccs {

// Whoever knows better than the model: calls of this kind and size take this algorithm.
struct AlgorithmRule {
  OpKind kind = OpKind::kNone;
  Algorithm algorithm = Algorithm::kRing;
  uint64_t min_bytes = 0;  // of the call's count; both ends belong to the range
  uint64_t max_bytes = std::numeric_limits<uint64_t>::max();
  friend bool operator==(const AlgorithmRule&, const AlgorithmRule&) = default;
};

inline constexpr size_t kMaxAlgorithmRules = 64;

// What the strategy says about it.
struct ChoiceParameters {
  CostParameters costs;
  // The first that fits a call decides, where there is such a plan over so many hosts and lanes.
  std::vector<AlgorithmRule> rules;
  // So many of them, the first, come from operators; the others from the daemon's configuration.
  uint32_t operators_rules = 0;
  // Where `costs` were measured: what the daemons' configuration has. Nothing is chosen by them.
  std::optional<CostParameters> own_costs = {};
  friend bool operator==(const ChoiceParameters&, const ChoiceParameters&) = default;
};

// kInvalidArgument, with the field: a cost that is no positive number, a rule for an algorithm that
// never serves its kind or for no size, too many rules.
absl::Status ValidateChoice(const ChoiceParameters& parameters);

// What the plans are built on.
struct ChoiceGround {
  const Layout& layout;
  const ChannelOrders& orders;
  uint32_t slot_bytes = 0;
  int max_peers = 0;  // that a host has memory to keep lanes with, both ways
};

// Other hosts that one has lanes with, at most, whatever the root.
int PeersOf(Algorithm algorithm, int hosts);

class AlgorithmChooser {
 public:
  // LIFETIME: `ground` outlives the chooser.
  // REQUIRES: ValidateChoice(parameters) is OK; a ring per channel, one channel or more.
  AlgorithmChooser(const ChoiceGround& ground, ChoiceParameters parameters);

  // For a call whose count comes to so many bytes. Builds a few plans when it first meets a kind,
  // then remembers what they weigh.
  // REQUIRES: there are plans for the kind.
  Algorithm Choose(OpKind kind, uint64_t bytes);

 private:
  static constexpr int kSizeClasses = 41;  // up to 1 TiB; what is larger counts as that

  struct Candidate {
    Algorithm algorithm;
    std::vector<PlanWeight> weights;  // of the hosts that are asked about
  };
  struct Kind {
    std::vector<Candidate> candidates;  // empty: not met yet
    std::array<std::optional<Algorithm>, kSizeClasses> chosen;
  };

  bool MayTake(Algorithm algorithm, OpKind kind) const;
  std::optional<Algorithm> ByRule(OpKind kind, uint64_t bytes) const;
  Algorithm ByModel(Kind& known, OpKind kind, uint64_t bytes);
  std::vector<Candidate> Candidates(OpKind kind) const;
  double CostUs(const Candidate& candidate, uint64_t bytes) const;

  const ChoiceGround ground_;
  const ChoiceParameters parameters_;
  std::array<Kind, kOpKinds> kinds_;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_ALGORITHM_CHOICE_H_

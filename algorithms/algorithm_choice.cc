#include "algorithms/algorithm_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "algorithms/build_plan.h"
#include "algorithms/geometry.h"
#include "algorithms/grid.h"
#include "algorithms/pat.h"
#include "algorithms/tree.h"

namespace mccs {
namespace {

absl::Status ValidateCosts(const CostParameters& costs) {
  const std::pair<const char*, double> times[] = {
      {"operation_us", costs.operation_us}, {"hop_us", costs.hop_us}, {"slice_us", costs.slice_us}};
  for (const auto& [name, value] : times) {
    if (std::isfinite(value) && value >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("costs.", name, " is ", value, "; expected a finite number of at least 0"));
  }
  const std::pair<const char*, double> rates[] = {{"lane_bytes_per_us", costs.lane_bytes_per_us},
                                                  {"host_bytes_per_us", costs.host_bytes_per_us},
                                                  {"local_bytes_per_us", costs.local_bytes_per_us}};
  for (const auto& [name, value] : rates) {
    if (std::isfinite(value) && value > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("costs.", name, " is ", value, "; expected a finite number above 0"));
  }
  return absl::OkStatus();
}

absl::Status ValidateRule(const AlgorithmRule& rule, size_t index) {
  const auto reject = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("rule ", index, ": ", why));
  };
  if (static_cast<int>(rule.kind) >= kOpKinds || static_cast<int>(rule.algorithm) >= kAlgorithms) {
    return reject(absl::StrCat("invalid kind ", static_cast<int>(rule.kind), " or algorithm ",
                               static_cast<int>(rule.algorithm)));
  }
  if (!Supports(rule.algorithm, rule.kind)) {
    return reject(absl::StrCat("algorithm '", std::string(Name(rule.algorithm)),
                               "' does not support '", std::string(Name(rule.kind)), "'"));
  }
  if (rule.min_bytes > rule.max_bytes) {
    return reject(
        absl::StrCat("min_bytes ", rule.min_bytes, " is above max_bytes ", rule.max_bytes));
  }
  return absl::OkStatus();
}

// The hosts to estimate: positions on the ring.
std::vector<HostIndex> SampledHosts(const ChoiceInputs& inputs) {
  const std::vector<HostIndex>& ring = inputs.orders.rings.front();
  const auto& hosts = inputs.layout.hosts;
  const auto most = std::max_element(
      hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const std::set<HostIndex> asked{ring.front(), ring[1], ring[ring.size() / 2], ring.back(),
                                  HostIndex(static_cast<int32_t>(most - hosts.begin()))};
  return {asked.begin(), asked.end()};
}

int SizeClassOf(uint64_t bytes) { return bytes <= 1 ? 0 : std::bit_width(bytes - 1); }

}  // namespace

absl::Status ValidateChoice(const ChoiceParameters& parameters) {
  if (absl::Status s = ValidateCosts(parameters.costs); !s.ok()) return s;
  if (parameters.configured_costs.has_value()) {
    if (absl::Status s = ValidateCosts(*parameters.configured_costs); !s.ok()) return s;
  }
  if (parameters.rules.size() > kMaxAlgorithmRules) {
    return absl::InvalidArgumentError(
        absl::StrCat(parameters.rules.size(), " rules; expected at most ", kMaxAlgorithmRules));
  }
  if (parameters.operator_rules > parameters.rules.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        parameters.operator_rules, " rules of operators, but only ", parameters.rules.size()));
  }
  for (size_t i = 0; i < parameters.rules.size(); ++i) {
    if (absl::Status s = ValidateRule(parameters.rules[i], i); !s.ok()) return s;
  }
  return absl::OkStatus();
}

int PeersOf(Algorithm algorithm, int hosts) {
  const int others = hosts - 1;
  if (algorithm == Algorithm::kRing) return std::min(2, others);
  if (algorithm == Algorithm::kTree) return std::min(2 * (RootLevel(hosts) + 1), others);
  if (algorithm == Algorithm::kPat) return std::min(2 * PatHops(hosts), others);
  if (algorithm == Algorithm::kGrid)
    return std::min(Grid(hosts).peers() + 2 * PatHops(hosts), others);
  return others;
}

AlgorithmChooser::AlgorithmChooser(const ChoiceInputs& inputs, ChoiceParameters parameters)
    : inputs_(inputs),
      parameters_(std::move(parameters)),
      size_(SizeOf(inputs.layout)),
      first_{.rings = {inputs.orders.rings.front()}} {}

Algorithm AlgorithmChooser::Choose(OpKind kind, uint64_t bytes) {
  if (inputs_.layout.host_count() == 1) return UsualAlgorithm(kind);
  if (const auto ruled = ByRule(kind, bytes); ruled.has_value()) return *ruled;
  const int size = std::min(SizeClassOf(bytes), kSizeClasses - 1);
  Kind& known = kinds_[static_cast<size_t>(kind)];
  std::optional<Algorithm>& chosen = known.chosen[static_cast<size_t>(size)];
  if (!chosen.has_value()) chosen = ByModel(known, kind, uint64_t{1} << size);
  return *chosen;
}

// Those that can have several parts: others pack always or never.
bool AlgorithmChooser::Packs(OpKind kind, Algorithm algorithm, uint64_t bytes) const {
  if (size_.max_local_ranks == 1 || inputs_.layout.host_count() == 1 || bytes > kMaxPackedBytes)
    return false;
  if (algorithm == Algorithm::kDirect) return Exchanges(kind);
  return algorithm == Algorithm::kRing &&
         (kind == OpKind::kAllGather || kind == OpKind::kReduceScatter);
}

// An exchange has slots for all others on all channels. It stages nothing, or on the first channel
// if it is packed. But a communicator may use PAT, rings and trees too, whose lanes are among its
// own and whose staging memory is at most that of PAT.
int AlgorithmChooser::MemoryPeersOf(Algorithm algorithm, OpKind kind, uint64_t bytes) const {
  const int hosts = inputs_.layout.host_count();
  if (algorithm != Algorithm::kDirect || !Exchanges(kind)) return PeersOf(algorithm, hosts);
  const auto channels = static_cast<int>(inputs_.orders.rings.size());
  const int others = hosts - 1;
  const int first_channel = Packs(kind, algorithm, bytes) ? others : PatHops(hosts);
  const int areas = channels * others + first_channel + (channels - 1) * PatHops(hosts);
  return (areas + 2 * channels - 1) / (2 * channels);
}

bool AlgorithmChooser::IsCandidate(Algorithm algorithm, OpKind kind, uint64_t bytes) const {
  const auto has_plan = [&](Algorithm one) {
    const PlanKey key{.kind = kind, .algorithm = one, .packed = Packs(kind, one, bytes)};
    return Supports(one, kind, size_.hosts) &&
           IsPlanOfLegalSize(key, size_, inputs_.orders.rings.size());
  };
  const auto fits = [&](Algorithm one) {
    return has_plan(one) && MemoryPeersOf(one, kind, bytes) <= inputs_.max_peers;
  };
  if (fits(algorithm)) return true;
  if (algorithm != UsualAlgorithm(kind) || !has_plan(algorithm)) return false;
  // If none fits, its lanes may nevertheless: the bounds are not tight.
  for (int i = 0; i < kAlgorithms; ++i) {
    if (fits(static_cast<Algorithm>(i))) return false;
  }
  return true;
}

std::optional<Algorithm> AlgorithmChooser::ByRule(OpKind kind, uint64_t bytes) const {
  for (const AlgorithmRule& rule : parameters_.rules) {
    if (rule.kind == kind && bytes >= rule.min_bytes && bytes <= rule.max_bytes &&
        IsCandidate(rule.algorithm, kind, bytes)) {
      return rule.algorithm;
    }
  }
  return std::nullopt;
}

Algorithm AlgorithmChooser::ByModel(Kind& known, OpKind kind, uint64_t bytes) {
  while (!known.prepared) PrepareNext(kind);
  const Candidate* best = nullptr;
  for (const Candidate& candidate : known.candidates) {
    if (candidate.packed != Packs(kind, candidate.algorithm, bytes) ||
        !IsCandidate(candidate.algorithm, kind, bytes)) {
      continue;
    }
    if (best == nullptr || CostUs(candidate, bytes) < CostUs(*best, bytes)) best = &candidate;
  }
  return best != nullptr ? best->algorithm : UsualAlgorithm(kind);
}

std::vector<AlgorithmChooser::Candidate> AlgorithmChooser::Candidates(OpKind kind) const {
  std::vector<Candidate> candidates;
  for (int i = 0; i < kAlgorithms; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    for (uint64_t bytes : {uint64_t{1}, kMaxPackedBytes + 1}) {
      const bool packed = Packs(kind, algorithm, bytes);
      if (bytes == 1 && !packed) continue;  // as for more bytes
      if (!IsCandidate(algorithm, kind, bytes)) continue;
      candidates.push_back({.algorithm = algorithm,
                            .packed = packed,
                            .hosts = HostsToWeigh(algorithm, kind),
                            .weights = {}});
    }
  }
  return candidates;
}

bool AlgorithmChooser::IsPrepared(OpKind kind, uint64_t bytes) const {
  return inputs_.layout.host_count() == 1 || kinds_[static_cast<size_t>(kind)].prepared ||
         ByRule(kind, bytes).has_value();
}

std::vector<HostIndex> AlgorithmChooser::HostsToWeigh(Algorithm algorithm, OpKind kind) const {
  const auto& hosts = inputs_.layout.hosts;
  const bool even = std::ranges::all_of(
      hosts, [&](const auto& ranks) { return ranks.size() == hosts.front().size(); });
  const bool symmetric = algorithm == Algorithm::kRing || algorithm == Algorithm::kPat ||
                         algorithm == Algorithm::kDirect;
  // Every host does the same, each from its own position on the ring.
  if (even && symmetric && !HasRoot(kind)) return {inputs_.orders.rings.front().front()};
  return SampledHosts(inputs_);
}

uint64_t AlgorithmChooser::PrepareNext(OpKind kind) {
  Kind& known = kinds_[static_cast<size_t>(kind)];
  if (known.candidates.empty()) {
    known.candidates = Candidates(kind);
    // With one algorithm, no weights are needed.
    known.prepared = std::ranges::all_of(known.candidates, [&](const Candidate& candidate) {
      return candidate.algorithm == known.candidates.front().algorithm;
    });
    return static_cast<uint64_t>(size_.hosts);
  }
  const auto next = std::ranges::find_if(known.candidates, [](const Candidate& candidate) {
    return candidate.weights.size() < candidate.hosts.size();
  });
  if (next == known.candidates.end()) {
    known.prepared = true;
    return 0;
  }
  if (known.weighing.has_value()) {
    const uint64_t parts = known.weighing->WeighNext();
    if (!known.weighing->done()) return parts;
    PlanWeight weight = known.weighing->Take();
    known.weighing.reset();
    // The other channels do the same work, each on its own ring.
    weight.programs.resize(inputs_.orders.rings.size(), weight.programs.front());
    weight.frame.programs.resize(inputs_.orders.rings.size());
    next->weights.push_back(std::move(weight));
    return parts;
  }
  if (!known.build.has_value()) return BeginPlan(known, *next, kind);
  known.build->BuildNext();
  const uint64_t parts = known.build->last_parts();
  if (known.build->done()) {
    known.weighing.emplace(std::make_shared<const Plan>(known.build->Take()));
    known.build.reset();
  }
  return parts;
}

uint64_t AlgorithmChooser::BeginPlan(Kind& known, const Candidate& candidate, OpKind kind) const {
  const HostIndex first = first_.rings.front().front();
  const Rank root = inputs_.layout.hosts[static_cast<size_t>(first.value())].front();
  const PlanKey key{.kind = kind,
                    .algorithm = candidate.algorithm,
                    .root = HasRoot(kind) ? root : Rank(0),
                    .packed = candidate.packed};
  auto build =
      PlanBuild::Begin(key, inputs_.layout, first_, candidate.hosts[candidate.weights.size()]);
  if (build.ok()) {
    known.build.emplace(*std::move(build));
    return known.build->last_parts();
  }
  // On all hosts; running the call returns the error.
  known.candidates = {
      {.algorithm = UsualAlgorithm(kind), .packed = false, .hosts = {}, .weights = {}}};
  known.prepared = true;
  return static_cast<uint64_t>(size_.ranks);
}

double AlgorithmChooser::CostUs(const Candidate& candidate, uint64_t bytes) const {
  const PlannedCall call{.type = DataType::kInt8, .count = bytes, .slot_bytes = inputs_.slot_bytes};
  double slowest = 0;
  for (const PlanWeight& weight : candidate.weights) {
    slowest = std::max(slowest, EstimateUs(weight, call, parameters_.costs));
  }
  return slowest;
}

}  // namespace mccs

#include "controller/policy/avoided_pairs.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "algorithms/algorithm_choice.h"

namespace mccs {
namespace {

using Pairs = std::set<std::pair<HostIndex, HostIndex>>;  // in both orders

Pairs PairsOf(const ClusterView& view, const CommunicatorView& communicator) {
  Pairs pairs;
  if (view.unreachable.empty()) return pairs;
  std::map<std::string, HostIndex> index;
  for (size_t h = 0; h < communicator.hosts.size(); ++h)
    index.emplace(communicator.hosts[h], HostIndex(static_cast<int32_t>(h)));
  for (const auto& [one, other] : view.unreachable) {
    const auto a = index.find(one);
    const auto b = index.find(other);
    if (a == index.end() || b == index.end()) continue;
    pairs.emplace(a->second, b->second);
    pairs.emplace(b->second, a->second);
  }
  return pairs;
}

// Replaces the edge from place `i` to the next one, and one other edge, by two that avoid the
// pairs, with the shortest reversal. False: none does.
bool Replace(const Pairs& pairs, size_t i, std::vector<HostIndex>* ring) {
  const size_t n = ring->size();
  const auto at = [&](size_t k) -> HostIndex& { return (*ring)[(i + 1 + k) % n]; };
  for (size_t last = 1; last + 2 < n; ++last) {
    if (pairs.contains({at(n - 1), at(last)}) || pairs.contains({at(0), at(last + 1)})) continue;
    for (size_t a = 0, b = last; a < b; ++a, --b) std::swap(at(a), at(b));
    return true;
  }
  return false;
}

size_t PairsOn(const Pairs& pairs, const std::vector<HostIndex>& ring) {
  size_t found = 0;
  for (size_t i = 0; i < ring.size(); ++i)
    found += pairs.contains({ring[i], ring[(i + 1) % ring.size()]}) ? 1 : 0;
  return found;
}

}  // namespace

bool AvoidsUnreachablePair(const ClusterView& view, const CommunicatorView& communicator,
                           const std::vector<HostIndex>& ring) {
  const Pairs pairs = PairsOf(view, communicator);
  return !pairs.empty() && PairsOn(pairs, ring) == 0;
}

std::vector<HostIndex> AvoidUnreachablePairs(const ClusterView& view,
                                             const CommunicatorView& communicator,
                                             std::vector<HostIndex> ring) {
  const Pairs pairs = PairsOf(view, communicator);
  if (pairs.empty() || ring.size() < 4) return ring;
  std::vector<HostIndex> other = ring;
  bool improved = true;
  while (improved) {  // Each time, fewer neighbours are pairs.
    improved = false;
    for (size_t i = 0; i < other.size(); ++i) {
      if (pairs.contains({other[i], other[(i + 1) % other.size()]}))
        improved |= Replace(pairs, i, &other);
    }
  }
  if (PairsOn(pairs, other) > 0) return ring;
  std::ranges::rotate(other, std::ranges::find(other, ring.front()));
  return other;
}

void UseRingsOnly(strategy::Strategy* strategy) {
  const strategy::AlgorithmChoice before = strategy->algorithms();
  strategy::AlgorithmChoice* choice = strategy->mutable_algorithms();
  choice->clear_rules();
  for (int k = 0; k < kOpKinds; ++k) {
    if (!Supports(Algorithm::kRing, static_cast<OpKind>(k))) continue;
    strategy::AlgorithmRule* rule = choice->add_rules();
    rule->set_kind(static_cast<uint32_t>(k));
    rule->set_algorithm(strategy::RING);
    rule->set_max_bytes(std::numeric_limits<uint64_t>::max());
  }
  const int own = static_cast<int>(before.operator_rules());
  uint32_t of_operators = static_cast<uint32_t>(choice->rules_size());
  for (int i = 0; i < before.rules_size(); ++i) {
    const strategy::AlgorithmRule& rule = before.rules(i);
    // The daemons' own rules are kept for the time after.
    if (i < own && Supports(Algorithm::kRing, static_cast<OpKind>(rule.kind()))) continue;
    if (choice->rules_size() == static_cast<int>(kMaxAlgorithmRules)) break;
    *choice->add_rules() = rule;
    if (i < own) ++of_operators;
  }
  choice->set_operator_rules(of_operators);
}

}  // namespace mccs

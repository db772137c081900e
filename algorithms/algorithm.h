// The algorithms for collectives over hosts, and the kinds that each of them supports.
//
//             kinds                                    hops of an all-reduce over H hosts
//   ring      all-reduce, reduce-scatter, all-gather,  2(H−1)
//             broadcast, reduce
//   tree      all-reduce, broadcast, reduce            2⌊log2 H⌋
//   direct    all-reduce, all-to-all, gather, scatter  1
//   pat       all-gather, reduce-scatter               ⌈log2 H⌉ for each of these
//   grid      all-to-all                               2 for an all-to-all
//
// algorithm_choice.h chooses the algorithm of a call.
#ifndef MCCS_ALGORITHMS_ALGORITHM_H_
#define MCCS_ALGORITHMS_ALGORITHM_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "proto/operation.h"

namespace mccs {

// Values are part of the strategy's message: append, never renumber.
enum class Algorithm : uint8_t { kRing = 0, kTree = 1, kDirect = 2, kPat = 3, kGrid = 4 };
inline constexpr int kAlgorithms = 5;

// A direct all-reduce accumulates one slice of each host in one combine.
inline constexpr int kMaxDirectHosts = 128;

// Kinds that move each block unchanged from one rank to one other rank.
constexpr bool Exchanges(OpKind kind) {
  return kind == OpKind::kAllToAll || kind == OpKind::kGather || kind == OpKind::kScatter;
}

// Whether the algorithm supports the kind, for a suitable number of hosts.
constexpr bool Supports(Algorithm algorithm, OpKind kind) {
  switch (algorithm) {
    case Algorithm::kRing:
      return Reduces(kind) || kind == OpKind::kAllGather || kind == OpKind::kBroadcast;
    case Algorithm::kTree:
      return kind == OpKind::kAllReduce || kind == OpKind::kBroadcast || kind == OpKind::kReduce;
    case Algorithm::kDirect:
      return kind == OpKind::kAllReduce || Exchanges(kind);
    case Algorithm::kPat:
      return kind == OpKind::kAllGather || kind == OpKind::kReduceScatter;
    case Algorithm::kGrid:
      return kind == OpKind::kAllToAll;
  }
  return false;
}

// Whether it supports the kind over this number of hosts. Trees over two hosts are a ring, and in a
// grid of three each host is a neighbour of each. On one host there is no choice: the kind's usual
// algorithm denotes its local plan.
constexpr bool Supports(Algorithm algorithm, OpKind kind, int hosts) {
  if (!Supports(algorithm, kind)) return false;
  if (algorithm == Algorithm::kTree || algorithm == Algorithm::kPat) return hosts >= 3;
  if (algorithm == Algorithm::kGrid) return hosts >= 4;
  if (algorithm == Algorithm::kDirect && kind == OpKind::kAllReduce)
    return hosts >= 2 && hosts <= kMaxDirectHosts;
  return true;
}

// The algorithm that supports the kind over any number of hosts.
constexpr Algorithm UsualAlgorithm(OpKind kind) {
  return Exchanges(kind) ? Algorithm::kDirect : Algorithm::kRing;
}

// Whether several algorithms support the kind.
constexpr bool HasChoice(OpKind kind) {
  int serving = 0;
  for (int i = 0; i < kAlgorithms; ++i) serving += Supports(static_cast<Algorithm>(i), kind);
  return serving > 1;
}

// All names, for messages.
inline constexpr char kAlgorithmNames[] = "ring, tree, direct, pat or grid";
// "ring", "tree", "direct", "pat", "grid".
std::string_view Name(Algorithm algorithm);
std::optional<Algorithm> ParseAlgorithm(std::string_view name);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_ALGORITHM_H_

// `kind: Policy`: which policy decides, with what parameters, and for whom.
//
//   policy: priority_flow
//   parameters:                   # those that the policy knows, all optional unless it needs them
//     favoured: [team-a]
//     reserved_links: [leaf0-spine1]
//   for:                          # absent: for all that no other policy names
//     tenants: [team-a, team-b]   # or
//     communicators: [3f2a90c1d4e5b607]
//
// The policy of a communicator is the one that names it, else the one that names its tenant, else
// the one that names nobody.
//
// Policy `algorithm` comes on top of that one, and is the only one for some sizes:
//
//   policy: algorithm
//   parameters:
//     algorithm: tree             # ring, tree or direct
//     calls: [all_reduce]         # absent: all that have a choice and such a plan
//   for:
//     tenants: [team-a]
//     sizes: {from: 1MiB, below: 64MiB}   # of a call's count in bytes; each end optional
#ifndef MCCS_CONTROLLER_OBJECTS_POLICY_SPEC_H_
#define MCCS_CONTROLLER_OBJECTS_POLICY_SPEC_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.h"
#include "base/yaml_config.h"

namespace YAML {
class Emitter;
}

namespace mccs {

// Operations of `from` ≤ bytes < `below`.
struct SizeRange {
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  uint64_t from = 0;
  uint64_t below = kUnlimited;

  bool IsAll() const { return from == 0 && below == kUnlimited; }
  bool Overlaps(const SizeRange& other) const { return from < other.below && other.from < below; }
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

// "all", "from 1 MiB", "below 64 MiB", "1 MiB to 64 MiB".
std::string ToText(const SizeRange& sizes);

struct SourcePortLimits {
  uint16_t first = 0;
  uint16_t last = 0;
  friend bool operator==(const SourcePortLimits&, const SourcePortLimits&) = default;
};

inline constexpr uint32_t kMostChannelsPerNic = 8;

// Of all policies; each knows some of them (see PolicyParameterNames).
struct PolicyParameters {
  std::optional<SourcePortLimits> source_ports;  // of its lanes, both ends included
  // Draw the ports at random, with this seed, whatever other lanes have.
  std::optional<uint64_t> port_seed;
  // Of its rings: 1 … kMostChannelsPerNic, one if it does not say.
  std::optional<uint32_t> channels_per_nic;
  std::vector<std::string> order;           // hosts: the ring takes these first, in this order
  std::vector<std::string> avoid_links;     // no flow is placed there while there is another path
  std::vector<std::string> reserved_links;  // for the favoured tenants alone
  std::vector<std::string> favoured;        // tenants
  std::optional<Algorithm> algorithm;
  std::vector<std::string> calls;  // kinds of calls (proto/operation.cc) that `algorithm` is for

  friend bool operator==(const PolicyParameters&, const PolicyParameters&) = default;
};

inline constexpr char kAlgorithmPolicyName[] = "algorithm";

struct PolicySpec {
  std::string policy;
  PolicyParameters parameters;
  std::vector<std::string> tenants;        // each once
  std::vector<std::string> communicators;  // ids; likewise. At most one of the two lists has any.
  SizeRange sizes;

  // Whether it chooses algorithms; else rings and ports.
  bool ChoosesAlgorithms() const { return policy == kAlgorithmPolicyName; }

  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

// The kinds of calls that a Policy `algorithm` decides about, in the order of their values.
std::vector<OpKind> KindsOf(const PolicySpec& policy);

// The words for `policy`, and the parameters that one of them knows.
const std::vector<std::string>& PolicyNames();
std::vector<std::string> PolicyParameterNames(std::string_view policy);

// What is wrong with it is told by Finish() of `spec`'s document.
PolicySpec ReadPolicySpec(YamlReader spec);

// As a mapping that ReadPolicySpec reads as the same.
void Emit(const PolicySpec& spec, YAML::Emitter* out);

// Whom it is for: "tenants team-a, team-b", "communicator 3f2a90c1d4e5b607", "all others".
std::string ForText(const PolicySpec& spec);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_POLICY_SPEC_H_

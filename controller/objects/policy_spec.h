// `kind: Policy`: which policy decides, its parameters, and its selector.
//
//   type: priority_flow
//   parameters:                   # those of the policy; optional unless it needs them
//     favoured: [team-a]
//     reserved_links: [leaf0-spine1]
//   selector:                     # absent: all that no other policy selects
//     tenants: [team-a, team-b]   # or
//     communicators: [3f2a90c1d4e5b607]
//
// A communicator uses the policy that selects it, else the one that selects its tenant, else the
// one without a selector.
//
// Policy `algorithm` applies in addition to that one, and may apply to some sizes only:
//
//   type: algorithm
//   parameters:
//     algorithm: tree             # ring, tree or direct
//     calls: [all_reduce]         # absent: all calls with a choice that includes this algorithm
//   selector:
//     tenants: [team-a]
//     sizes: {min_bytes: 1MiB, max_bytes: 64MiB}   # of a call's count, both included and optional
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

// Operations with `min_bytes` ≤ bytes ≤ `max_bytes`.
struct SizeRange {
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  uint64_t min_bytes = 0;
  uint64_t max_bytes = kUnlimited;

  bool IsAll() const { return min_bytes == 0 && max_bytes == kUnlimited; }
  bool Overlaps(const SizeRange& other) const { return min_bytes <= other.max_bytes && other.min_bytes <= max_bytes; }
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

// "all", "from 1 MiB", "up to 64 MiB", "1 MiB to 64 MiB".
std::string ToText(const SizeRange& sizes);

struct SourcePortLimits {
  uint16_t first = 0;
  uint16_t last = 0;
  friend bool operator==(const SourcePortLimits&, const SourcePortLimits&) = default;
};

inline constexpr uint32_t kMostChannelsPerNic = 8;

// Of all policies; each one uses some of them (PolicyParameterNames).
struct PolicyParameters {
  std::optional<SourcePortLimits> source_ports;  // source ports of lanes, both ends included
  // Seed: draws ports at random, even if other lanes have them.
  std::optional<uint64_t> port_seed;
  // 1 … kMostChannelsPerNic; absent: 1.
  std::optional<uint32_t> channels_per_nic;
  std::vector<std::string> order;           // hosts that the ring takes first, in this order
  std::vector<std::string> avoid_links;     // links that get no flow while another path exists
  std::vector<std::string> reserved_links;  // links for favoured tenants only
  std::vector<std::string> favoured;        // tenants
  std::optional<Algorithm> algorithm;
  std::vector<std::string> calls;  // kinds of calls (proto/operation.cc) that use `algorithm`

  friend bool operator==(const PolicyParameters&, const PolicyParameters&) = default;
};

inline constexpr char kAlgorithmPolicyName[] = "algorithm";

struct PolicySpec {
  std::string type;
  PolicyParameters parameters;
  std::vector<std::string> tenants;  // no duplicates
  std::vector<std::string>
      communicators;  // ids, no duplicates. At most one of the lists is not empty.
  SizeRange sizes;

  // True: chooses algorithms; false: chooses rings and ports.
  bool ChoosesAlgorithms() const { return type == kAlgorithmPolicyName; }

  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

// The kinds of calls of a Policy `algorithm`, in the order of their values.
std::vector<OpKind> KindsOf(const PolicySpec& policy);

// The valid values of `type`, and the parameters of one type.
const std::vector<std::string>& PolicyNames();
std::vector<std::string> PolicyParameterNames(std::string_view policy);
// Errors are reported by Finish() of `spec`'s document.
PolicySpec ReadPolicySpec(YamlReader spec);

// Writes a mapping that ReadPolicySpec reads as an equal spec.
void Emit(const PolicySpec& spec, YAML::Emitter* out);

// The selector: "tenants team-a, team-b", "communicator 3f2a90c1d4e5b607", "all others".
std::string SelectorText(const PolicySpec& spec);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_POLICY_SPEC_H_

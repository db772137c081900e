// `kind: Policy`: its type (controller/objects/policy_kind.h), parameters, and selector.
//
//   type: priority_flow
//   parameters:                   # those of the type; optional unless it requires them
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
//     algorithm: tree             # ring, tree, direct, pat or grid
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
#include <vector>

#include "algorithms/algorithm.h"
#include "base/yaml_config.h"
#include "controller/objects/policy_kind.h"
#include "topology/topology.h"

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
  bool Overlaps(const SizeRange& other) const {
    return min_bytes <= other.max_bytes && other.min_bytes <= max_bytes;
  }
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

// "all", "from 1 MiB", "up to 64 MiB", "1 MiB to 64 MiB".
std::string ToText(const SizeRange& sizes);

// Limit for each list of names in PolicyParameters: as many as a cluster may have hosts.
inline constexpr size_t kMaxNamesOfParameter = 16'384;

// Of all types; each one uses some of them.
struct PolicyParameters {
  std::optional<SourcePortRange> source_ports;  // source ports of lanes
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

// Without values, it is the Policy that applies where no other does.
struct PolicySpec {
  PolicyKind type = PolicyKind::kLocalityRing;
  PolicyParameters parameters;
  std::vector<std::string> tenants;  // no duplicates
  std::vector<std::string>
      communicators;  // ids, no duplicates. At most one of the lists is not empty.
  SizeRange sizes;

  bool Decides(PolicyDecision what) const { return TraitsOf(type).decides.Contains(what); }

  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

// The kinds of calls of a Policy `algorithm`, in the order of their values.
std::vector<OpKind> KindsOf(const PolicySpec& policy);

// "locality_ring": the valid values of `type`; and the names of `parameters`.
std::vector<std::string> PolicyNames();
std::vector<std::string> NamesOf(EnumSet<PolicyParameter> parameters);

// Errors are reported by Finish() of `spec`'s document.
PolicySpec ReadPolicySpec(YamlReader spec);

// Writes a mapping that ReadPolicySpec reads as an equal spec.
void Emit(const PolicySpec& spec, YAML::Emitter* out);

// The selector: "tenants team-a, team-b", "communicator 3f2a90c1d4e5b607", "all others".
std::string SelectorText(const PolicySpec& spec);

// "source_ports 61000-61999; order h1,h0": the parameters that are set.
std::string ParametersText(const PolicyParameters& parameters);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_POLICY_SPEC_H_

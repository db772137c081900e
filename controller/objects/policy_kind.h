// The types of Policies: one row of kPolicyTraits each. Reading, checking, running, explaining and
// documenting a Policy take everything that differs between types from its row. A new type is a row
// here, and a case where its decision is made: RingOrderOf (controller/planning/planner.cc) for
// rings and flows, controller/rates/rate_limits.h for rates and send windows.
#ifndef MCCS_CONTROLLER_OBJECTS_POLICY_KIND_H_
#define MCCS_CONTROLLER_OBJECTS_POLICY_KIND_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace mccs {

enum class PolicyKind {
  kLocalityRing,
  kRankOrder,
  kFairFlow,
  kPriorityFlow,
  kTimeWindows,
  kShares,
  kAlgorithm
};

// A Policy's decision for the communicators that it applies to.
enum class PolicyDecision {
  kRings,        // the order of hosts, and a source port for each lane
  kFlows,        // the paths of lanes; possible only for hosts of a Topology
  kRates,        // the rate of each lane
  kSendWindows,  // when lanes may send
  kAlgorithms,   // in addition to the Policy that decides rings
};

enum class PolicyParameter {
  kSourcePorts,
  kPortSeed,
  kChannelsPerNic,
  kAlgorithm,
  kOrder,
  kAvoidLinks,
  kReservedLinks,
  kFavoured,
  kCalls
};

// Their names in YAML, by value.
inline constexpr const char* kPolicyParameterNames[] = {
    "source_ports", "port_seed",      "channels_per_nic", "algorithm", "order",
    "avoid_links",  "reserved_links", "favoured",         "calls"};
constexpr const char* Name(PolicyParameter parameter) {
  return kPolicyParameterNames[static_cast<size_t>(parameter)];
}

// Limits of parameters.
inline constexpr uint32_t kMostChannelsPerNic = 8;

// A set of values of an enum.
template <typename Enum>
class EnumSet {
 public:
  constexpr EnumSet(std::initializer_list<Enum> values) {
    for (const Enum value : values) bits_ |= 1u << static_cast<unsigned>(value);
  }
  constexpr bool Contains(Enum value) const { return bits_ >> static_cast<unsigned>(value) & 1; }

 private:
  uint32_t bits_ = 0;
};

struct PolicyTraits {
  PolicyKind kind;
  const char* name;    // `type` in YAML, and in the origins of strategies
  const char* effect;  // for operators, as in docs/operators/policies.md
  EnumSet<PolicyDecision> decides;
  EnumSet<PolicyParameter> parameters;
  EnumSet<PolicyParameter> required;
};

// By value of PolicyKind. Sources: "MCCS", SIGCOMM 2024, policies 1 (locality_ring), 2 (fair flow
// assignment, FFA), 3 (priority flow assignment, PFA) and 4 (time windows, TS).
inline constexpr PolicyTraits kPolicyTraits[] = {
    {PolicyKind::kLocalityRing,
     "locality_ring",
     "orders rings rack by rack; gives each lane its own source port. Applies where no Policy does",
     {PolicyDecision::kRings},
     {PolicyParameter::kSourcePorts, PolicyParameter::kPortSeed, PolicyParameter::kChannelsPerNic,
      PolicyParameter::kOrder},
     {}},
    {PolicyKind::kRankOrder,
     "rank_order",
     "orders rings by the hosts' lowest ranks, like a library that does not know the positions of "
     "hosts. Use it as a baseline",
     {PolicyDecision::kRings},
     {PolicyParameter::kSourcePorts, PolicyParameter::kPortSeed, PolicyParameter::kChannelsPerNic},
     {}},
    {PolicyKind::kFairFlow,
     "fair_flow",
     "orders rings rack by rack; places each lane on the path where it adds the least demand above "
     "capacity, and selects a source port that maps to that path",
     {PolicyDecision::kRings, PolicyDecision::kFlows},
     {PolicyParameter::kSourcePorts, PolicyParameter::kChannelsPerNic, PolicyParameter::kOrder,
      PolicyParameter::kAvoidLinks},
     {}},
    {PolicyKind::kPriorityFlow,
     "priority_flow",
     "like `fair_flow`, with reserved links, which all but the favoured tenants avoid",
     {PolicyDecision::kRings, PolicyDecision::kFlows},
     {PolicyParameter::kSourcePorts, PolicyParameter::kChannelsPerNic, PolicyParameter::kOrder,
      PolicyParameter::kAvoidLinks, PolicyParameter::kReservedLinks, PolicyParameter::kFavoured},
     {PolicyParameter::kFavoured}},
    {PolicyKind::kTimeWindows,
     "time_windows",
     "like `priority_flow`; also restricts when its communicators send: only while favoured "
     "tenants "
     "on the same links compute",
     {PolicyDecision::kRings, PolicyDecision::kFlows, PolicyDecision::kSendWindows},
     {PolicyParameter::kSourcePorts, PolicyParameter::kChannelsPerNic, PolicyParameter::kOrder,
      PolicyParameter::kAvoidLinks, PolicyParameter::kReservedLinks, PolicyParameter::kFavoured},
     {PolicyParameter::kFavoured}},
    {PolicyKind::kShares,
     "shares",
     "like `fair_flow`; also limits each lane to its share of the links, by the Tenants' weights, "
     "guarantees and caps",
     {PolicyDecision::kRings, PolicyDecision::kFlows, PolicyDecision::kRates},
     {PolicyParameter::kChannelsPerNic},
     {}},
    {PolicyKind::kAlgorithm,
     "algorithm",
     "selects the algorithm for calls of some sizes",
     {PolicyDecision::kAlgorithms},
     {PolicyParameter::kAlgorithm, PolicyParameter::kCalls},
     {PolicyParameter::kAlgorithm}},
};

constexpr const PolicyTraits& TraitsOf(PolicyKind kind) {
  return kPolicyTraits[static_cast<size_t>(kind)];
}
constexpr const char* Name(PolicyKind kind) { return TraitsOf(kind).name; }

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_POLICY_KIND_H_

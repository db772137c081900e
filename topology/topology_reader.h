// Reads a `kind: Topology` object:
//
//   apiVersion: mccs/v1
//   kind: Topology
//   metadata:
//     name: testbed
//   spec:
//     mtu: 9000                        # optional; bytes of the largest packet [1500]
//     pods: [p0]                       # optional
//     racks:
//       - name: r0
//         pod: p0                      # optional
//     switches:
//       - name: "leaf[0-1],spine[0-1]"
//         hash_seed: 7                 # optional, with `mapping: hash`
//         addresses: ["10.255.0.[1-4]"]  # optional, for probes; per pattern, one for each switch
//     hosts:
//       - name: "h[1-2]"
//         rack: r0
//         gpus: 2
//         nics:                        # each has one link, to a switch
//           - name: "nic[0-1]"
//             switch: leaf0            # or one for each NIC: "leaf[0-1]"
//             capacity: 50Gbit/s         # each way
//             address: "10.0.1.[1-4]"  # optional; h1/nic0, h1/nic1, h2/nic0, h2/nic1
//             near_gpus: [0, 1]        # optional; see below
//     links:                           # between switches: each on the left with each on the right
//       - ends: ["leaf[0-1]", "spine[0-1]"]
//         capacity: 50Gbit/s
//         name: "up[0-3]"              # optional; needed for a second link between two switches
//     source_ports:                    # optional; topology/topology.h
//       mapping: rules                 # rules, hash or probe (default)
//       candidates: 61000-65535        # permitted source ports of lanes
//       rules:
//         - ports: 61000-61999
//           via: spine0                # the next hop: a switch, or a link between switches
//           at: "leaf[0-1]"            # optional: the switches that have the rule
//
//     source_ports:
//       mapping: hash
//       hash:
//         name: linux-multipath        # topology/linux_multipath_hash.h
//         seed: 7
//         fields: [source_address, destination_address, protocol, source_port, destination_port]
//
// Names may be patterns (topology/named_parts.h). If no NIC of a host has near_gpus, GPUs and NICs
// are matched in order, spread evenly: with 8 GPUs and 4 NICs, NIC 0 is near GPUs 0 and 1.
//
// Pure.
#ifndef MCCS_TOPOLOGY_TOPOLOGY_READER_H_
#define MCCS_TOPOLOGY_TOPOLOGY_READER_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/yaml_config.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr char kTopologyApiVersion[] = "mccs/v1";

inline constexpr size_t kMaxTopologyHosts = 4096;
inline constexpr size_t kMaxTopologySwitches = 4096;
inline constexpr size_t kMaxAddressesOfSwitch = 256;
inline constexpr size_t kMaxTopologyLinks = 262'144;
inline constexpr int32_t kMaxGpusOfHost = 64;
inline constexpr size_t kMaxNicsOfHost = 64;

// kInvalidArgument: errors of base/yaml_config.h and inconsistent topologies: unknown ends,
// duplicate names (also of NICs' links), rates that are not above zero, hosts that cannot reach
// each other, hosts without NICs, switches without links, and contradicting rules for source ports.
// One line per error, "FILE:LINE:COLUMN: cause and remedy".
absl::StatusOr<Topology> ParseTopology(const std::string& text, const std::string& file_name);

// The same for the `spec` of an object that the caller reads. The reader collects errors: the
// result is valid only if its Finish() is OK.
Topology ReadTopologySpec(YamlReader spec, std::string name);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_TOPOLOGY_READER_H_

// Reading of a `kind: Topology` object:
//
//   apiVersion: mccs/v1
//   kind: Topology
//   metadata:
//     name: testbed
//   spec:
//     mtu: 9000                        # optional; bytes of the largest packet, [1500]
//     pods: [p0]                       # optional
//     racks:
//       - name: r0
//         pod: p0                      # optional
//     switches:
//       - name: "leaf[0-1],spine[0-1]"
//         hash_seed: 7                 # optional, with `mapping: hash`
//         addresses: ["10.255.0.[1-4]"]  # optional; by which they answer probes: of each pattern
//         one
//                                      # for each switch
//     hosts:
//       - name: "h[1-2]"
//         rack: r0
//         gpus: 2
//         nics:                        # each has one link, to a switch
//           - name: "nic[0-1]"
//             switch: leaf0            # or one for each NIC: "leaf[0-1]"
//             capacity: 50Gbps         # each way
//             address: "10.0.1.[1-4]"  # optional; h1/nic0, h1/nic1, h2/nic0, h2/nic1
//             near_gpus: [0, 1]        # optional; see below
//     links:                           # between switches: each of the left with each of the right
//       - between: ["leaf[0-1]", "spine[0-1]"]
//         capacity: 50Gbps
//         name: "up[0-3]"              # optional; needed for a second link between two switches
//     source_ports:                    # optional; topology/source_port_mapping.h
//       mapping: rules                 # rules, hash or probe, which is the default
//       candidates: 61000-65535        # ports that lanes may leave from
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
// Names may stand for many (topology/name_pattern.h). Where no NIC of a host says near_gpus, GPUs
// and NICs are laid side by side, each spread evenly: 8 GPUs and 4 NICs make NIC 0 near GPUs 0
// and 1.
//
// Pure: reads the text that it is given.
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

// kInvalidArgument: what base/yaml_config.h refuses, and a topology that does not hold together:
// ends that are not there, names (of NICs' links, too) that are there twice, rates that are not
// above zero, hosts that do not reach each other, hosts without NICs and switches without links,
// rules for source ports that contradict each other. One line for each fault, "FILE:LINE:COLUMN:
// what and the remedy".
absl::StatusOr<Topology> ParseTopology(const std::string& text, const std::string& file_name);

// The same for the `spec` of an object whose reader the caller has. Faults stay in the reader: the
// result is of use only if its Finish() is OK.
Topology ReadTopologySpec(YamlReader spec, std::string name);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_TOPOLOGY_READER_H_

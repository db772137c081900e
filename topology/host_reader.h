// Reads one entry of `hosts` in a topology file (topology/topology_reader.h): a group of equal
// hosts with their NICs and GPUs.
#ifndef MCCS_TOPOLOGY_HOST_READER_H_
#define MCCS_TOPOLOGY_HOST_READER_H_

#include <string>
#include <vector>

#include "base/yaml_config.h"
#include "topology/named_parts.h"
#include "topology/topology.h"

namespace mccs {

class HostReader {
 public:
  // `nodes`: names of switches and hosts read so far; `addresses`: all addresses. LIFETIME: all
  // outlive this.
  HostReader(Topology& topology, UniqueNames& nodes, UniqueNames& addresses)
      : topology_(topology), nodes_(nodes), addresses_(addresses) {}

  // Adds the hosts of `entry`, the next one of the file. The reader collects errors.
  void Read(YamlReader& entry);

 private:
  struct NicEntry {
    std::vector<std::string> names;
    std::vector<SwitchId> switches;  // one per name
    uint64_t capacity_bps = 0;
    std::vector<int32_t> near_gpus;
    std::vector<std::string> addresses;  // none, or one per name and host
  };

  std::vector<NicEntry> ReadNics(YamlReader& host, int32_t gpus, size_t hosts);
  NicEntry ReadNic(YamlReader& entry, int32_t gpus, size_t hosts);
  void ReadSwitches(YamlReader& entry, NicEntry& nic);
  void ReadNearGpus(YamlReader& entry, int32_t gpus, NicEntry& nic);
  void ReadAddresses(YamlReader& entry, size_t hosts, NicEntry& nic);
  // The n-th host of the entry.
  void Add(const std::string& name, size_t n, RackId rack, int32_t gpus,
           const std::vector<NicEntry>& nics);
  void SpreadEvenly(HostId host);

  Topology& topology_;
  UniqueNames& nodes_;
  UniqueNames& addresses_;
  int32_t entry_ = -1;  // index of the current entry
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_HOST_READER_H_

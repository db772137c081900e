// The cluster as the operator describes it: where hosts, NICs and GPUs stand, which switches there
// are, and which links join them. A plain value, read from a `kind: Topology` object
// (topology/topology_reader.h) or put together by hand in a test.
//
// Every NIC has one link, to a switch; a port of a NIC that the operator wants to use apart is a
// NIC. Hosts forward nothing.
#ifndef MCCS_TOPOLOGY_TOPOLOGY_H_
#define MCCS_TOPOLOGY_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "topology/position.h"
#include "topology/source_port_mapping.h"
#include "topology/topology_ids.h"

namespace mccs {

class Topology {
 public:
  struct Pod {
    std::string name;
  };
  struct Rack {
    std::string name;
    std::optional<PodId> pod;
  };
  struct Switch {
    std::string name;
    std::optional<uint32_t> hash_seed;   // where it differs from the others'
    std::vector<std::string> addresses;  // by any of which it may answer probes; numeric
  };
  struct Host {
    std::string name;
    RackId rack;
    std::vector<NicId> nics;
    std::vector<GpuId> gpus;  // by their index on the host
    int32_t entry = -1;       // of the file's `hosts`, for errors; −1: made by hand
  };
  struct Nic {
    std::string name;  // unique on its host
    HostId host;
    SwitchId attached_to;
    LinkId link;          // forward: out of the NIC
    std::string address;  // numeric; empty: not known from the file
    std::vector<GpuId> near_gpus;
    int32_t entry = -1;  // of the host's `nics` in the file, likewise
  };
  struct Gpu {
    HostId host;
    int32_t index = 0;
    std::vector<NicId> near_nics;
  };
  struct Link {
    std::string name;
    std::optional<NicId> nic;  // end a is this NIC …
    SwitchId a;                // … or else this switch
    SwitchId b;
    uint64_t capacity_bps = 0;  // each way
  };
  // A link between switches, as one of its ends sees it.
  struct Neighbour {
    ArcId arc;  // towards it
    SwitchId to;
  };

  // Of an IP packet, without the header of the frame that carries it.
  static constexpr int32_t kDefaultMtuBytes = 1500;
  static constexpr int32_t kMinMtuBytes = 576, kMaxMtuBytes = 65535;

  explicit Topology(std::string name) : name_(std::move(name)) {}

  // Building. REQUIRES of all: names are new among their kind, switches and hosts being one kind,
  // as are all links; ids are of this topology; capacities above zero.
  PodId AddPod(const std::string& name);
  RackId AddRack(const std::string& name, std::optional<PodId> pod = std::nullopt);
  SwitchId AddSwitch(const std::string& name, std::optional<uint32_t> hash_seed = std::nullopt);
  HostId AddHost(const std::string& name, RackId rack, int32_t gpus);
  // With its link "HOST/NIC-SWITCH".
  NicId AddNic(HostId host, std::string name, SwitchId attached_to, uint64_t capacity_bps,
               std::string address = "");
  LinkId AddLink(const std::string& name, SwitchId a, SwitchId b, uint64_t capacity_bps);
  void AddAddress(SwitchId at, std::string address);
  // Says that the two are near each other. REQUIRES: of the same host, not said yet.
  void SetNear(GpuId gpu, NicId nic);
  void SetEntry(HostId host, int32_t entry) { hosts_[host.value()].entry = entry; }
  void SetEntry(NicId nic, int32_t entry) { nics_[nic.value()].entry = entry; }
  // REQUIRES: kMinMtuBytes to kMaxMtuBytes.
  void SetMtu(int32_t bytes) { mtu_bytes_ = bytes; }
  void SetSourcePorts(SourcePortMapping mapping) { source_ports_ = std::move(mapping); }

  const std::string& name() const { return name_; }
  // The largest packet that all NICs and links take.
  int32_t mtu_bytes() const { return mtu_bytes_; }
  const SourcePortMapping& source_ports() const { return source_ports_; }

  std::span<const Pod> pods() const { return pods_; }
  std::span<const Rack> racks() const { return racks_; }
  std::span<const Switch> switches() const { return switches_; }
  std::span<const Host> hosts() const { return hosts_; }
  std::span<const Nic> nics() const { return nics_; }
  std::span<const Gpu> gpus() const { return gpus_; }
  std::span<const Link> links() const { return links_; }

  const Pod& pod(PodId id) const { return pods_[id.value()]; }
  const Rack& rack(RackId id) const { return racks_[id.value()]; }
  const Switch& switch_of(SwitchId id) const { return switches_[id.value()]; }
  const Host& host(HostId id) const { return hosts_[id.value()]; }
  const Nic& nic(NicId id) const { return nics_[id.value()]; }
  const Gpu& gpu(GpuId id) const { return gpus_[id.value()]; }
  const Link& link(LinkId id) const { return links_[id.value()]; }

  std::optional<PodId> FindPod(std::string_view name) const;
  std::optional<RackId> FindRack(std::string_view name) const;
  std::optional<SwitchId> FindSwitch(std::string_view name) const;
  std::optional<HostId> FindHost(std::string_view name) const;
  std::optional<LinkId> FindLink(std::string_view name) const;
  // "HOST/NIC".
  std::optional<NicId> FindNic(std::string_view name) const;

  // For topology/locality.h; an unknown pod is the empty string.
  Position PositionOf(HostId host) const;

  // The switches that a switch has links to, in natural order of their names, parallel links in the
  // order of the file: the order in which a switch counts equal next hops.
  std::span<const Neighbour> NeighboursOf(SwitchId at) const { return neighbours_[at.value()]; }

  size_t arc_count() const { return 2 * links_.size(); }
  ArcId ArcOut(NicId nic) const { return ForwardArc(nics_[nic.value()].link); }
  ArcId ArcInto(NicId nic) const { return BackwardArc(nics_[nic.value()].link); }
  uint64_t capacity_bps(ArcId arc) const { return link(LinkOf(arc)).capacity_bps; }
  // By arc, as topology/max_min_shares.h takes them.
  std::vector<double> ArcCapacities() const;

  // "h1/nic0".
  std::string NicName(NicId nic) const;
  // "leaf0 → spine1", with the link's own name behind it where that is another one.
  std::string ArcName(ArcId arc) const;

  // What AddNic and the reader call a link between these ends.
  static std::string LinkName(std::string_view a, std::string_view b);

 private:
  using Index = absl::flat_hash_map<std::string, int32_t>;

  std::string EndName(LinkId link, bool end_b) const;

  std::string name_;
  int32_t mtu_bytes_ = kDefaultMtuBytes;
  SourcePortMapping source_ports_;
  std::vector<Pod> pods_;
  std::vector<Rack> racks_;
  std::vector<Switch> switches_;
  std::vector<Host> hosts_;
  std::vector<Nic> nics_;
  std::vector<Gpu> gpus_;
  std::vector<Link> links_;
  std::vector<std::vector<Neighbour>> neighbours_;  // by switch
  Index pod_names_, rack_names_, switch_names_, host_names_, nic_names_, link_names_;
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_TOPOLOGY_H_

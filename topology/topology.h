// The cluster as the operator describes it: hosts, NICs, GPUs, switches and links. A plain value,
// read from a `kind: Topology` object (topology/topology_reader.h) or built in a test.
//
// Every NIC has one link, to a switch. A NIC with several ports is several NICs here. Hosts do not
// forward packets.
#ifndef MCCS_TOPOLOGY_TOPOLOGY_H_
#define MCCS_TOPOLOGY_TOPOLOGY_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "topology/position.h"

namespace mccs {

using PodId = StrongInt<struct PodIdTag, int32_t>;
using RackId = StrongInt<struct RackIdTag, int32_t>;
using SwitchId = StrongInt<struct SwitchIdTag, int32_t>;
using HostId = StrongInt<struct HostIdTag, int32_t>;
using NicId = StrongInt<struct NicIdTag, int32_t>;
using GpuId = StrongInt<struct GpuIdTag, int32_t>;
using LinkId = StrongInt<struct LinkIdTag, int32_t>;
using ArcId = StrongInt<struct ArcIdTag, int32_t>;

// The direction from the link's end a to its end b, and the opposite one.
constexpr ArcId ForwardArc(LinkId link) { return ArcId(2 * link.value()); }
constexpr ArcId BackwardArc(LinkId link) { return ArcId(2 * link.value() + 1); }
constexpr LinkId LinkOf(ArcId arc) { return LinkId(arc.value() / 2); }
constexpr bool IsForward(ArcId arc) { return arc.value() % 2 == 0; }

// Both ends included; empty if first > last.
struct SourcePortRange {
  uint16_t first = 0;
  uint16_t last = 0;

  bool Contains(uint16_t port) const { return first <= port && port <= last; }
  bool Overlaps(const SourcePortRange& other) const {
    return first <= other.last && other.first <= last;
  }
  // The ports that both contain.
  SourcePortRange Common(const SourcePortRange& other) const {
    return {std::max(first, other.first), std::min(last, other.last)};
  }
  friend bool operator==(const SourcePortRange&, const SourcePortRange&) = default;
};

// Permitted source ports of lanes by default. Above Linux's default range of ephemeral ports (32768
// to 60999), so that other programs do not use them by chance.
inline constexpr SourcePortRange kDefaultSourcePorts = {61000, 65535};

struct PortRule {
  SourcePortRange ports;
  std::vector<bool> at;   // by switch; empty: at every switch
  std::vector<bool> via;  // by arc: the next hops that it names
};

// The only known hash: topology/linux_multipath_hash.h.
struct SwitchHash {
  uint32_t seed = 0;    // of switches without a seed of their own
  uint32_t fields = 0;  // bits of kHash… in topology/linux_multipath_hash.h
};

// How the fabric maps a flow's source port to a path, from the topology file.
//
// kRules: the operator routes ranges of ports. At each switch the first matching rule decides, in
//         the order of the file: its ports contain the flow's, and it names an equal next hop.
// kHash:  each switch hashes the flow's five-tuple with a known function.
// kProbe: the mapping is not known; daemons probe it.
struct SourcePortMapping {
  enum class Kind { kProbe, kRules, kHash };

  Kind kind = Kind::kProbe;
  SourcePortRange candidates = kDefaultSourcePorts;  // permitted source ports of lanes
  std::vector<PortRule> rules;                       // kRules
  SwitchHash hash;                                   // kHash
};

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
    std::optional<uint32_t> hash_seed;   // if it differs from the default
    std::vector<std::string> addresses;  // numeric; it may answer probes from any of them
  };
  struct Host {
    std::string name;
    RackId rack;
    std::vector<NicId> nics;
    std::vector<GpuId> gpus;  // by their index on the host
    int32_t entry = -1;       // index in the file's `hosts`, for errors; −1: not from a file
  };
  struct Nic {
    std::string name;  // unique on its host
    HostId host;
    SwitchId attached_to;
    LinkId link;          // its end a is the NIC
    std::string address;  // numeric; empty: not in the file
    std::vector<GpuId> near_gpus;
    int32_t entry = -1;  // index in the host's `nics`, for errors; −1: not from a file
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
    uint64_t capacity_bps = 0;  // in each direction
  };
  // A link between switches, as seen from one end.
  struct Neighbour {
    ArcId arc;  // toward `to`
    SwitchId to;
  };

  // Sizes of an IP packet, without the frame's header.
  static constexpr int32_t kDefaultMtuBytes = 1500;
  static constexpr int32_t kMinMtuBytes = 576, kMaxMtuBytes = 65535;

  explicit Topology(std::string name) : name_(std::move(name)) {}

  // Building. REQUIRES of all: names are unique among pods, racks, links, and among switches and
  // hosts together; ids belong to this topology; capacities are above zero.
  PodId AddPod(const std::string& name);
  RackId AddRack(const std::string& name, std::optional<PodId> pod = std::nullopt);
  SwitchId AddSwitch(const std::string& name, std::optional<uint32_t> hash_seed = std::nullopt);
  HostId AddHost(const std::string& name, RackId rack, int32_t gpus);
  // Also adds its link "HOST/NIC-SWITCH".
  NicId AddNic(HostId host, std::string name, SwitchId attached_to, uint64_t capacity_bps,
               std::string address = "");
  LinkId AddLink(const std::string& name, SwitchId a, SwitchId b, uint64_t capacity_bps);
  void AddAddress(SwitchId at, std::string address);
  // Marks the two as near. REQUIRES: on the same host, not marked yet.
  void SetNear(GpuId gpu, NicId nic);
  void SetEntry(HostId host, int32_t entry) { hosts_[host.value()].entry = entry; }
  void SetEntry(NicId nic, int32_t entry) { nics_[nic.value()].entry = entry; }
  // REQUIRES: kMinMtuBytes to kMaxMtuBytes.
  void SetMtu(int32_t bytes) { mtu_bytes_ = bytes; }
  void SetSourcePorts(SourcePortMapping mapping) { source_ports_ = std::move(mapping); }

  const std::string& name() const { return name_; }
  // The largest packet that all NICs and links accept.
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

  // For topology/position.h; an unknown pod is the empty string.
  Position PositionOf(HostId host) const;

  // The switches that are linked to `at`: in natural order of names, parallel links in the order of
  // the file. Switches number equal next hops in this order.
  std::span<const Neighbour> NeighboursOf(SwitchId at) const { return neighbours_[at.value()]; }

  size_t arc_count() const { return 2 * links_.size(); }
  ArcId ArcOut(NicId nic) const { return ForwardArc(nics_[nic.value()].link); }
  ArcId ArcInto(NicId nic) const { return BackwardArc(nics_[nic.value()].link); }
  uint64_t capacity_bps(ArcId arc) const { return link(LinkOf(arc)).capacity_bps; }
  // By arc, for topology/max_min_shares.h.
  std::vector<double> ArcCapacities() const;

  // "h1/nic0".
  std::string NicName(NicId nic) const;
  // "leaf0 → spine1", followed by the link's name if the operator chose one.
  std::string ArcName(ArcId arc) const;

  // Default name of a link between these ends.
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

#include "controller/state/topology_mismatch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/objects/spec_fields.h"

namespace mccs {
namespace {

constexpr size_t kMaxShown = 20;

// Compares a host's Topology with its daemon's report.
class Comparison {
 public:
  Comparison(const Object& object, HostId id, const HostView& seen,
             std::vector<TopologyMismatch>* found)
      : object_(object),
        topology_(*TopologyOf(object).topology),
        host_(topology_.host(id)),
        seen_(seen),
        found_(found) {}

  void Compare() {
    ComparePosition();
    CompareGpus();
    for (const NicId nic : host_.nics) CompareNic(topology_.nic(nic));
  }

 private:
  template <typename... Text>
  void Add(bool of_host, const std::string& field, const Text&... text) {
    const std::string entry = host_.entry < 0 ? "" : absl::StrCat("[", host_.entry, "]");
    found_->push_back({object_.key, host_.name, absl::StrCat("spec.hosts", entry, field),
                       absl::StrCat("host ", host_.name, " ", text...), of_host});
  }

  void ComparePosition() {
    const Topology::Rack& rack = topology_.rack(host_.rack);
    const std::string& reported = seen_.position.rack;
    if (!reported.empty() && reported != rack.name) {
      Add(true, ".rack", "is in rack ", rack.name, " in the Topology, but in rack ", reported,
          " in its daemon's configuration; correct one of them");
      return;
    }
    const std::string pod = rack.pod ? topology_.pod(*rack.pod).name : "";
    if (!seen_.position.pod.empty() && !pod.empty() && seen_.position.pod != pod) {
      Add(true, ".rack", "is in pod ", pod, " in the Topology, but in pod ", seen_.position.pod,
          " in its daemon's configuration; correct one of them");
    }
  }

  void CompareGpus() {
    const auto here = static_cast<int>(host_.gpus.size());
    if (seen_.gpus == 0 || here <= seen_.gpus) return;
    Add(true, ".gpus", "has ", here, " GPUs in the Topology, but reports ", seen_.gpus,
        "; correct the Topology, or repair the host");
  }

  void CompareNic(const Topology::Nic& nic) {
    const std::string entry = nic.entry < 0 ? "" : absl::StrCat("[", nic.entry, "]");
    const std::string field = absl::StrCat(".nics", entry);
    if (!nic.address.empty() && !HasAddress(seen_, nic.address)) {
      Add(false, field + ".address", "has NIC ", nic.name, " at ", nic.address,
          " in the Topology, but reports ", Addresses(),
          "; correct the Topology, or bring the NIC up and restart mccsd");
      return;
    }
    const NicView* real = FindNic(nic);
    if (real != nullptr) CompareMtu(nic, *real);
    const uint64_t capacity = topology_.link(nic.link).capacity_bps;
    if (real == nullptr || real->speed_bps == 0 || capacity <= real->speed_bps) return;
    Add(true, field + ".capacity", "has NIC ", nic.name, " of ", ExactBitRate(capacity),
        " in the Topology, but reports ", ExactBitRate(real->speed_bps),
        "; lower the capacity, or check the cable");
  }

  // `mtu` applies to all NICs of the Topology, so the field is not the host's. The default MTU is
  // not an operator's choice: a NIC with a smaller MTU, as behind a tunnel, does not contradict it.
  void CompareMtu(const Topology::Nic& nic, const NicView& real) {
    const auto here = static_cast<uint32_t>(topology_.mtu_bytes());
    if (real.mtu_bytes == 0 || here <= real.mtu_bytes || here == Topology::kDefaultMtuBytes) return;
    found_->push_back({object_.key, host_.name, "spec.mtu",
                       absl::StrCat("host ", host_.name, " has NIC ", nic.name, " with MTU ", here,
                                    " in the Topology, but reports MTU ", real.mtu_bytes,
                                    "; lower `mtu`, or raise the NIC's MTU"),
                       /*of_host=*/false});
  }

  const NicView* FindNic(const Topology::Nic& nic) const {
    const auto found = std::find_if(seen_.nics.begin(), seen_.nics.end(), [&](const NicView& each) {
      if (nic.address.empty()) return each.name == nic.name;
      return std::find(each.addresses.begin(), each.addresses.end(), nic.address) !=
             each.addresses.end();
    });
    return found != seen_.nics.end() ? &*found : nullptr;
  }

  std::string Addresses() const {
    std::set<std::string> all;
    if (!seen_.peer_address.empty()) all.insert(seen_.peer_address);
    for (const NicView& nic : seen_.nics) all.insert(nic.addresses.begin(), nic.addresses.end());
    return all.empty() ? "no address" : absl::StrJoin(all, ", ");
  }

  const Object& object_;
  const Topology& topology_;
  const Topology::Host& host_;
  const HostView& seen_;
  std::vector<TopologyMismatch>* const found_;
};

void Compare(const Object& object, const std::map<std::string, const HostView*>& hosts,
             std::vector<TopologyMismatch>* found) {
  const Topology& topology = *TopologyOf(object).topology;
  for (size_t h = 0; h < topology.hosts().size(); ++h) {
    const auto seen = hosts.find(topology.hosts()[h].name);
    if (seen == hosts.end()) continue;
    Comparison(object, HostId(static_cast<int32_t>(h)), *seen->second, found).Compare();
  }
}

std::map<std::string, const HostView*> ByName(const ClusterView& view) {
  std::map<std::string, const HostView*> hosts;
  for (const HostView& host : view.hosts) hosts[host.position.host] = &host;
  return hosts;
}

}  // namespace

std::vector<TopologyMismatch> FindTopologyMismatches(const ObjectSet& set,
                                                     const ClusterView& view) {
  const std::map<std::string, const HostView*> hosts = ByName(view);
  std::vector<TopologyMismatch> found;
  for (const Object* object : set.OfKind(ObjectKind::kTopology)) Compare(*object, hosts, &found);
  return found;
}

void MarkMismatched(const ObjectSet& set, ClusterView* view) {
  std::set<std::string> mismatched;
  for (const TopologyMismatch& each : FindTopologyMismatches(set, *view)) {
    if (each.of_host) mismatched.insert(each.host);
  }
  for (HostView& host : view->hosts) host.mismatched = mismatched.contains(host.position.host);
}

void RemoveUnknownAddresses(const ClusterView& view, const std::vector<std::string>& hosts,
                            strategy::Strategy* strategy) {
  const std::map<std::string, const HostView*> known = ByName(view);
  for (strategy::ChannelStrategy& channel : *strategy->mutable_channels()) {
    for (int i = 0; i < channel.addresses_size(); ++i) {
      const auto host = known.find(hosts[static_cast<size_t>(channel.ring(i))]);
      if (host != known.end() && HasAddress(*host->second, channel.addresses(i))) continue;
      channel.clear_addresses();
      break;
    }
  }
}

absl::Status CheckAgainstHosts(const ObjectSet& before, const ObjectSet& after,
                               const ClusterView& view) {
  std::map<std::string, const HostView*> connected = ByName(view);
  std::erase_if(connected, [](const auto& host) { return !host.second->ready; });
  std::vector<TopologyMismatch> found;
  for (const Object* object : after.OfKind(ObjectKind::kTopology)) {
    const Object* old = before.Find(object->key);
    if (old != nullptr && TopologyOf(*old) == TopologyOf(*object)) continue;
    Compare(*object, connected, &found);
  }
  if (found.empty()) return absl::OkStatus();
  std::string text;
  for (size_t i = 0; i < found.size() && i < kMaxShown; ++i) {
    const TopologyMismatch& each = found[i];
    absl::StrAppend(&text, i == 0 ? "" : "\n", PlaceOf(*after.Find(each.topology), each.field),
                    ": ", ToText(each.topology), ", ", each.field, ": ", each.text);
  }
  if (found.size() > kMaxShown) absl::StrAppend(&text, "\n(", found.size() - kMaxShown, " more)");
  return absl::FailedPreconditionError(text);
}

}  // namespace mccs

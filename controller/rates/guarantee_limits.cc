#include "controller/rates/guarantee_limits.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "controller/policy/shares.h"

namespace mccs {
namespace {

struct FastestLink {
  const Object* topology = nullptr;
  const Topology::Link* link = nullptr;
  double payload_bps = 0;
};

// Of all NICs; the first of equally fast ones.
std::optional<FastestLink> FindFastest(const ObjectSet& set) {
  std::optional<FastestLink> fastest;
  for (const Object* object : set.OfKind(ObjectKind::kTopology)) {
    const Topology& topology = *TopologyOf(*object).topology;
    const double payload_part = UsableFraction(topology.mtu_bytes());
    for (const Topology::Nic& nic : topology.nics()) {
      const Topology::Link& link = topology.link(nic.link);
      const double payload_bps = payload_part * static_cast<double>(link.capacity_bps);
      if (!fastest || payload_bps > fastest->payload_bps) fastest = {object, &link, payload_bps};
    }
  }
  return fastest;
}

}  // namespace

std::set<std::string> RaisedGuarantees(const ObjectSet& before, const ObjectSet& after) {
  std::set<std::string> raised;
  for (const Object* object : after.OfKind(ObjectKind::kTenant)) {
    const uint64_t now = TenantOf(*object).guarantee_bps.value_or(0);
    const Object* old = before.Find(object->key);
    const uint64_t was = old != nullptr ? TenantOf(*old).guarantee_bps.value_or(0) : 0;
    if (now > was) raised.insert(object->key.name);
  }
  return raised;
}

std::string ExplainNicLimit(const ObjectSet& set, const Object& tenant) {
  const std::optional<uint64_t>& guarantee = TenantOf(tenant).guarantee_bps;
  if (!guarantee) return "";
  const std::optional<FastestLink> fastest = FindFastest(set);
  if (!fastest || static_cast<double>(*guarantee) <= fastest->payload_bps) return "";
  return absl::StrCat("no NIC can carry it: the fastest link, ", fastest->link->name, " of ",
                      ToText(fastest->topology->key), ", carries ",
                      FormatBitRate(fastest->payload_bps), " of payload, but ",
                      FormatBitRate(static_cast<double>(*guarantee)), " are guaranteed");
}

absl::Status CheckGuaranteesAgainstNics(const ObjectSet& before, const ObjectSet& after) {
  for (const std::string& name : RaisedGuarantees(before, after)) {
    const Object& tenant = *after.Find({ObjectKind::kTenant, name});
    const std::string why = ExplainNicLimit(after, tenant);
    if (why.empty()) continue;
    return absl::FailedPreconditionError(absl::StrCat(PlaceOf(tenant, "spec.guarantee"), ": ",
                                                      ToText(tenant.key), ", spec.guarantee: ", why,
                                                      "; lower it, or correct the Topology"));
  }
  return absl::OkStatus();
}

}  // namespace mccs

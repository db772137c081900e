#include "controller/coordinator/registration.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/closest_word.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "base/table.h"
#include "base/units.h"
#include "base/utf8.h"

namespace mccs {
namespace {

constexpr size_t kMaxShownEndpointBytes = 64;

// Other daemons get this endpoint. One spelling for each: endpoints are compared as texts.
absl::Status CheckPeerEndpoint(const agent::v1::Host& host) {
  const std::string& text = host.peer_endpoint();
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  if (endpoint.ok() && endpoint->port != 0 && IsNumericAddress(endpoint->host) &&
      !IsWildcardAddress(endpoint->host) && ToString(*endpoint) == text) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("invalid peer endpoint '",
                                                 Printable(CutText(text, kMaxShownEndpointBytes)),
                                                 "' of the daemon on host ", host.name(),
                                                 ": expected ADDRESS:PORT or [IPV6]:PORT, with a "
                                                 "numeric address of this host; set `advertise` "
                                                 "in mccsd's configuration"));
}

absl::Status CheckClock(const agent::v1::Register& registration, UnixNs now) {
  if (registration.unix_ns() <= 0) return absl::OkStatus();  // Not reported.
  // No overflow: neither is negative.
  const int64_t ahead = registration.unix_ns() - now;
  const int64_t off = ahead < 0 ? -ahead : ahead;
  if (off <= kClockToleranceNs) return absl::OkStatus();
  // In whole seconds, so that repeated attempts give the same message.
  return absl::FailedPreconditionError(
      absl::StrCat("the clock of host ", registration.host().name(), " is ",
                   FormatAge(off / kNsPerSec * kNsPerSec), ahead < 0 ? " behind" : " ahead of",
                   " the controller's; at most ", FormatAge(kClockToleranceNs),
                   " is allowed: correct the wrong clock (for example with chronyd); the daemon "
                   "retries automatically"));
}

}  // namespace

absl::Status CheckHostSize(const agent::v1::Register& registration) {
  const agent::v1::Host& host = registration.host();
  const std::pair<const char*, const std::string&> fields[] = {
      {"the host name", host.name()},     {"`pod`", host.position().pod()},
      {"`rack`", host.position().rack()}, {"the endpoint for peers", host.peer_endpoint()},
      {"the version", host.version()},    {"`topology`", registration.topology()}};
  for (const auto& [what, text] : fields) {
    if (text.size() <= kLongestHostField) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot register the host: ", what, " is too large (", text.size(),
        " bytes); the limit is ", kLongestHostField, " bytes: correct mccsd's configuration"));
  }
  if (const size_t size = host.ByteSizeLong(); size > kLargestHost) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot register the host: its description is too large (", size,
                     " bytes); the limit is ", kLargestHost, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckSurveySize(const agent::v1::GpuSurvey& survey) {
  const size_t size = survey.ByteSizeLong();
  if (size <= kLargestHost) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its survey of GPUs is too large (", size,
                                                 " bytes); the limit is ", kLargestHost, " bytes"));
}

absl::Status CheckRegistration(const agent::v1::Register& registration, const ObjectSet& objects,
                               std::optional<UnixNs> now, const std::string& version) {
  const agent::v1::Host& host = registration.host();
  if (registration.protocol() != kAgentProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("this controller (", version, ") uses version ", kAgentProtocol,
                     " of the agents' protocol, the daemon on ", host.name(), " (", host.version(),
                     ") version ", registration.protocol(), "; install the same release on both"));
  }
  MCCS_RETURN_IF_ERROR(CheckPeerEndpoint(host));
  if (now) MCCS_RETURN_IF_ERROR(CheckClock(registration, *now));
  return CheckTopologyName(host.name(), registration.topology(), objects);
}

absl::Status CheckTopologyName(const std::string& host, const std::string& name,
                               const ObjectSet& objects) {
  if (name.empty()) return absl::OkStatus();
  const auto reject = [&](const auto&... why) {
    return absl::FailedPreconditionError(
        absl::StrCat("mccsd on ", host, " is configured with `topology: ", name, "`, but ", why...,
                     "; correct `topology` in its configuration, or correct the Topologies"));
  };
  const Object* topology = objects.Find({ObjectKind::kTopology, name});
  if (topology == nullptr) {
    const std::vector<std::string> known = objects.NamesOf(ObjectKind::kTopology);
    const std::string* near = ClosestWord(name, known);
    return reject("there is no such Topology",
                  near != nullptr ? absl::StrCat(" (did you mean '", *near, "'?)") : std::string());
  }
  if (TopologyOf(*topology).topology->FindHost(host)) return absl::OkStatus();
  for (const Object* other : objects.OfKind(ObjectKind::kTopology)) {
    if (!TopologyOf(*other).topology->FindHost(host)) continue;
    return reject("this host is in Topology '", other->key.name, "'");
  }
  return reject("that Topology has no such host");
}

agent::v1::Tenants TenantsOf(const ObjectSet& objects) {
  agent::v1::Tenants tenants;
  for (const Object* object : objects.OfKind(ObjectKind::kTenant)) {
    const TenantSpec& spec = TenantOf(*object);
    agent::v1::Tenant* tenant = tenants.add_tenants();
    tenant->set_name(object->key.name);
    for (const uint32_t uid : spec.uids) tenant->add_uids(uid);
    for (const std::string& socket : spec.sockets) tenant->add_sockets(socket);
    for (const std::string& cgroup : spec.cgroups) tenant->add_cgroups(cgroup);
    for (const DeclaredSocket& socket : spec.declared_sockets) {
      agent::v1::DeclaredSocket* declared = tenant->add_declared_sockets();
      declared->set_path(socket.path);
      declared->set_mode(socket.mode);
      if (socket.uid) declared->set_uid(*socket.uid);
      if (socket.gid) declared->set_gid(*socket.gid);
    }
    tenant->set_cap_bps(spec.cap_bps.value_or(0));
    tenant->set_priority(spec.priority);
    if (spec.max_communicators) tenant->set_max_communicators(*spec.max_communicators);
    if (spec.max_memory_bytes) tenant->set_max_memory_bytes(*spec.max_memory_bytes);
    if (spec.max_operations) tenant->set_max_operations(*spec.max_operations);
  }
  return tenants;
}

}  // namespace mccs

#include "controller/coordinator/tenants.h"

namespace mccs {

agent::v1::Tenants TenantsOf(const ObjectSet& objects) {
  agent::v1::Tenants tenants;
  for (const Object* object : objects.OfKind(ObjectKind::kTenant)) {
    const TenantSpec& spec = TenantOf(*object);
    agent::v1::Tenant* tenant = tenants.add_tenants();
    tenant->set_name(object->key.name);
    for (const uint32_t uid : spec.uids) tenant->add_uids(uid);
    for (const std::string& socket : spec.sockets) tenant->add_sockets(socket);
    for (const std::string& cgroup : spec.cgroups) tenant->add_cgroups(cgroup);
    if (spec.max_communicators) tenant->set_max_communicators(*spec.max_communicators);
    if (spec.max_memory_bytes) tenant->set_max_memory_bytes(*spec.max_memory_bytes);
    if (spec.max_operations) tenant->set_max_operations(*spec.max_operations);
  }
  return tenants;
}

}  // namespace mccs

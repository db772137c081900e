#include "service/agent/tenants_proto.h"

#include <utility>

namespace mccs {

std::vector<TenantEntry> TenantsFromProto(const agent::v1::Tenants& message) {
  std::vector<TenantEntry> tenants;
  for (const agent::v1::Tenant& each : message.tenants()) {
    TenantEntry tenant = {.name = each.name(),
                          .selector = {.uids = {each.uids().begin(), each.uids().end()},
                                       .sockets = {each.sockets().begin(), each.sockets().end()},
                                       .cgroups = {each.cgroups().begin(), each.cgroups().end()}},
                          .quotas = {}};
    if (each.has_max_communicators()) tenant.quotas.communicators = each.max_communicators();
    if (each.has_max_memory_bytes()) tenant.quotas.memory_bytes = each.max_memory_bytes();
    if (each.has_max_operations()) tenant.quotas.operations = each.max_operations();
    tenants.push_back(std::move(tenant));
  }
  return tenants;
}

}  // namespace mccs

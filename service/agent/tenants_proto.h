// Converts Tenants from the controller's message (proto/agent.proto).
#ifndef MCCS_SERVICE_AGENT_TENANTS_PROTO_H_
#define MCCS_SERVICE_AGENT_TENANTS_PROTO_H_

#include <vector>

#include "proto/agent.pb.h"
#include "service/tenant_ledger.h"

namespace mccs {

std::vector<TenantEntry> TenantsFromProto(const agent::v1::Tenants& message);

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_TENANTS_PROTO_H_

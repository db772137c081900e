#include "tests/sim/hostile_tenants.h"

#include "absl/strings/str_cat.h"

namespace mccs {

HostileTenants::HostileTenants(SimWorld& world, uint64_t seed, RandomCounts& counts)
    : world_(world), counts_(counts), dice_(~seed), expected_(dice_() % 4) {}

void HostileTenants::Act(const std::vector<int>& hosts) {
  if (expected_ > 0 && !hosts.empty() && dice_() % 8 == 0) {
    --expected_;
    hostile_tenants_.emplace_back(
        world_, hosts, absl::StrCat("10.66.0.", hostile_tenants_.size() + 1), dice_(), counts_);
  }
  for (HostileTenant& hostile_tenant : hostile_tenants_) {
    if (dice_() % 2 == 0) hostile_tenant.Act();
  }
}

void HostileTenants::OnDaemonDied(int host) {
  for (HostileTenant& hostile_tenant : hostile_tenants_) hostile_tenant.OnDaemonDied(host);
}

void HostileTenants::Leave() {
  expected_ = 0;
  for (HostileTenant& hostile_tenant : hostile_tenants_) hostile_tenant.Leave();
}

std::string HostileTenants::FindRemainingState() const {
  for (const HostileTenant& hostile_tenant : hostile_tenants_) {
    const size_t streams = world_.network().half_closed_streams(hostile_tenant.address());
    if (streams == 0) continue;
    return absl::StrCat("daemons still have ", streams, " connections with the hostile tenant at ",
                        hostile_tenant.address(), ", which has left");
  }
  for (int h = 0; h < world_.hosts() && !hostile_tenants_.empty(); ++h) {
    if (!world_.host(h).alive()) continue;
    const auto has = world_.host(h).daemon().counters()->Of(kHostileTenantName);
    const auto communicators = has->forming.value() + has->active.value() + has->failed.value();
    if (communicators == 0 && has->sessions.value() == 0 && has->buffers.value() == 0 &&
        has->buffer_bytes.value() == 0) {
      continue;
    }
    return absl::StrCat("h", h, " still has ", communicators, " communicators, ",
                        has->sessions.value(), " processes and ", has->buffers.value(),
                        " buffers of hostile tenants that have left");
  }
  return "";
}

std::string HostileTenants::FindViolation() const {
  for (const HostileTenant& hostile_tenant : hostile_tenants_) {
    const std::string wrong = hostile_tenant.FindViolation();
    if (!wrong.empty())
      return absl::StrCat("the hostile tenant at ", hostile_tenant.address(), ": ", wrong);
  }
  return "";
}

}  // namespace mccs

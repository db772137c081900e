// What the log is told of tenants' faults: a tenant that breaks the protocol again and again does
// not hide what else the log says.
//
// OWNER: the daemon. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_TENANT_WARNINGS_H_
#define MCCS_SERVICE_FRONTEND_TENANT_WARNINGS_H_

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/log.h"

namespace mccs {

class TenantWarnings {
 public:
  // Lines of one tenant in a minute: a job whose eight processes fail each for its own reason is
  // told in full.
  static constexpr int kPerMinute = 16;
  // Tenants with lines in one minute; of more of them nothing is written.
  static constexpr size_t kMostTenants = 1024;

  // LIFETIME: both outlive this.
  TenantWarnings(Log& log, const Clock& clock) : log_(log), clock_(clock) {}

  // Writes the line, if the tenant has not had its share; the last one says that it is the last.
  void Write(const std::string& tenant, const std::string& line);

 private:
  struct Minute {
    MonotonicNs ends = 0;
    int lines = 0;
  };

  Log& log_;
  const Clock& clock_;
  absl::flat_hash_map<std::string, Minute> minutes_;  // that have not ended when last looked at
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_TENANT_WARNINGS_H_

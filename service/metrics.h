// A daemon's counters as Prometheus metrics, served by mccsd at GET /metrics.
// docs/reference/metrics.md lists them.
//
// THREAD: any.
#ifndef MCCS_SERVICE_METRICS_H_
#define MCCS_SERVICE_METRICS_H_

#include <prometheus/metric_family.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "service/counters.h"

namespace mccs {

struct DaemonFacts {
  std::string host;
  std::string version;
  bool controller_connected = false;
  uint64_t log_lines_dropped = 0;
  // End of the host's certificate, Unix time; 0: unknown. Nothing: it has none.
  std::optional<int64_t> certificate_end_s = {};
};

std::vector<prometheus::MetricFamily> DaemonMetrics(const DaemonCounters& counters,
                                                    const DaemonFacts& facts);

}  // namespace mccs

#endif  // MCCS_SERVICE_METRICS_H_

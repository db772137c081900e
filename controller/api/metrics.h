// The controller's metrics in Prometheus' format, for GET /metrics of mccs-controller.
// docs/reference/metrics.md documents them. Pure.
#ifndef MCCS_CONTROLLER_API_METRICS_H_
#define MCCS_CONTROLLER_API_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "controller/api/refused_clients.h"
#include "controller/coordinator/coordinator.h"
#include "controller/store/counting_store.h"

namespace mccs {

// REQUIRES: the caller holds the coordinator's lock.
std::vector<prometheus::MetricFamily> ControllerMetrics(const Coordinator& coordinator,
                                                        const StoreCounts& store,
                                                        const RefusedCounts& refused);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_METRICS_H_

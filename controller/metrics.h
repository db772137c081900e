// The controller's numbers in Prometheus' terms: what GET /metrics of mccs-controller shows.
// docs/operator.md lists them for people. Pure.
#ifndef MCCS_CONTROLLER_METRICS_H_
#define MCCS_CONTROLLER_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "controller/coordinator.h"
#include "controller/store/counting_store.h"

namespace mccs {

// Looks at the coordinator alone: whoever calls holds its lock.
std::vector<prometheus::MetricFamily> ControllerMetrics(const Coordinator& coordinator,
                                                        const StoreCounts& store);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_METRICS_H_

// The interval of all daemons' periodic reports. It grows with the number of hosts, so that the
// controller's work for reports does not. Pure.
#ifndef MCCS_CONTROLLER_MEASUREMENT_REPORT_INTERVAL_H_
#define MCCS_CONTROLLER_MEASUREMENT_REPORT_INTERVAL_H_

#include <cstddef>
#include <cstdint>

namespace mccs {

// The interval with `hosts` connected daemons, after `current`. At least 1 ms per host, in steps
// from 500 ms up to 5 s. A shorter one needs a tenth fewer hosts than its step allows, so that a
// host that comes and goes does not change the interval each time.
int64_t NextReportInterval(int64_t current_ns, size_t hosts);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_MEASUREMENT_REPORT_INTERVAL_H_

// Divides the time of traced operations into hops, and formats traces. Pure.
//
// A hop ends when the host reaches a step of the operation (proto/operation_trace.proto), and
// begins at the step before it in time. So the hops of an operation add up to its whole time, from
// the first local rank's record to the done words, also on a host that forwards what it receives.
#ifndef MCCS_TOOLS_MCCSCTL_TRACE_REPORT_H_
#define MCCS_TOOLS_MCCSCTL_TRACE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/operation_trace.pb.h"
#include "proto/operator.pb.h"

namespace mccs {

struct Hop {
  const char* name;
  const char* until;        // what the host waits for
  std::vector<int64_t> ns;  // of the operations that have this hop, ascending
  double share = 0;         // of the whole time of all operations, 0 … 1
};

// The hops that at least one operation of the host has, in the order of an ordinary operation.
std::vector<Hop> HopsOf(const trace::Host& host);
// The whole times of the host's operations, ascending.
std::vector<int64_t> WholeTimesOf(const trace::Host& host);
// Nearest-rank percentile. REQUIRES: `ascending` is not empty; 0 < part ≤ 1.
int64_t Percentile(const std::vector<int64_t>& ascending, double part);

// A table of hops per host.
std::string RenderTrace(const control::v1::TraceReply& reply);
// Trace Event format, for Perfetto: a process per host. If all hosts' clocks are known, they have
// one time axis; else each host starts at 0. Hosts whose clocks differ by less than the error have
// the same clock.
std::string RenderChromeTrace(const control::v1::TraceReply& reply);
// One line per host without operations, with the reason.
std::vector<std::string> HostsWithoutOperations(const control::v1::TraceReply& reply);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_TRACE_REPORT_H_

// From what communicators had done at two moments to how fast they are. Pure.
//
// Bandwidths are those of nccl-tests. With n ranks and S the bytes of a call as that counts them:
//
//   call                             S                  algbw   busbw
//   all_reduce                       count × size       S / t   algbw × 2 (n − 1) / n
//   all_gather, reduce_scatter,
//   all_to_all, gather, scatter      count × size × n   S / t   algbw × (n − 1) / n
//   broadcast, reduce                count × size       S / t   algbw
//   send, put                        count × size       S / t   algbw
//
// where t is all the time between the two moments, and not that of the calls. A receive is its
// send's other end, and not counted again.
#ifndef MCCS_TOOLS_MCCSCTL_WORK_RATES_H_
#define MCCS_TOOLS_MCCSCTL_WORK_RATES_H_

#include "proto/operator.pb.h"

namespace mccs {

// Daemons report so often while operations complete (service/communicator/reporter.cc).
inline constexpr double kReportPeriodSeconds = 0.5;

// `seconds` lie between the two replies. Communicators of `after`, the highest busbw first. A
// host's time is that of its own clock between its two reports, since these arrive at any moment; a
// host that reported nothing meanwhile has done nothing.
control::TopRates RatesOf(const control::ListWorkReply& before, const control::ListWorkReply& after,
                          double seconds);

// `after`, with what each flow has sent since `before`, and how long it was held up meanwhile; a
// flow that was not there yet has sent nothing.
control::Explanation WithRates(const control::Explanation& before, control::Explanation after,
                               double seconds);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_WORK_RATES_H_

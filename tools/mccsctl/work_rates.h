// Computes rates of communicators from two samples of their counters. Pure.
//
// Bandwidths follow nccl-tests, with n ranks and S the bytes of a call as nccl-tests counts them:
//
//   call                             S                  algbw   busbw
//   all_reduce                       count × size       S / t   algbw × 2 (n − 1) / n
//   all_gather, reduce_scatter,
//   all_to_all, gather, scatter      count × size × n   S / t   algbw × (n − 1) / n
//   broadcast, reduce                count × size       S / t   algbw
//   send, put                        count × size       S / t   algbw
//
// where t is the whole time between the two samples, not the duration of the calls. Receives are
// not counted: their sends are.
#ifndef MCCS_TOOLS_MCCSCTL_WORK_RATES_H_
#define MCCS_TOOLS_MCCSCTL_WORK_RATES_H_

#include <cstdint>

#include "proto/operator.pb.h"

namespace mccs {

// The seconds between two samples if the user asks for `asked`: at least as long as a working host
// may be without a new report. `report_every_ns`: of the replies.
double SecondsToWait(double asked, int64_t report_every_ns);

// `seconds` is the time between the two replies. Returns the communicators of `after`, highest
// busbw first. Each host's interval is measured on its own clock, between its two reports. A host
// without a new report has rate 0.
control::v1::TopRates ComputeRates(const control::v1::ListWorkReply& before,
                                   const control::v1::ListWorkReply& after, double seconds);

// Returns `after` with each flow's rate and waiting times since `before`. A flow that is new has
// rate 0.
control::v1::Explanation WithRates(const control::v1::Explanation& before,
                                   control::v1::Explanation after, double seconds);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_WORK_RATES_H_

// Sends a report as its difference from the last one (Progress in proto/agent.proto). The sender
// makes the difference, the receiver applies it.
//
// Pure.
#ifndef MCCS_PROTO_REPORT_PROGRESS_H_
#define MCCS_PROTO_REPORT_PROGRESS_H_

#include <optional>

#include "proto/agent.pb.h"

namespace mccs {

// The difference that turns `before` into `now`. Nothing: they differ in more than Progress has,
// and `now` must be sent as a whole.
std::optional<agent::v1::Progress> ProgressBetween(const agent::v1::Report& before,
                                                   const agent::v1::Report& now);

// ENSURES: with ProgressBetween(before, now), `report` changes from `before` to `now`. False: the
// numbers are for other kinds of work or other lanes; `report` is unchanged.
bool ApplyProgress(const agent::v1::Progress& progress, agent::v1::Report* report);

}  // namespace mccs

#endif  // MCCS_PROTO_REPORT_PROGRESS_H_

// Formats hosts and rings for operators. Pure.
#ifndef MCCS_CONTROLLER_VIEW_RING_TEXT_H_
#define MCCS_CONTROLLER_VIEW_RING_TEXT_H_

#include <string>

#include "controller/view/cluster_view.h"

namespace mccs {

// Name of the host at this position; "host 7" if there is none.
std::string HostName(const CommunicatorView& communicator, int position);

// "h0 → h1 → h0": ends with the first host.
std::string RingText(const CommunicatorView& communicator,
                     const strategy::ChannelStrategy& channel);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_RING_TEXT_H_

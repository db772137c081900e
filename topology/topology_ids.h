// Ids of the parts of a cluster: numbers from 0 per kind, in the order of the topology file.
//
// An arc is one direction of a link, and has the link's whole capacity. Flows load arcs.
#ifndef MCCS_TOPOLOGY_TOPOLOGY_IDS_H_
#define MCCS_TOPOLOGY_TOPOLOGY_IDS_H_

#include <cstdint>

#include "base/ids.h"

namespace mccs {

using PodId = StrongInt<struct PodIdTag, int32_t>;
using RackId = StrongInt<struct RackIdTag, int32_t>;
using SwitchId = StrongInt<struct SwitchIdTag, int32_t>;
using HostId = StrongInt<struct HostIdTag, int32_t>;
using NicId = StrongInt<struct NicIdTag, int32_t>;
using GpuId = StrongInt<struct GpuIdTag, int32_t>;
using LinkId = StrongInt<struct LinkIdTag, int32_t>;
using ArcId = StrongInt<struct ArcIdTag, int32_t>;

// The direction from the link's end a to its end b, and the opposite one.
constexpr ArcId ForwardArc(LinkId link) { return ArcId(2 * link.value()); }
constexpr ArcId BackwardArc(LinkId link) { return ArcId(2 * link.value() + 1); }
constexpr LinkId LinkOf(ArcId arc) { return LinkId(arc.value() / 2); }
constexpr bool IsForward(ArcId arc) { return arc.value() % 2 == 0; }

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_TOPOLOGY_IDS_H_

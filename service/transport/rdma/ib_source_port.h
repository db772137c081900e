// The UDP source port of a queue pair's packets (RoCE v2), on which their route depends: how a
// device lets it be chosen, and which one results.
//
// THREAD: any.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_IB_SOURCE_PORT_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_IB_SOURCE_PORT_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "service/transport/rdma/verbs.h"

namespace mccs {

// RoCE v2 uses these by its standard.
inline constexpr uint16_t kFirstRocePort = 0xc000;

// The best means of an Ethernet port's device.
SourcePortMeans SourcePortMeansOf(ibv_context* device);

// The flow label from which drivers compute the port, and the port that results from it: only ports
// from kFirstRocePort on can be had. 0: the driver's own choice.
uint32_t FlowLabelFor(uint16_t port);
uint16_t PortOfFlowLabel(uint32_t label);

// The port that rdma_rxe before Linux 5.18 derives from a queue pair's number (rxe_qp.c: hash_32 of
// it).
uint16_t PortOfNumber(QueuePairNumber number);

// Sets any port (mlx5). REQUIRES: kModify; the queue pair can send. Returns false if the device
// rejects it.
bool ModifySourcePort(ibv_qp* queue_pair, uint16_t port);

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_IB_SOURCE_PORT_H_

// Costs of turns to the engine, in bytes that a processor core reads or writes in the same time
// (about 10 per ns). Costs are counted, not measured: a measured time would charge a tenant for
// the time in which the engine had no processor, and would not be the same in the simulator.
#ifndef MCCS_SERVICE_COMMUNICATOR_TURN_COST_H_
#define MCCS_SERVICE_COMMUNICATOR_TURN_COST_H_

#include <cstdint>

#include "service/communicator/schedule/operation_loop.h"

namespace mccs {

// A communicator's turn, apart from its results.
inline constexpr int64_t kTurnCost = 8 << 10;
// A completed operation or message.
inline constexpr int64_t kCallCost = 16 << 10;
// A communicator that becomes active, fails or closes.
inline constexpr int64_t kStateChangeCost = 256 << 10;

// Of a tenant per round: one communicator's turn with as many small operations as it may start in
// one. With less, no tenant would pay for a whole turn; with more, a tenant with one
// communicator could not use it.
inline constexpr int64_t kTenantQuantum = kTurnCost + OperationLoop::kOperationsPerTurn * kCallCost;

// A turn of the engine ends after the communicator's turn with which the cost reaches this, about
// half a millisecond. The next turn continues the round.
inline constexpr int64_t kEngineTurnCost = 4 << 20;

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_TURN_COST_H_

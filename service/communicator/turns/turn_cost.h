// Costs of turns to the engine, in bytes that a processor core reads or writes in the same time
// (about 10 per ns). Costs are counted, not measured: a measured time would charge a tenant for
// the time in which the engine had no processor, and would not be the same in the simulator.
#ifndef MCCS_SERVICE_COMMUNICATOR_TURNS_TURN_COST_H_
#define MCCS_SERVICE_COMMUNICATOR_TURNS_TURN_COST_H_

#include <cstdint>

namespace mccs {

// To show costs as time.
inline constexpr double kCostPerSecond = 1e10;

// A communicator's turn, apart from its results.
inline constexpr int64_t kTurnCost = 8 << 10;
// A completed operation or message.
inline constexpr int64_t kCallCost = 16 << 10;
// A communicator that becomes active, fails or closes, or a rank that joins by a split.
inline constexpr int64_t kStateChangeCost = 256 << 10;

// A byte of a roster or strategy, which is hashed, parsed and checked.
inline constexpr int64_t kRosterByteCost = 16;

// Of a tenant per round of control links (tree_relay.h, rendezvous.h): a few of its links.
inline constexpr int64_t kControlQuantum = 128 << 10;

// A turn of the engine ends after the communicator's turn with which the cost reaches this, about
// half a millisecond. The next turn continues the round.
inline constexpr int64_t kEngineTurnCost = 4 << 20;

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_TURNS_TURN_COST_H_

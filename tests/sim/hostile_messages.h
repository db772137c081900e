// Messages that hostile daemons send: messages of peer.proto with random values, and valid ones
// with a change.
#ifndef MCCS_TESTS_SIM_HOSTILE_MESSAGES_H_
#define MCCS_TESTS_SIM_HOSTILE_MESSAGES_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <random>

#include "proto/peer.pb.h"
#include "service/messages/open_message.h"

namespace mccs {

using Dice = std::mt19937_64;

// `near`, a neighbor of it, a limit of some type, or a random number.
uint64_t RandomBoundaryNumber(uint64_t near, Dice& dice);

// A random message with random fields.
peer::Message RandomMessage(Dice& dice);

// Changes, removes or repeats a random field of the message.
void Corrupt(google::protobuf::Message& message, Dice& dice);
void Corrupt(MessageTag& tag, Dice& dice);

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_HOSTILE_MESSAGES_H_

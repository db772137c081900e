// Messages that hostile daemons send: messages of peer.proto with random values, and valid ones
// with a change.
#ifndef MCCS_TESTS_SIM_LYING_MESSAGES_H_
#define MCCS_TESTS_SIM_LYING_MESSAGES_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <random>
#include <string>

#include "proto/peer.pb.h"
#include "service/messages/message_tag.h"

namespace mccs {

using Dice = std::mt19937_64;

// `near`, a neighbor of it, a limit of some type, or a random number.
uint64_t LyingNumber(uint64_t near, Dice& dice);

// A random message with random fields.
peer::Message InventedMessage(Dice& dice);

// Changes, removes or repeats a random field of the message.
void Spoil(google::protobuf::Message& message, Dice& dice);
void Spoil(MessageTag& tag, Dice& dice);

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_LYING_MESSAGES_H_

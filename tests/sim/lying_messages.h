// What hostile daemons say to honest ones: messages of peer.proto with any values, and valid ones
// with something changed.
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

// `near`, a neighbour of it, a limit of some type, or any number.
uint64_t LyingNumber(uint64_t near, Dice& dice);

// A message of any kind, each of its fields at random.
peer::Message InventedMessage(Dice& dice);

// Changes, removes or repeats a field somewhere in the message.
void Spoil(google::protobuf::Message& message, Dice& dice);
void Spoil(MessageTag& tag, Dice& dice);

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_LYING_MESSAGES_H_

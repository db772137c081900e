// Random programs: what all ranks of a job do, one step after the other, drawn from a seed.
//
// A program is the same in every process that draws it for the same seed and number of ranks. It
// cannot deadlock on a library that is right: all ranks follow one order of steps. Nor can it race:
// within a step nobody uses a buffer twice, and between steps a buffer's users are put into order
// by their stream, their communicator or an event.
#ifndef TESTS_CONFORMANCE_RANDOM_PROGRAM_H_
#define TESTS_CONFORMANCE_RANDOM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/collective_call.h"
#include "conformance/random_model.h"

namespace conformance {

// Numbers from a seed, the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  int Below(int bound) { return static_cast<int>(Next() % static_cast<uint64_t>(bound)); }
  bool OneIn(int bound) { return Below(bound) == 0; }

 private:
  uint64_t state_;
};

struct Message {
  int from, to;  // ranks of the communicator
  size_t count;
  size_t send_at, receive_at;  // elements
};

// One call of every member: a collective, or a set of sends and receives.
struct RandomOperation {
  int comm = 0;
  bool point_to_point = false;
  Call call;
  int scalar = 0;  // not 0: of a user operator that multiplies by it
  std::vector<Message> messages;
  int send_buffer = 0;
  int receive_buffer = 0;  // the same where it is in place
  size_t send_at = 0;      // elements
  size_t receive_at = 0;
  std::vector<int> streams;  // of each member

  bool in_place() const { return send_buffer == receive_buffer; }
};

struct Step {
  enum class Kind { kInit, kSplit, kOperations, kFill, kCheck, kDestroy };
  Kind kind = Kind::kCheck;
  int comm = 0;  // that is made or destroyed
  // Of kInit: members, in the order of ranks. Of kSplit: color and key of each of the parent's.
  int parent = 0;
  std::vector<int> colors;
  std::vector<int> keys;
  std::vector<RandomOperation> operations;
  bool in_group = false;
  uint64_t shuffle = 0;  // in which order each rank posts operations of different communicators
  // Of kFill.
  int buffer = 0;
  uint64_t salt = 0;
  int stream = 0;
  // Of kCheck: what this rank's buffers must hold.
  std::vector<std::vector<int64_t>> expected;

  std::string ToText() const;
};

struct RandomCommunicator {
  std::vector<int> members;          // ranks of the world
  int RankOf(int world_rank) const;  // -1: no member
};

struct RandomProgram {
  static constexpr int kStreams = 3;
  uint64_t seed = 0;
  std::vector<RandomCommunicator> comms;  // the first is the world
  std::vector<Step> steps;

  std::string ToText() const;
};

// `rank`: whose expectations the program carries.
RandomProgram DrawProgram(uint64_t seed, int ranks, int rank);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_RANDOM_PROGRAM_H_

// Random programs: the steps of all ranks of a job, drawn from a seed.
//
// Every process that draws a program for the same seed and number of ranks gets the same one. A
// program cannot deadlock on a correct library: all ranks follow one order of steps. It has no
// races: a step uses a buffer at most once, and uses in different steps are ordered by their
// stream, their communicator or an event.
#ifndef TESTS_CONFORMANCE_RANDOM_PROGRAM_H_
#define TESTS_CONFORMANCE_RANDOM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/collective_call.h"
#include "conformance/random_model.h"

namespace conformance {

// Random numbers from a seed, the same on every machine.
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
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
  int scalar = 0;  // if not 0: factor of a user operator
  std::vector<Message> messages;
  int send_buffer = 0;
  int receive_buffer = 0;  // equals send_buffer in place
  size_t send_at = 0;      // elements
  size_t receive_at = 0;
  std::vector<int> streams;  // of each member

  bool in_place() const { return send_buffer == receive_buffer; }
};

struct Step {
  enum class Kind { kInit, kSplit, kOperations, kFill, kCheck, kDestroy };
  Kind kind = Kind::kCheck;
  int comm = 0;  // created or destroyed by the step
  // For kInit: members, in the order of ranks. For kSplit: color and key of each rank of the
  // parent.
  int parent = 0;
  std::vector<int> colors;
  std::vector<int> keys;
  std::vector<RandomOperation> operations;
  bool in_group = false;
  uint64_t shuffle =
      0;  // seed of each rank's posting order for operations of different communicators
  // For kFill.
  int buffer = 0;
  uint64_t salt = 0;
  int stream = 0;
  // For kCheck: the expected contents of this rank's buffers.
  std::vector<std::vector<int64_t>> expected;

  std::string ToText() const;
};

struct RandomCommunicator {
  std::vector<int> members;          // ranks of the world
  int RankOf(int world_rank) const;  // -1: not a member
};

struct RandomProgram {
  static constexpr int kStreams = 3;
  uint64_t seed = 0;
  std::vector<RandomCommunicator> comms;  // the first is the world
  std::vector<Step> steps;

  std::string ToText() const;
};

// `rank`: the rank whose expected contents the program contains.
RandomProgram DrawProgram(uint64_t seed, int ranks, int rank);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_RANDOM_PROGRAM_H_

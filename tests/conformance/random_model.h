// The contents of all ranks' buffers after each step of a random program: a sequential model.
//
// Floating types hold only small integers, so one representation serves all types: an integer of 64
// bits that wraps as its type does.
#ifndef TESTS_CONFORMANCE_RANDOM_MODEL_H_
#define TESTS_CONFORMANCE_RANDOM_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "conformance/collective_call.h"

namespace conformance {

struct RandomOperation;
struct RandomCommunicator;

// Every rank has the same buffers.
struct RandomBuffer {
  const ElementType* type = nullptr;
  size_t elements = 0;
};
const std::vector<RandomBuffer>& RandomBuffers();

// The value that a fill with `salt` writes into rank's buffer at `index`.
int64_t FilledValue(const ElementType& type, uint64_t salt, int rank, size_t index);

// Encodes the value in the type.
void EncodeInteger(const ElementType& type, int64_t value, std::byte* out);

class RandomModel {
 public:
  explicit RandomModel(int ranks);

  void Fill(int buffer, uint64_t salt);
  void Apply(const RandomOperation& operation, const RandomCommunicator& comm);
  // Whether every partial result of a reduction, in any order, is representable in its type.
  bool IsExact(const RandomOperation& operation, const RandomCommunicator& comm) const;

  const std::vector<std::vector<int64_t>>& BuffersOf(int rank) const { return memory_[rank]; }

 private:
  std::vector<int64_t> Inputs(const RandomOperation& operation, const RandomCommunicator& comm,
                              int rank) const;
  void ApplyMessages(const RandomOperation& operation, const RandomCommunicator& comm);
  void ApplyCollective(const RandomOperation& operation, const RandomCommunicator& comm);

  std::vector<std::vector<std::vector<int64_t>>> memory_;  // by rank, by buffer
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_RANDOM_MODEL_H_

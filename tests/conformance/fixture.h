// Common to most tests: the world communicator, a stream, and a quick check that a communicator
// works.
#ifndef TESTS_CONFORMANCE_FIXTURE_H_
#define TESTS_CONFORMANCE_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "conformance/checked_call.h"
#include "conformance/test.h"

namespace conformance {

struct CommAndStream {
  ncclComm_t comm;
  cudaStream_t stream;
};
// The world communicator, or a new one of all ranks, with a new stream.
inline CommAndStream OnWorld(Test& test) { return {test.World(), test.NewStream()}; }
inline CommAndStream OnNewWorld(Test& test) { return {test.NewWorld(), test.NewStream()}; }

inline const ElementType& TypeOf(ncclDataType_t type) { return ElementTypes()[type]; }

// A vector of int32 in device memory: exact with every operator, except for overflow.
//
// ENSURES: all reads and writes go through `stream`, in its order.
class IntBuffer {
 public:
  IntBuffer(Test& test, size_t count, cudaStream_t stream);
  // Uses memory of the caller.
  IntBuffer(Test& test, void* data, size_t count, cudaStream_t stream);

  int32_t* data() const { return data_; }
  size_t count() const { return count_; }

  void Fill(int32_t value);
  // Waits for the stream, then checks that all elements have the value.
  bool Expect(int32_t value, const char* what, const Location& where = Location::current());

 private:
  Test& test_;
  int32_t* data_;
  size_t count_;
  cudaStream_t stream_;
  int32_t* host_ = nullptr;  // source of Fill; the test owns it, for as long as a copy may run
};

// Input and output of one operation.
struct IntBuffers {
  IntBuffers(Test& test, size_t count, cudaStream_t stream)
      : send(test, count, stream), receive(test, count, stream) {}
  // Fills the input with `sent`, and the output with `received` if it is given. Waits for the
  // stream.
  IntBuffers(Test& test, size_t count, cudaStream_t stream, int32_t sent,
             std::optional<int32_t> received = {});
  IntBuffer send;
  IntBuffer receive;
};

// Sums the ranks' inputs into their outputs.
ncclResult_t SumInto(const IntBuffers& buffers, ncclComm_t comm, cudaStream_t stream);

// The sum over ranks of (rank + 1): the result of an all-reduce of `rank + 1`.
inline int32_t SumOfRanks(int size) { return size * (size + 1) / 2; }

// Checks that the communicator works for these ranks, by an all-reduce of rank + 1.
bool Works(Test& test, ncclComm_t comm, int rank, int size,
           const Location& where = Location::current());
bool Works(Test& test, ncclComm_t comm, const Location& where = Location::current());

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_FIXTURE_H_

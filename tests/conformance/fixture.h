// What most tests begin with: the world, a stream of one's own, and a quick way to check that a
// communicator works.
#ifndef TESTS_CONFORMANCE_FIXTURE_H_
#define TESTS_CONFORMANCE_FIXTURE_H_

#include <cstddef>
#include <cstdint>

#include "conformance/checked_call.h"
#include "conformance/test.h"

namespace conformance {

inline const ElementType& TypeOf(ncclDataType_t type) { return ElementTypes()[type]; }

// A vector of int32 in device memory, the handiest data: exact in every operator but for overflow.
//
// ENSURES: what is written and read goes through `stream`, in its order.
class IntBuffer {
 public:
  IntBuffer(Test& test, size_t count, cudaStream_t stream);
  // Over memory that comes from elsewhere.
  IntBuffer(Test& test, void* data, size_t count, cudaStream_t stream);

  int32_t* data() const { return data_; }
  size_t count() const { return count_; }

  void Fill(int32_t value);
  // Waits for the stream, then says that all elements have the value.
  bool Expect(int32_t value, const char* what, const Location& where = Location::current());

 private:
  Test& test_;
  int32_t* data_;
  size_t count_;
  cudaStream_t stream_;
  int32_t* host_ = nullptr;  // what Fill copies from; the test's, for as long as a copy may run
};

// Two of them, for one operation.
struct IntBuffers {
  IntBuffers(Test& test, size_t count, cudaStream_t stream)
      : send(test, count, stream), receive(test, count, stream) {}
  // What is sent is full of `sent`; waits for the stream.
  IntBuffers(Test& test, size_t count, cudaStream_t stream, int32_t sent);
  IntBuffer send;
  IntBuffer receive;
};

// The sum of what the ranks send, into what they receive.
ncclResult_t SumInto(const IntBuffers& buffers, ncclComm_t comm, cudaStream_t stream);

// The sum over ranks of (rank + 1): what an all-reduce of `rank + 1` must give.
inline int32_t SumOfRanks(int size) { return size * (size + 1) / 2; }

// An all-reduce of rank + 1 over the communicator: it works, for these ranks.
bool Works(Test& test, ncclComm_t comm, int rank, int size,
           const Location& where = Location::current());
bool Works(Test& test, ncclComm_t comm, const Location& where = Location::current());

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_FIXTURE_H_

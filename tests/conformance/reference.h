// What collectives must deliver, by plain arithmetic on the host.
//
// Inputs are small integers chosen by type, operator and number of ranks so that every partial
// result, in whatever order, is a value of the type: the outcome must be right to the bit. The one
// exception is the average of floating types over a number of ranks that is no power of two; see
// AverageTolerance.
#ifndef TESTS_CONFORMANCE_REFERENCE_H_
#define TESTS_CONFORMANCE_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/collective_call.h"

namespace conformance {

// Numbers without a pattern that a misplaced block could keep; the same for all processes.
uint64_t Scramble(uint64_t value);

// The inputs of one call.
class Inputs {
 public:
  Inputs(const Call& call, int ranks, uint64_t salt) : call_(call), ranks_(ranks), salt_(salt) {}

  // What rank's send buffer has at `index`.
  double At(int rank, size_t index) const;

 private:
  double SumTerm(int rank, uint64_t index, uint64_t dice) const;
  double Factor(int rank, uint64_t index, uint64_t dice) const;

  Call call_;
  int ranks_;
  uint64_t salt_;
};

// What an operator of the user's multiplies rank's inputs by, in all tests that go by Expected.
double UserFactor(int rank);
inline bool IsUserOperator(ncclRedOp_t op) { return op >= ncclNumOps; }

// The value of a floating type that is nearest, ties to even.
// REQUIRES: it is within the type's range.
double RoundTo(const ElementType& type, double value);

// Where an element of rank's result comes from: the same index of each rank's input where the call
// reduces, else one rank's.
struct Source {
  int rank = 0;      // of what is moved
  size_t index = 0;  // in the send buffer
};
Source Trace(const Call& call, int rank, size_t index);

// What rank's receive buffer must have at `index`.
double Expected(const Call& call, const Inputs& inputs, int ranks, int rank, size_t index);

// The largest difference from Expected that is right: 0 but for averages of floating types over a
// number of ranks that is no power of two. There each input is multiplied by 1/n rounded to the
// type (half a unit in the last place), the product is rounded, and so is every partial sum:
// (n + 2) half units of the largest possible partial sum.
double AverageTolerance(const Call& call, int ranks);

// `elements` encoded one behind the other.
std::vector<std::byte> Encoded(const ElementType& type, const std::vector<double>& elements);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_REFERENCE_H_

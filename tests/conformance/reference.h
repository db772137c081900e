// The expected results of collectives, computed on the host.
//
// Inputs are small integers. They are chosen by type, operator and number of ranks so that every
// partial result, in any order, is representable: the result must match to the bit. The one
// exception is the average of floating types over a number of ranks that is not a power of two; see
// AverageTolerance.
#ifndef TESTS_CONFORMANCE_REFERENCE_H_
#define TESTS_CONFORMANCE_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/collective_call.h"

namespace conformance {

// A hash without regular patterns, so that misplaced blocks are detected; the same in all
// processes.
uint64_t Scramble(uint64_t value);

// The inputs of one call.
class Inputs {
 public:
  Inputs(const Call& call, int ranks, uint64_t salt) : call_(call), ranks_(ranks), salt_(salt) {}

  // The element of rank's send buffer at `index`.
  double At(int rank, size_t index) const;

 private:
  double SumTerm(int rank, uint64_t index, uint64_t dice) const;
  double Factor(int rank, uint64_t index, uint64_t dice) const;

  Call call_;
  int ranks_;
  uint64_t salt_;
};

// The factor of rank's user operator, in all tests that use Expected.
double UserFactor(int rank);
inline bool IsUserOperator(ncclRedOp_t op) { return op >= ncclNumOps; }

// The nearest value of a floating type, ties to even.
// REQUIRES: it is within the type's range.
double RoundTo(const ElementType& type, double value);

// The source of an element of rank's result: the same index of each rank's input if the call
// reduces, else one rank's.
struct Source {
  int rank = 0;      // if the call only moves data
  size_t index = 0;  // in the send buffer
};
Source Trace(const Call& call, int rank, size_t index);

// The expected element of rank's receive buffer at `index`.
double Expected(const Call& call, const Inputs& inputs, int ranks, int rank, size_t index);

// The largest allowed difference from Expected: 0 except for averages of floating types over a
// number of ranks that is not a power of two. There each input is multiplied by 1/n rounded to the
// type (half a unit in the last place); the product and every partial sum are rounded. So the bound
// is (n + 2) half units of the largest possible partial sum.
double AverageTolerance(const Call& call, int ranks);

// Encodes `elements` consecutively.
std::vector<std::byte> Encoded(const ElementType& type, const std::vector<double>& elements);

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_REFERENCE_H_

// The reduction operators that a program made for one communicator (ncclRedOpCreatePreMulSum).
//
// An operator's ncclRedOp_t is a number ≥ ncclNumOps that is given out once in a process: a number
// of another communicator, or of an operator that was destroyed, names nothing here.
#ifndef MCCS_SHIM_USER_OPERATORS_H_
#define MCCS_SHIM_USER_OPERATORS_H_

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "proto/operation.h"

namespace mccs::shim {

// A sum of which this rank's input is multiplied by a factor first.
struct PreMulSum {
  DataType type;
  uint64_t bits = 0;             // the factor, in the low bytes
  const void* device = nullptr;  // where it is instead; read while the work runs
};

// Gives operators their numbers. THREAD: any.
class OperatorNumbers {
 public:
  // Begins anew after 2^31 of them.
  int Next() {
    constexpr uint32_t kNumbers = uint32_t{ncclMaxRedOp} - ncclNumOps + 1;
    return static_cast<int>(ncclNumOps + given_.fetch_add(1, std::memory_order_relaxed) % kNumbers);
  }

 private:
  std::atomic<uint32_t> given_{0};
};

// OWNER: the communicator. THREAD: any.
class UserOperators {
 public:
  // A program that never destroys an operator is told so here.
  static constexpr size_t kMaxOperators = 1 << 18;

  // kFailedPrecondition: kMaxOperators are there.
  absl::StatusOr<int> Add(const PreMulSum& made, OperatorNumbers& numbers);
  // Empty for a number that is not alive here.
  std::optional<PreMulSum> Find(int number) const;
  bool Remove(int number);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int, PreMulSum> operators_;  // guarded by mutex_
};

// ncclRedOpCreatePreMulSum and ncclRedOpDestroy. Type and residence are plain numbers: a program
// may pass any.
struct PreMulSumCall {
  ncclRedOp_t* op;
  const void* scalar;
  int type;       // ncclDataType_t
  int residence;  // ncclScalarResidence_t
  ncclComm_t comm;
};
ncclResult_t CreatePreMulSum(const PreMulSumCall& call);
ncclResult_t DestroyOperator(int op, ncclComm_t comm);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_USER_OPERATORS_H_

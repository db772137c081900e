// The user-defined reduction operators of one communicator (ncclRedOpCreatePreMulSum).
//
// An operator's ncclRedOp_t is a number ≥ ncclNumOps that is unique in the process: a number of
// another communicator, or of a destroyed operator, is not valid here.
#ifndef MCCS_SHIM_SUBMIT_USER_OPERATORS_H_
#define MCCS_SHIM_SUBMIT_USER_OPERATORS_H_

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

// A sum in which this rank's input is first multiplied by a factor.
struct PreMulSum {
  DataType type;
  uint64_t bits = 0;             // the factor, in the low bytes
  const void* device = nullptr;  // its address instead; read while the work runs
};

// Assigns the operators' numbers. THREAD: any.
class OperatorNumbers {
 public:
  // Wraps around after 2^31 numbers.
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
  // The limit for a program that never destroys its operators.
  static constexpr size_t kMaxOperators = 1 << 18;

  // kFailedPrecondition: kMaxOperators exist.
  absl::StatusOr<int> Add(const PreMulSum& made, OperatorNumbers& numbers);
  // Empty for a number that is not valid here.
  std::optional<PreMulSum> Find(int number) const;
  bool Remove(int number);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int, PreMulSum> operators_;  // guarded by mutex_
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_USER_OPERATORS_H_

// Every function of NCCL, as a call with random arguments.
#ifndef MCCS_TESTS_FUZZ_CALL_TABLE_H_
#define MCCS_TESTS_FUZZ_CALL_TABLE_H_

#include <span>

#include "tests/fuzz/fuzz_targets.h"

namespace mccs {

struct FuzzedCall {
  const char* name;  // without the prefix
  void (*call)(FuzzTargets&);
  int weight = 8;  // relative frequency of the call
};

// OperationCalls: operations, their resources, and groups. CommunicatorCalls: all others.
std::span<const FuzzedCall> OperationCalls();
std::span<const FuzzedCall> CommunicatorCalls();

}  // namespace mccs

#endif  // MCCS_TESTS_FUZZ_CALL_TABLE_H_

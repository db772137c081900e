#include "shim/calls/operator_calls.h"

#include <cstring>

#include "base/status_macros.h"
#include "shim/daemon/argument_error.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"
#include "shim/submit/user_operators.h"

namespace mccs::shim {
namespace {

constexpr char kCreate[] = "ncclRedOpCreatePreMulSum";
constexpr char kDestroy[] = "ncclRedOpDestroy";

absl::Status Create(const PreMulSumCall& call) {
  if (call.op == nullptr) return ArgumentError(kCreate, "op is NULL");
  if (call.scalar == nullptr) return ArgumentError(kCreate, "scalar is NULL");
  if (call.type < 0 || call.type >= kDataTypes) {
    return ArgumentError(kCreate, "unknown datatype ", call.type);
  }
  if (call.residence != ncclScalarDevice && call.residence != ncclScalarHostImmediate) {
    return ArgumentError(kCreate, "unknown residence of the scalar: ", call.residence,
                         "; expected ncclScalarDevice or ncclScalarHostImmediate");
  }
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kCreate, call.comm));
  MCCS_RETURN_IF_ERROR(comm->CheckUsable());
  PreMulSum made{.type = static_cast<DataType>(call.type)};
  if (call.residence == ncclScalarDevice) {
    made.device = call.scalar;
  } else {
    std::memcpy(&made.bits, call.scalar, SizeOf(made.type));
  }
  MCCS_ASSIGN_OR_RETURN(const int number,
                        comm->operators().Add(made, Process::Get().operator_numbers()));
  // The number is not an enumerator, but within the range of ncclRedOp_t.
  *call.op = static_cast<ncclRedOp_t>(number);
  return absl::OkStatus();
}

absl::Status Destroy(int op, ncclComm_t handle) {
  if (op >= 0 && op < ncclNumOps)
    return ArgumentError(kDestroy, "operator ", op, " is predefined by NCCL");
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kDestroy, handle));
  if (!comm->operators().Remove(op)) {
    return ArgumentError(kDestroy, "operator ", op, " is not valid in this communicator");
  }
  return absl::OkStatus();
}

}  // namespace

ncclResult_t CreatePreMulSum(const PreMulSumCall& call) { return Report(Create(call)); }

ncclResult_t DestroyOperator(int op, ncclComm_t comm) { return Report(Destroy(op, comm)); }

}  // namespace mccs::shim

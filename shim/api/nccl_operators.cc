// ncclRedOpCreatePreMulSum and ncclRedOpDestroy.
#include <nccl.h>

#include <cstring>

#include "base/status_macros.h"
#include "shim/api/exported.h"
#include "shim/daemon/error_message.h"
#include "shim/process/last_error.h"
#include "shim/process/process.h"
#include "shim/submit/user_operators.h"

namespace mccs::shim {
namespace {

constexpr char kCreateOperator[] = "ncclRedOpCreatePreMulSum";
constexpr char kDestroyOperator[] = "ncclRedOpDestroy";

// Type and residence are plain numbers, because a program may pass any value.
struct PreMulSumCall {
  ncclRedOp_t* op;
  const void* scalar;
  int type;       // ncclDataType_t
  int residence;  // ncclScalarResidence_t
  ncclComm_t comm;
};

absl::Status CreateOperator(const PreMulSumCall& call) {
  if (call.op == nullptr) return ArgumentError(kCreateOperator, "op is NULL");
  if (call.scalar == nullptr) return ArgumentError(kCreateOperator, "scalar is NULL");
  if (call.type < 0 || call.type >= kDataTypes) {
    return ArgumentError(kCreateOperator, "unknown datatype ", call.type);
  }
  if (call.residence != ncclScalarDevice && call.residence != ncclScalarHostImmediate) {
    return ArgumentError(kCreateOperator, "unknown residence of the scalar: ", call.residence,
                         "; expected ncclScalarDevice or ncclScalarHostImmediate");
  }
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kCreateOperator, call.comm));
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

absl::Status DestroyOperator(int op, ncclComm_t handle) {
  if (op >= 0 && op < ncclNumOps)
    return ArgumentError(kDestroyOperator, "operator ", op, " is predefined by NCCL");
  MCCS_ASSIGN_OR_RETURN(const CommRef comm, FindCommunicator(kDestroyOperator, handle));
  if (!comm->operators().Remove(op)) {
    return ArgumentError(kDestroyOperator, "operator ", op, " is not valid in this communicator");
  }
  return absl::OkStatus();
}

}  // namespace

}  // namespace mccs::shim

namespace shim = mccs::shim;

MCCS_EXPORT(ncclResult_t, ncclRedOpCreatePreMulSum)
(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
 ncclComm_t comm) {
  return shim::Report(shim::CreateOperator({op, scalar, type, residence, comm}));
}

MCCS_EXPORT(ncclResult_t, ncclRedOpDestroy)(ncclRedOp_t op, ncclComm_t comm) {
  return shim::Report(shim::DestroyOperator(op, comm));
}

// The exported functions that MCCS does not support, with the reasons. A missing symbol would make
// a framework fail to load, or would bind to the real library and pass it our communicator.
//
// No NCCL header is included here on purpose. A function that ignores its arguments needs no
// parameter list, and toolkit headers lack the newer functions. On x86-64 and arm64 the caller
// passes and clears its arguments, so a callee without parameters is safe.
#include "shim/api/exported.h"

namespace {

constexpr char kNoDeviceApi[] =
    "MCCS has no device API, because the daemon moves the data; call NCCL's host functions, such "
    "as ncclAllReduce";
constexpr char kNoEncryption[] =
    "MCCS does not encrypt the traffic between daemons; use an encrypted network";

}  // namespace

// Returns an ncclResult_t, which is an int.
#define MCCS_UNSUPPORTED(name, reason) \
  MCCS_EXPORT(int, name)() { return mccs::shim::ReportUnsupported(#name, reason); }

// Returns `value` of another type.
#define MCCS_UNSUPPORTED_AS(type, value, name, reason) \
  MCCS_EXPORT(type, name)() {                          \
    mccs::shim::ReportUnsupported(#name, reason);      \
    return value;                                      \
  }

// Communicators
MCCS_UNSUPPORTED(ncclSetEncryption, kNoEncryption);

// Device API. A team is three ints: ranks, rank, stride; all are 0 in the empty team.
struct EmptyTeam {
  int ranks, rank, stride;
};
MCCS_UNSUPPORTED(ncclDevCommCreate, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclDevCommDestroy, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclLsaBarrierCreateRequirement, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGinBarrierCreateRequirement, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclLLA2ACreateRequirement, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGinInboxA2ACreateRequirement, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGinOutboxCreateRequirement, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGetLsaDevicePointer, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGetPeerDevicePointer, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGetMultimemDevicePointer, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGetLsaMultimemDevicePointer, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGetCftDeviceLeInfo, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGetPeerDeviceLeInfo, kNoDeviceApi);
MCCS_UNSUPPORTED(ncclGetMultimemDeviceLeInfo, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(EmptyTeam, EmptyTeam{}, ncclTeamWorld, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(EmptyTeam, EmptyTeam{}, ncclTeamLsa, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(EmptyTeam, EmptyTeam{}, ncclTeamRail, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(EmptyTeam, EmptyTeam{}, ncclTeamCft, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(EmptyTeam, EmptyTeam{}, ncclTeamCftMultimem, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(int, -1, ncclTeamRankToWorld, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(int, -1, ncclTeamRankToLsa, kNoDeviceApi);
MCCS_UNSUPPORTED_AS(int, 0, ncclLLA2ACalcSlots, kNoDeviceApi);

// The exported functions that MCCS does not support, with the reasons. A missing symbol would make
// a framework fail to load, or would bind to the real library and pass it our communicator.
//
// No NCCL header is included here on purpose. A function that ignores its arguments needs no
// parameter list, and toolkit headers lack the newer functions. On x86-64 and arm64 the caller
// passes and clears its arguments, so a callee without parameters is safe.
#include "shim/exported.h"
#include "shim/refusal.h"

namespace {

constexpr char kNoDeviceApi[] =
    "kernels cannot communicate by themselves, because the daemon moves the data; use the host's "
    "collectives";
constexpr char kNoEncryption[] = "the provider protects the traffic between daemons";

}  // namespace

// Returns an ncclResult_t, which is an int.
#define MCCS_REFUSED(name, reason)                                        \
  MCCS_EXPORT int p##name() { return mccs::shim::Refuse(#name, reason); } \
  MCCS_ALSO_WEAK(name)

// Returns `value` of another type.
#define MCCS_REFUSED_AS(type, value, name, reason) \
  MCCS_EXPORT type p##name() {                     \
    mccs::shim::Refuse(#name, reason);             \
    return value;                                  \
  }                                                \
  MCCS_ALSO_WEAK(name)

// Communicators
MCCS_REFUSED(ncclSetEncryption, kNoEncryption);

// Device API. A team is three ints: ranks, rank, stride; all are 0 in the empty team.
struct EmptyTeam {
  int ranks, rank, stride;
};
MCCS_REFUSED(ncclDevCommCreate, kNoDeviceApi);
MCCS_REFUSED(ncclDevCommDestroy, kNoDeviceApi);
MCCS_REFUSED(ncclLsaBarrierCreateRequirement, kNoDeviceApi);
MCCS_REFUSED(ncclGinBarrierCreateRequirement, kNoDeviceApi);
MCCS_REFUSED(ncclLLA2ACreateRequirement, kNoDeviceApi);
MCCS_REFUSED(ncclGinInboxA2ACreateRequirement, kNoDeviceApi);
MCCS_REFUSED(ncclGinOutboxCreateRequirement, kNoDeviceApi);
MCCS_REFUSED(ncclGetLsaDevicePointer, kNoDeviceApi);
MCCS_REFUSED(ncclGetPeerDevicePointer, kNoDeviceApi);
MCCS_REFUSED(ncclGetMultimemDevicePointer, kNoDeviceApi);
MCCS_REFUSED(ncclGetLsaMultimemDevicePointer, kNoDeviceApi);
MCCS_REFUSED(ncclGetCftDeviceLeInfo, kNoDeviceApi);
MCCS_REFUSED(ncclGetPeerDeviceLeInfo, kNoDeviceApi);
MCCS_REFUSED(ncclGetMultimemDeviceLeInfo, kNoDeviceApi);
MCCS_REFUSED_AS(EmptyTeam, EmptyTeam{}, ncclTeamWorld, kNoDeviceApi);
MCCS_REFUSED_AS(EmptyTeam, EmptyTeam{}, ncclTeamLsa, kNoDeviceApi);
MCCS_REFUSED_AS(EmptyTeam, EmptyTeam{}, ncclTeamRail, kNoDeviceApi);
MCCS_REFUSED_AS(EmptyTeam, EmptyTeam{}, ncclTeamCft, kNoDeviceApi);
MCCS_REFUSED_AS(EmptyTeam, EmptyTeam{}, ncclTeamCftMultimem, kNoDeviceApi);
MCCS_REFUSED_AS(int, -1, ncclTeamRankToWorld, kNoDeviceApi);
MCCS_REFUSED_AS(int, -1, ncclTeamRankToLsa, kNoDeviceApi);
MCCS_REFUSED_AS(int, 0, ncclLLA2ACalcSlots, kNoDeviceApi);

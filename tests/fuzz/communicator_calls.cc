#include <dlfcn.h>

#include <array>
#include <cstring>

#include "proto/unique_id.h"
#include "tests/fuzz/call_table.h"
#include "tests/fuzz/newer_nccl.h"

namespace mccs {
namespace {

constexpr int kMostRanks = 16;

// ---- Communicators ---------------------------------------------------------------------------

// Random bytes, or a valid id with one wrong byte outside the address, to which the library would
// connect.
ncclUniqueId AnyId(FuzzTargets& v) {
  ncclUniqueId id;
  for (char& byte : id.internal) byte = static_cast<char>(v.AnyBits());
  if (v.OneIn(2) || ncclGetUniqueId(&id) != ncclSuccess) return id;
  constexpr size_t kAddress = offsetof(wire::UniqueId, host);
  constexpr size_t kPort = offsetof(wire::UniqueId, port);
  const size_t at = v.Below(kAddress);
  if (at != kPort && at != kPort + 1) id.internal[at] = static_cast<char>(v.AnyBits());
  return id;
}

// Non-blocking: a blocking call would wait for ranks that never join.
ncclConfig_t AnyCommConfig(FuzzTargets& v) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = v.OneIn(8) ? 2 + v.AnyInt() % 2 * 7 : 0;
  if (v.OneIn(4)) config.size = v.Below(200);
  if (v.OneIn(8)) config.magic = static_cast<unsigned>(v.AnyBits());
  if (v.OneIn(8)) config.minCTAs = v.AnyInt();
  if (v.OneIn(8)) config.trafficClass = v.AnyInt();
  if (v.OneIn(8)) config.commName = "a name";
  if (config.blocking == 1 || config.size < offsetof(ncclConfig_t, blocking) + sizeof(int)) {
    config.magic = 0;
  }
  return config;
}

void InitConfig(FuzzTargets& v) {
  ncclConfig_t config = AnyCommConfig(v);
  ncclCommInitRankConfig(v.OutputPointer(v.NewHandles()), v.AnyInt(), AnyId(v), v.AnyInt(),
                         &config);
}

void InitScalable(FuzzTargets& v) {
  ncclConfig_t config = AnyCommConfig(v);
  ncclUniqueId ids[] = {AnyId(v), AnyId(v)};
  const int count = v.OneIn(4) ? v.AnyInt() : static_cast<int>(1 + v.Below(2));
  ncclCommInitRankScalable(v.OutputPointer(v.NewHandles()), v.AnyInt(), v.AnyInt(),
                           count > 2 ? -count : count, v.OutputPointer(ids), &config);
}

// A blocking call, with an id that is rejected at once.
void Init(FuzzTargets& v) {
  ncclUniqueId id;
  for (char& byte : id.internal) byte = static_cast<char>(v.AnyBits());
  ncclCommInitRank(v.OutputPointer(v.NewHandles()), v.AnyInt(), id, v.AnyInt());
}

void InitAll(FuzzTargets& v) {
  int devices[kMostRanks];
  for (int& device : devices) device = v.OneIn(2) ? 0 : v.AnyInt();
  const int count = v.AnyInt();
  ncclCommInitAll(v.OutputPointer(v.NewHandles(kMostRanks)), count,
                  count > kMostRanks || v.OneIn(2) ? nullptr : devices);
}

void Split(FuzzTargets& v) {
  const ncclComm_t comm = v.AnyComm();
  if (v.WaitsForPeers(comm)) return;
  ncclConfig_t config = AnyCommConfig(v);
  ncclCommSplit(comm, v.AnyInt(), v.AnyInt(), v.OutputPointer(v.NewHandles()),
                v.OneIn(2) ? nullptr : &config);
}

void Shrink(FuzzTargets& v) {
  int excluded[kMostRanks];
  for (int& rank : excluded) rank = v.AnyInt();
  const ncclComm_t comm = v.AnyComm();
  if (v.WaitsForPeers(comm)) return;
  const int count = v.AnyInt();
  ncclCommShrink(comm, v.OutputPointer(excluded), count > kMostRanks ? -count : count,
                 v.OutputPointer(v.NewHandles()), nullptr, v.AnyInt());
}

void Grow(FuzzTargets& v) {
  const ncclComm_t comm = v.AnyComm();
  if (v.MayBlock(comm)) return;  // and waits for the new ranks
  ncclConfig_t config = AnyCommConfig(v);
  const ncclUniqueId id = AnyId(v);
  ncclCommGrow(comm, v.AnyInt(), v.OutputPointer(&id), v.AnyInt(), v.OutputPointer(v.NewHandles()),
               &config);
}

void GrowId(FuzzTargets& v) {
  ncclUniqueId id;
  ncclCommGetUniqueId(v.AnyComm(), v.OutputPointer(&id));
}

// Destroy and finalize wait for posted operations, which two ranks rarely have in common.
void End(FuzzTargets& v, ncclResult_t (*end)(ncclComm_t)) {
  const ncclComm_t comm = v.AnyComm();
  const bool waits = !v.alone() || v.signals_awaited || v.WaitsForPeers(comm);
  if (comm != nullptr && end != ncclCommAbort && waits) return;
  if (v.depth() > 0) return;
  end(comm);
}

// Destroys a victim; Recreate creates others.
void Destroy(FuzzTargets& v) {
  End(v, ncclCommDestroy);
  if (v.OneIn(8)) v.Recreate();
}
void Abort(FuzzTargets& v) {
  End(v, ncclCommAbort);
  if (v.OneIn(8)) v.Recreate();
}

// ---- Queries ---------------------------------------------------------------------------------

template <auto kAsk, typename Answer>
void Ask(FuzzTargets& v) {
  Answer answer{};
  kAsk(v.AnyComm(), v.OutputPointer(&answer));
}

void Properties(FuzzTargets& v) {
  alignas(8) std::array<unsigned char, 512> place;
  for (unsigned char& byte : place) byte = static_cast<unsigned char>(v.AnyBits());
  const size_t size = v.Below(place.size());
  std::memcpy(place.data(), &size, sizeof(size));
  const unsigned magic = 0xcafebeef;
  if (v.OneIn(2)) std::memcpy(place.data() + sizeof(size), &magic, sizeof(magic));
  ncclCommQueryProperties(v.AnyComm(), v.OutputPointer(place.data()));
}

void* parameter = nullptr;

const char* AnyKey(FuzzTargets& v) {
  static const char* const kKeys[] = {"NCCL_ALGO", "DEBUG", "MCCS_SOCKET", "", "no such", nullptr};
  return kKeys[v.Below(std::size(kKeys))];
}
void* AnyParameter(FuzzTargets& v) {
  const auto near = reinterpret_cast<uintptr_t>(parameter) + v.Below(4096);
  return v.OneIn(2) ? parameter : reinterpret_cast<void*>(v.OneIn(2) ? near : v.AnyBits());
}
void BindParameter(FuzzTargets& v) { ncclParamBind(v.OutputPointer(&parameter), AnyKey(v)); }
void GetParameter(FuzzTargets& v) {
  std::array<char, 64> place;
  int length = 0;
  const int room = v.OneIn(4) ? -v.AnyInt() : static_cast<int>(v.Below(place.size()));
  ncclParamGet(AnyParameter(v), v.OutputPointer(place.data()), room > 64 ? -1 : room,
               v.OutputPointer(&length));
}
void GetText(FuzzTargets& v) {
  const char* text = nullptr;
  ncclParamGetStr(AnyParameter(v), v.OutputPointer(&text));
}
void GetByKey(FuzzTargets& v) {
  const char* text = nullptr;
  int length = 0;
  ncclParamGetParameter(AnyKey(v), v.OutputPointer(&text), v.OutputPointer(&length));
}
void GetKeys(FuzzTargets& v) {
  const char** keys = nullptr;
  int length = 0;
  ncclParamGetAllParameterKeys(v.OutputPointer(&keys), v.OutputPointer(&length));
}

// ---- Functions with other parameter lists, of which they read none or two --------------------

template <typename... Arguments>
void CallByName(const char* name, Arguments... arguments) {
  using Function = int (*)(Arguments...);
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function != nullptr) function(arguments...);
}

#define REJECTED(name)                                                                                \
  {                                                                                                  \
#name, [](FuzzTargets& v) {                                                                        \
     CallByName("nccl" #name, v.AnyBits(), v.AnyBits(), v.AnyBits(), v.AnyBits(), v.AnyBits(),    \
                v.AnyBits());                                                                     \
   }, 1 \
  }
#define INTEGER_PARAMETER(name)                                                                      \
  {                                                                                                  \
#name, [](FuzzTargets& v) {                                                                        \
     uint64_t value = 0;                                                                          \
     CallByName("nccl" #name, AnyParameter(v), v.OutputPointer(&value));                                  \
   }, 1 \
  }

const FuzzedCall kCommunicators[] = {
    {"CommInitRank", Init, 2},
    {"CommInitRankConfig", InitConfig, 2},
    {"CommInitRankScalable", InitScalable, 2},
    {"CommInitAll", InitAll, 1},
    {"CommSplit", Split, 2},
    {"CommShrink", Shrink, 2},
    {"CommGrow", Grow, 2},
    {"CommGetUniqueId", GrowId, 2},
    {"CommFinalize", [](FuzzTargets& v) { End(v, ncclCommFinalize); }, 1},
    {"CommDestroy", Destroy, 1},
    {"CommAbort", Abort, 1},
    {"CommRevoke", [](FuzzTargets& v) { ncclCommRevoke(v.AnyComm(), v.AnyInt()); }, 1},
    {"CommSuspend", [](FuzzTargets& v) { ncclCommSuspend(v.AnyComm(), v.AnyInt()); }, 1},
    {"CommResume", [](FuzzTargets& v) { ncclCommResume(v.AnyComm()); }, 4},
    {"GetUniqueId",
     [](FuzzTargets& v) {
       ncclUniqueId id;
       ncclGetUniqueId(v.OutputPointer(&id));
     },
     1},
    {"CommCount", Ask<ncclCommCount, int>, 2},
    {"CommUserRank", Ask<ncclCommUserRank, int>, 2},
    {"CommCuDevice", Ask<ncclCommCuDevice, int>, 2},
    {"CommGetAsyncError", Ask<ncclCommGetAsyncError, ncclResult_t>},
    {"CommMemStats",
     [](FuzzTargets& v) {
       uint64_t value = 0;
       ncclCommMemStats(v.AnyComm(), v.AnyInt(), v.OutputPointer(&value));
     },
     2},
    {"CommQueryProperties", Properties, 2},
    {"GetLastError", [](FuzzTargets& v) { (void)std::strlen(ncclGetLastError(v.AnyComm())); }, 4},
    {"GetErrorString",
     [](FuzzTargets& v) {
       (void)std::strlen(ncclGetErrorString(static_cast<ncclResult_t>(v.AnyInt())));
     },
     1},
    {"GetVersion",
     [](FuzzTargets& v) {
       int version = 0;
       ncclGetVersion(v.OutputPointer(&version));
     },
     1},
    {"ResetDebugInit", [](FuzzTargets&) { CallByName("ncclResetDebugInit"); }, 1},
    {"MemAlloc",
     [](FuzzTargets& v) {
       void* memory = nullptr;
       const size_t bytes = v.OneIn(2) ? v.Below(1 << 16) : ~size_t{0} >> v.Below(16);
       ncclMemAlloc(v.OutputPointer(&memory), bytes);
       v.FreeLater(memory);
     },
     1},
    {"MemFree", [](FuzzTargets& v) { ncclMemFree(reinterpret_cast<void*>(v.AnyBits())); }, 1},
    {"ParamBind", BindParameter, 2},
    {"ParamGet", GetParameter, 2},
    {"ParamGetStr", GetText, 2},
    {"ParamGetParameter", GetByKey, 2},
    {"ParamGetAllParameterKeys", GetKeys, 1},
    INTEGER_PARAMETER(ParamGetI8),
    INTEGER_PARAMETER(ParamGetI16),
    INTEGER_PARAMETER(ParamGetI32),
    INTEGER_PARAMETER(ParamGetI64),
    INTEGER_PARAMETER(ParamGetU8),
    INTEGER_PARAMETER(ParamGetU16),
    INTEGER_PARAMETER(ParamGetU32),
    INTEGER_PARAMETER(ParamGetU64),
    REJECTED(SetEncryption),
    REJECTED(DevCommCreate),
    REJECTED(DevCommDestroy),
    REJECTED(LsaBarrierCreateRequirement),
    REJECTED(GinBarrierCreateRequirement),
    REJECTED(LLA2ACreateRequirement),
    REJECTED(LLA2ACalcSlots),
    REJECTED(GinInboxA2ACreateRequirement),
    REJECTED(GinOutboxCreateRequirement),
    REJECTED(GetLsaDevicePointer),
    REJECTED(GetPeerDevicePointer),
    REJECTED(GetMultimemDevicePointer),
    REJECTED(GetLsaMultimemDevicePointer),
    REJECTED(GetCftDeviceLeInfo),
    REJECTED(GetPeerDeviceLeInfo),
    REJECTED(GetMultimemDeviceLeInfo),
    REJECTED(TeamWorld),
    REJECTED(TeamLsa),
    REJECTED(TeamRail),
    REJECTED(TeamCft),
    REJECTED(TeamCftMultimem),
    REJECTED(TeamRankToWorld),
    REJECTED(TeamRankToLsa),
};

#undef REFUSED
#undef INTEGER_PARAMETER

}  // namespace

std::span<const FuzzedCall> CommunicatorCalls() { return kCommunicators; }

}  // namespace mccs

#include "shim/api/fallback.h"

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/unique_id.h"
#include "shim/api/entry_points.h"
#include "shim/api/real_library.h"
#include "shim/config/diagnostics.h"
#include "shim/config/environment.h"
#include "shim/process/group.h"
#include "shim/process/process.h"

namespace mccs::shim {
namespace {

// This library answers these before the decision: they need neither daemon nor communicator.
constexpr EntryNumber kNeutral[] = {
    kEntry_ncclGetVersion,     kEntry_ncclGetErrorString,    kEntry_ncclGetLastError,
    kEntry_ncclResetDebugInit, kEntry_ncclGroupStart,        kEntry_ncclGroupEnd,
    kEntry_ncclParamBind,      kEntry_ncclParamGetParameter, kEntry_ncclParamGetAllParameterKeys,
    kEntry_ncclParamDumpAll};

// These do not return ncclResult_t, so our own result is used if the real library lacks them.
constexpr EntryNumber kOtherResults[] = {
    kEntry_ncclTeamWorld,      kEntry_ncclTeamLsa,         kEntry_ncclTeamRail,
    kEntry_ncclTeamCft,        kEntry_ncclTeamCftMultimem, kEntry_ncclTeamRankToWorld,
    kEntry_ncclTeamRankToLsa,  kEntry_ncclLLA2ACalcSlots,  kEntry_ncclParamDumpAll,
    kEntry_ncclGetErrorString, kEntry_ncclGetLastError,    kEntry_ncclResetDebugInit};

bool IsNeutral(EntryNumber entry) {
  return std::find(std::begin(kNeutral), std::end(kNeutral), entry) != std::end(kNeutral);
}

struct State {
  std::mutex mutex;
  std::atomic<Backend> backend{Backend::kUnread};  // written under mutex
  std::optional<RealLibrary> real;                 // set before `backend` is kReal
};

// Never destroyed.
State& TheState() {
  static auto* const state = new State;
  return *state;
}

thread_local bool deciding = false;   // the real library calls back while it is opened
thread_local std::string init_error;  // error message of this thread's last init that failed here

void LogLineToStderr(const std::string& text) { LogLineTo(stderr, Verbosity::kWarn, text); }

bool IsMccsId(const ncclUniqueId& id) {
  uint64_t magic;
  std::memcpy(&magic, &id, sizeof(magic));
  return magic == wire::kUniqueIdMagic;
}

// ---- Inits: the unique id decides the backend ----

void DecideById(const ncclUniqueId& id);

// The real library's function for `entry`, cast to its type.
template <typename Function>
Function* Real(EntryNumber entry) {
  return reinterpret_cast<Function*>(TheState().real->Find(NameOf(entry)));
}
template <typename Function>
Function* Own(EntryNumber entry) {
  return reinterpret_cast<Function*>(OwnTarget(entry));
}

// An init with this id; `call` invokes the function that it gets.
template <typename Function, typename Call>
ncclResult_t Init(EntryNumber entry, const ncclUniqueId* id, Call call) {
  init_error.clear();
  if (id != nullptr) DecideById(*id);
  if (CurrentBackend() != Backend::kReal) return call(*Own<Function>(entry));
  if (id != nullptr && IsMccsId(*id)) {
    init_error = absl::StrCat(
        NameOf(entry), ": MCCS made the unique id, but this process has fallen back to ",
        TheState().real->path(), "; start a daemon on every host of the job, or on none of them");
    LogLineToStderr(init_error);
    return ncclInvalidArgument;
  }
  auto* const real = Real<Function>(entry);
  return real != nullptr ? call(*real) : static_cast<ncclResult_t>(ReportMissing(entry));
}

ncclResult_t InitRankOnBackend(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return Init<decltype(InitRankOnBackend)>(kEntry_ncclCommInitRank, &id,
                                           [&](auto& f) { return f(comm, ranks, id, rank); });
}

ncclResult_t InitRankConfigOnBackend(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return Init<decltype(InitRankConfigOnBackend)>(kEntry_ncclCommInitRankConfig, &id, [&](auto& f) {
    return f(comm, ranks, id, rank, config);
  });
}

ncclResult_t InitRankScalableOnBackend(ncclComm_t* comm, int ranks, int rank, int count,
                                       ncclUniqueId* ids, ncclConfig_t* config) {
  const ncclUniqueId* first = count > 0 ? ids : nullptr;
  return Init<decltype(InitRankScalableOnBackend)>(
      kEntry_ncclCommInitRankScalable, first,
      [&](auto& f) { return f(comm, ranks, rank, count, ids, config); });
}

// Ranks that are already in the communicator have no id, and belong to one library.
ncclResult_t GrowOnBackend(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                           ncclComm_t* grown, ncclConfig_t* config) {
  return Init<decltype(GrowOnBackend)>(
      kEntry_ncclCommGrow, comm == nullptr ? id : nullptr,
      [&](auto& f) { return f(comm, ranks, id, rank, grown, config); });
}

// An error message of this library is returned once; later messages are the real library's.
const char* LastErrorOnBackend(ncclComm_t comm) {
  thread_local std::string returned_error;
  if (!init_error.empty()) {
    returned_error = std::exchange(init_error, {});
    return returned_error.c_str();
  }
  return Real<const char*(ncclComm_t)>(kEntry_ncclGetLastError)(comm);
}

void SetInits() {
  SetTarget(kEntry_ncclCommInitRank, reinterpret_cast<Target>(&InitRankOnBackend));
  SetTarget(kEntry_ncclCommInitRankConfig, reinterpret_cast<Target>(&InitRankConfigOnBackend));
  SetTarget(kEntry_ncclCommInitRankScalable, reinterpret_cast<Target>(&InitRankScalableOnBackend));
  SetTarget(kEntry_ncclCommGrow, reinterpret_cast<Target>(&GrowOnBackend));
}

// ---- Choosing a backend. All under the state's mutex ----

void UseOwnLibrary() {
  for (unsigned n = 0; n < kEntries; ++n) {
    const auto entry = static_cast<EntryNumber>(n);
    SetTarget(entry, OwnTarget(entry));
  }
  TheState().backend.store(Backend::kOwn, std::memory_order_release);
}

Target RealTarget(EntryNumber entry) {
  if (Target found = TheState().real->Find(NameOf(entry))) return found;
  const bool other = std::find(std::begin(kOtherResults), std::end(kOtherResults), entry) !=
                     std::end(kOtherResults);
  return other ? OwnTarget(entry) : MissingTarget(entry);
}

std::string VersionOf(const RealLibrary& real) {
  auto* const get = reinterpret_cast<ncclResult_t (*)(int*)>(real.Find("ncclGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != ncclSuccess) return "unknown version";
  return absl::StrCat("NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// Opens there the groups that this thread opened before the decision.
void ReopenGroups() {
  auto* const start = Real<ncclResult_t()>(kEntry_ncclGroupStart);
  for (int depth = Group::OfThisThread().Abandon(); depth > 0; --depth) start();
}

void UseRealLibrary(const std::string& why) {
  State& state = TheState();
  absl::StatusOr<RealLibrary> real = RealLibrary::Open();
  if (!real.ok()) {
    LogLineToStderr(
        absl::StrCat(why, "; NCCL calls of this process fail despite MCCS_FALLBACK=nccl: ",
                     real.status().message(), "; set MCCS_NCCL_PATH to the real library"));
    return UseOwnLibrary();
  }
  state.real.emplace(*std::move(real));
  LogLineToStderr(absl::StrCat(why, "; MCCS_FALLBACK=nccl: NCCL calls of this process go to ",
                               state.real->path(), " (", VersionOf(*state.real), ")"));
  for (unsigned n = 0; n < kEntries; ++n) {
    const auto entry = static_cast<EntryNumber>(n);
    SetTarget(entry, RealTarget(entry));
  }
  SetInits();
  SetTarget(kEntry_ncclGetLastError, reinterpret_cast<Target>(&LastErrorOnBackend));
  state.backend.store(Backend::kReal, std::memory_order_release);
  ReopenGroups();
}

void LogOwnLibrary(const char* why) {
  LogLineToStderr(
      absl::StrCat(why, ": NCCL calls of this process go to the MCCS daemon at ", SocketPath()));
}

void DecideByDaemon() {
  const auto daemon = Process::Get().OpenConnection();
  if (!daemon.ok()) return UseRealLibrary(std::string(daemon.status().message()));
  LogOwnLibrary("the MCCS daemon is available, so MCCS_FALLBACK=nccl does not apply");
  UseOwnLibrary();
}

void DecideById(const ncclUniqueId& id) {
  State& state = TheState();
  if (CurrentBackend() != Backend::kUndecided || deciding) return;
  std::lock_guard lock(state.mutex);
  if (CurrentBackend() != Backend::kUndecided) return;
  deciding = true;
  if (IsMccsId(id)) {
    LogOwnLibrary("MCCS made the unique id");
    UseOwnLibrary();
  } else {
    UseRealLibrary("MCCS did not make the unique id");
  }
  deciding = false;
}

// Reads MCCS_FALLBACK.
void ReadSetting() {
  const absl::StatusOr<bool> allowed = FallbackAllowed();
  if (!allowed.ok()) LogLineToStderr(std::string(allowed.status().message()));
  if (!allowed.ok() || !*allowed) return UseOwnLibrary();
  for (const EntryNumber entry : kNeutral) SetTarget(entry, OwnTarget(entry));
  SetInits();
  TheState().backend.store(Backend::kUndecided, std::memory_order_release);
}

Target TargetOf(EntryNumber entry) {
  if (CurrentBackend() == Backend::kReal) return RealTarget(entry);
  return OwnTarget(entry);
}

}  // namespace

Backend CurrentBackend() { return TheState().backend.load(std::memory_order_acquire); }

// The first init asks here before its target is set, so its own entry point forwards it.
Target ChooseTarget(EntryNumber entry) {
  if (deciding) return OwnTarget(entry);
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  deciding = true;
  if (CurrentBackend() == Backend::kUnread) ReadSetting();
  Target target = nullptr;
  if (CurrentBackend() == Backend::kUndecided) {
    switch (entry) {
      case kEntry_ncclCommInitRank:
        target = reinterpret_cast<Target>(&InitRankOnBackend);
        break;
      case kEntry_ncclCommInitRankConfig:
        target = reinterpret_cast<Target>(&InitRankConfigOnBackend);
        break;
      case kEntry_ncclCommInitRankScalable:
        target = reinterpret_cast<Target>(&InitRankScalableOnBackend);
        break;
      case kEntry_ncclCommGrow:
        target = reinterpret_cast<Target>(&GrowOnBackend);
        break;
      default:
        if (!IsNeutral(entry)) DecideByDaemon();
    }
  }
  deciding = false;
  return target != nullptr ? target : TargetOf(entry);
}

int ReportMissing(EntryNumber entry) {
  init_error = absl::StrCat(NameOf(entry), " is not supported by ", TheState().real->path(),
                            ", the library that this process has fallen back to");
  LogLineToStderr(init_error);
  return ncclInvalidUsage;
}

}  // namespace mccs::shim

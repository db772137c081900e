#include "tests/unit/store/failing_files.h"

#include "base/check.h"

namespace mccs {
namespace {

constexpr char kName[] = "failing";

// SQLite's callbacks have no context.
struct {
  FailingFiles::Fault fault = FailingFiles::Fault::kNone;
  uint64_t left = 0;
  bool failed = false;
} state;

// SQLite allocates it together with the system's file, which follows.
struct File {
  sqlite3_file base;
  sqlite3_file* system() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* System(sqlite3_file* file) { return reinterpret_cast<File*>(file)->system(); }

bool IsDead() { return state.failed && state.fault == FailingFiles::Fault::kTornWrite; }

// Whether this write or sync fails.
bool Fails() {
  if (state.failed) return true;
  if (state.left > 0) {
    --state.left;
    return false;
  }
  state.failed = true;
  return true;
}

int Write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
  sqlite3_file* const system = System(file);
  const bool dead = IsDead();
  const bool affects = state.fault == FailingFiles::Fault::kDiskFull ||
                       state.fault == FailingFiles::Fault::kTornWrite;
  if (!affects || !Fails()) return system->pMethods->xWrite(system, bytes, count, at);
  if (state.fault == FailingFiles::Fault::kDiskFull) return SQLITE_FULL;
  if (!dead) system->pMethods->xWrite(system, bytes, count / 2, at);
  return SQLITE_IOERR_WRITE;
}

// No file is really synced, which would take milliseconds: only processes die here, not the host.
int Sync(sqlite3_file* /*file*/, int /*flags*/) {
  const bool fails = IsDead() || (state.fault == FailingFiles::Fault::kSyncFails && Fails());
  return fails ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

int Truncate(sqlite3_file* file, sqlite3_int64 bytes) {
  sqlite3_file* const system = System(file);
  return IsDead() ? SQLITE_IOERR_TRUNCATE : system->pMethods->xTruncate(system, bytes);
}

// Forwards a call to the system's file.
template <auto Method, typename... Arguments>
int Forward(sqlite3_file* file, Arguments... arguments) {
  sqlite3_file* const system = System(file);
  return (system->pMethods->*Method)(system, arguments...);
}

void ShmBarrier(sqlite3_file* file) { System(file)->pMethods->xShmBarrier(System(file)); }

using Methods = sqlite3_io_methods;
const Methods kMethods = {
    .iVersion = 2,
    .xClose = Forward<&Methods::xClose>,
    .xRead = Forward<&Methods::xRead, void*, int, sqlite3_int64>,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = Forward<&Methods::xFileSize, sqlite3_int64*>,
    .xLock = Forward<&Methods::xLock, int>,
    .xUnlock = Forward<&Methods::xUnlock, int>,
    .xCheckReservedLock = Forward<&Methods::xCheckReservedLock, int*>,
    .xFileControl = Forward<&Methods::xFileControl, int, void*>,
    .xSectorSize = Forward<&Methods::xSectorSize>,
    .xDeviceCharacteristics = Forward<&Methods::xDeviceCharacteristics>,
    .xShmMap = Forward<&Methods::xShmMap, int, int, int, void volatile**>,
    .xShmLock = Forward<&Methods::xShmLock, int, int, int>,
    .xShmBarrier = ShmBarrier,
    .xShmUnmap = Forward<&Methods::xShmUnmap, int>,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* opened) {
  auto* const system_vfs = static_cast<sqlite3_vfs*>(vfs->pAppData);
  sqlite3_file* const system = System(file);
  const int code = system_vfs->xOpen(system_vfs, name, system, flags, opened);
  file->pMethods = system->pMethods != nullptr ? &kMethods : nullptr;
  return code;
}

int Delete(sqlite3_vfs* vfs, const char* name, int /*syncs_directory*/) {
  if (IsDead()) return SQLITE_IOERR_DELETE;
  auto* const system_vfs = static_cast<sqlite3_vfs*>(vfs->pAppData);
  return system_vfs->xDelete(system_vfs, name, /*syncDir=*/0);
}

// The other calls of the system's file system do not use their first argument.
sqlite3_vfs Wrap(sqlite3_vfs* system) {
  sqlite3_vfs own = *system;
  own.szOsFile = static_cast<int>(sizeof(File)) + system->szOsFile;
  own.pNext = nullptr;
  own.zName = kName;
  own.pAppData = system;
  own.xOpen = Open;
  own.xDelete = Delete;
  return own;
}

}  // namespace

FailingFiles::FailingFiles()
    : system_(sqlite3_vfs_find(nullptr)), own_(std::make_unique<sqlite3_vfs>(Wrap(system_))) {
  Repair();
  MCCS_CHECK(sqlite3_vfs_register(own_.get(), /*makeDflt=*/1) == SQLITE_OK);
}

FailingFiles::~FailingFiles() {
  Repair();
  sqlite3_vfs_unregister(own_.get());
  sqlite3_vfs_register(system_, /*makeDflt=*/1);
}

void FailingFiles::FailAfter(Fault fault, uint64_t writes) {
  state = {.fault = fault, .left = writes, .failed = false};
}

void FailingFiles::Die() { state = {.fault = Fault::kTornWrite, .left = 0, .failed = true}; }

bool FailingFiles::failed() const { return state.failed; }

}  // namespace mccs

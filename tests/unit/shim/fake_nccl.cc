// A "real" libnccl.so.2 of an old release for fallback_test.py: records its calls and arguments,
// and does nothing. It has a few functions only.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

namespace {

struct Id {
  char bytes[128];
};

std::mutex calls_mutex;
std::string calls;  // guarded by calls_mutex; read when no other thread calls

template <typename... Arguments>
int Record(const char* format, Arguments... arguments) {
  char line[256];
  std::snprintf(line, sizeof(line), format, arguments...);
  const std::lock_guard lock(calls_mutex);
  calls += line;
  calls += ';';
  return 0;
}

int depth = 0;

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE const char* FakeCalls() { return calls.c_str(); }

FAKE int ncclGetVersion(int* version) {
  *version = 21805;
  return 0;
}
FAKE const char* ncclGetErrorString(int) { return "fake error string"; }
FAKE const char* ncclGetLastError(void*) { return "fake last error"; }
FAKE int ncclGetUniqueId(Id* id) {
  std::memset(id, 0x11, sizeof(*id));
  return Record("GetUniqueId");
}
FAKE int ncclGroupStart() { return Record("GroupStart %d", ++depth); }
FAKE int ncclGroupEnd() { return Record("GroupEnd %d", --depth); }
FAKE int ncclCommInitRank(void** comm, int ranks, Id id, int rank) {
  *comm = reinterpret_cast<void*>(uintptr_t{0x1000});
  return Record("CommInitRank %d %d %d %d", ranks, id.bytes[0], id.bytes[127], rank);
}
FAKE int ncclCommInitRankConfig(void** comm, int ranks, Id id, int rank, void* config) {
  *comm = reinterpret_cast<void*>(uintptr_t{0x2000});
  return Record("CommInitRankConfig %d %d %d %s", ranks, id.bytes[127], rank,
                config == nullptr ? "NULL" : "config");
}
FAKE int ncclCommInitAll(void** comm, int devices, const int*) {
  for (int i = 0; i < devices; ++i) comm[i] = reinterpret_cast<void*>(uintptr_t{0x3000});
  return Record("CommInitAll %d", devices);
}
FAKE int ncclReduce(const void* send, void* recv, size_t count, int type, int op, int root,
                    void* comm, void* stream) {
  return Record("Reduce %zx %zx %zx %d %d %d %zx %zx", reinterpret_cast<uintptr_t>(send),
                reinterpret_cast<uintptr_t>(recv), count, type, op, root,
                reinterpret_cast<uintptr_t>(comm), reinterpret_cast<uintptr_t>(stream));
}
FAKE int ncclCommAbort(void* comm) {
  Record("CommAbort %zx", reinterpret_cast<uintptr_t>(comm));
  return 5;
}

// The log that NCCL_DEBUG enables: VERSION, WARN, INFO (and TRACE, which is the same as INFO here).
// NCCL_DEBUG_SUBSYS selects lines of INFO; NCCL_DEBUG_FILE redirects all lines.
//
// THREAD: any. Off unless the variable is set; then one line per event on stdout, in NCCL's form:
// "host:pid:tid MCCS WARN text".
#ifndef MCCS_SHIM_CONFIG_DIAGNOSTICS_H_
#define MCCS_SHIM_CONFIG_DIAGNOSTICS_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace mccs::shim {

enum class Verbosity { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3 };

// NCCL's names of the subject of an INFO line; only those that this library uses.
enum class Subsystem : uint32_t {
  kInit = 1 << 0,        // communicators begin and end (BOOTSTRAP is an alias)
  kCollective = 1 << 1,  // COLL: one line per collective call
  kP2p = 1 << 2,         // P2P: one line per send and receive
  kEnv = 1 << 3,         // ENV: which variables are set
  kReg = 1 << 4,         // REG: buffers that are registered with the daemon
  kAlloc = 1 << 5,       // ALLOC: ncclMemAlloc
  kCall = 1 << 6,        // CALL: everything else
};

// Reads the variables again (ncclResetDebugInit); otherwise they are read once, at the first use.
void ReloadVerbosity();

// Whether lines of this level, and for INFO of this subsystem, are enabled. Costs two loads.
bool IsLogged(Verbosity level, Subsystem subsystem = Subsystem::kInit);

// Write a line: LogLine if the level is enabled, LogLineTo in any case and on the caller's stream.
void LogLine(Verbosity level, std::string_view text, Subsystem subsystem = Subsystem::kInit);
void LogLineTo(std::FILE* stream, Verbosity level, std::string_view text);

// The destination: stdout, or the file of NCCL_DEBUG_FILE.
std::FILE* DebugStream();
// Whether NCCL_DEBUG_FILE redirects the log.
bool DebugStreamIsFile();

// "MCCS version 0.1.0 (NCCL 2.28.9 API)", once per process.
void LogVersionOnce();

// ---- For tests ----

// `pattern` with %h replaced by `host`, %p by `process` and %% by %.
std::string ExpandFileName(std::string_view pattern, std::string_view host, int process);
// The bits of Subsystem for a value such as "INIT,COLL", "ALL" or "^ENV". Unknown names and
// NCCL's other subsystems have no bits.
uint32_t SubsystemsOf(std::string_view text);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_DIAGNOSTICS_H_

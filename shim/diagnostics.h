// What NCCL_DEBUG asks to see: VERSION, WARN, INFO (and TRACE, which adds nothing here), where
// NCCL_DEBUG_SUBSYS chooses among the lines of INFO and NCCL_DEBUG_FILE the place of all of them.
//
// THREAD: any. Off unless the variable is set; then one line per event on stdout, as NCCL's users
// expect it: "host:pid:tid MCCS WARN text".
#ifndef MCCS_SHIM_DIAGNOSTICS_H_
#define MCCS_SHIM_DIAGNOSTICS_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace mccs::shim {

enum class Verbosity { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3 };

// NCCL's names for what a line of INFO is about; those that this library has lines for.
enum class Subsystem : uint32_t {
  kInit = 1 << 0,        // communicators come and go (also asked for as BOOTSTRAP)
  kCollective = 1 << 1,  // COLL: one line per collective call
  kP2p = 1 << 2,         // P2P: one line per send and receive
  kEnv = 1 << 3,         // ENV: which variables are set
  kReg = 1 << 4,         // REG: buffers that become known to the daemon
  kAlloc = 1 << 5,       // ALLOC: ncclMemAlloc
  kCall = 1 << 6,        // CALL: what fits nowhere else
};

// Reads the variables again (ncclResetDebugInit); otherwise they are read at the first use.
void ReloadVerbosity();

// Whether lines of this level are wanted, and for INFO, of this subsystem. Two loads.
bool Shows(Verbosity level, Subsystem subsystem = Subsystem::kInit);

// Says it where it is wanted; SayOn says it in any case, on a stream of its caller's choice.
void Say(Verbosity level, std::string_view text, Subsystem subsystem = Subsystem::kInit);
void SayOn(std::FILE* stream, Verbosity level, std::string_view text);

// Where lines go: stdout, or what NCCL_DEBUG_FILE names.
std::FILE* DebugStream();
// Whether NCCL_DEBUG_FILE took them away from stdout.
bool DebugStreamIsFile();

// "MCCS version 0.1.0 (NCCL 2.28.9 API)", once per process.
void SayVersionOnce();

// ---- For tests ----

// `pattern` with %h as `host`, %p as `process` and %% as %.
std::string ExpandFileName(std::string_view pattern, std::string_view host, int process);
// The bits of Subsystem that a text such as "INIT,COLL", "ALL" or "^ENV" asks for. Unknown names,
// NCCL's other subsystems among them, stand for nothing.
uint32_t SubsystemsOf(std::string_view text);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DIAGNOSTICS_H_

// What NCCL_DEBUG asks to see: VERSION, WARN, INFO (and TRACE, which adds nothing here).
//
// THREAD: any. Off unless the variable is set; then one line per event on stdout, as NCCL's users
// expect it: "host:pid:tid MCCS WARN text".
#ifndef MCCS_SHIM_DIAGNOSTICS_H_
#define MCCS_SHIM_DIAGNOSTICS_H_

#include <cstdio>
#include <string_view>

namespace mccs::shim {

enum class Verbosity { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3 };

// Reads NCCL_DEBUG again (ncclResetDebugInit); otherwise it is read at the first use.
void ReloadVerbosity();

// Whether lines of this level are wanted.
bool Shows(Verbosity level);

// Says it where it is wanted; SayOn says it in any case, on a stream of its caller's choice.
void Say(Verbosity level, std::string_view text);
void SayOn(std::FILE* stream, Verbosity level, std::string_view text);

// "MCCS version 0.1.0 (NCCL 2.28.9 API)", once per process.
void SayVersionOnce();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DIAGNOSTICS_H_

#include "shim/diagnostics.h"

#include <nccl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "shim/version.h"

namespace mccs::shim {
namespace {

constexpr int kUnread = -1;
std::atomic<int> verbosity{kUnread};

Verbosity Read() {
  const char* text = getenv("NCCL_DEBUG");
  if (text == nullptr) return Verbosity::kNone;
  if (strcasecmp(text, "VERSION") == 0) return Verbosity::kVersion;
  if (strcasecmp(text, "WARN") == 0) return Verbosity::kWarn;
  if (strcasecmp(text, "INFO") == 0 || strcasecmp(text, "TRACE") == 0) return Verbosity::kInfo;
  return Verbosity::kNone;
}

Verbosity Current() {
  int level = verbosity.load(std::memory_order_relaxed);
  if (level == kUnread) {
    level = static_cast<int>(Read());
    verbosity.store(level, std::memory_order_relaxed);
  }
  return static_cast<Verbosity>(level);
}

}  // namespace

void ReloadVerbosity() { verbosity.store(static_cast<int>(Read()), std::memory_order_relaxed); }

bool Shows(Verbosity level) { return level <= Current(); }

void Say(Verbosity level, std::string_view text) {
  if (Shows(level)) SayOn(stdout, level, text);
}

void SayOn(std::FILE* stream, Verbosity level, std::string_view text) {
  char host[64] = "";
  gethostname(host, sizeof(host) - 1);
  std::fprintf(stream, "%s:%d:%ld MCCS %s%.*s\n", host, getpid(), syscall(SYS_gettid),
               level == Verbosity::kWarn ? "WARN " : "INFO ", static_cast<int>(text.size()),
               text.data());
  std::fflush(stream);
}

void SayVersionOnce() {
  static std::atomic<bool> said{false};
  if (!Shows(Verbosity::kVersion) || said.exchange(true)) return;
  std::printf("MCCS version %s (NCCL %d.%d.%d API)\n", kMccsVersion, NCCL_MAJOR, NCCL_MINOR,
              NCCL_PATCH);
  std::fflush(stdout);
}

}  // namespace mccs::shim

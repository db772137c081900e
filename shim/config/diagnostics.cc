#include "shim/config/diagnostics.h"

#include <fcntl.h>
#include <nccl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "shim/config/settings.h"
#include "shim/version.h"

namespace mccs::shim {
namespace {

constexpr uint32_t kAllSubsystems = 0xffffffff;
constexpr uint32_t Bit(Subsystem subsystem) { return static_cast<uint32_t>(subsystem); }

struct SubsystemName {
  const char* name;
  uint32_t bits;
};
constexpr SubsystemName kSubsystemNames[] = {{"INIT", Bit(Subsystem::kInit)},
                                             {"BOOTSTRAP", Bit(Subsystem::kInit)},
                                             {"ENV", Bit(Subsystem::kEnv)},
                                             {"COLL", Bit(Subsystem::kCollective)},
                                             {"P2P", Bit(Subsystem::kP2p)},
                                             {"REG", Bit(Subsystem::kReg)},
                                             {"ALLOC", Bit(Subsystem::kAlloc)},
                                             {"CALL", Bit(Subsystem::kCall)},
                                             {"ALL", kAllSubsystems}};

// The variables' values, once read. Never freed, because another thread may be writing a line; a
// later reading keeps its predecessor.
struct Output {
  Verbosity verbosity = Verbosity::kNone;
  uint32_t subsystems = 0;
  std::FILE* stream = stdout;
  const Output* previous = nullptr;
};
std::atomic<const Output*> the_output{nullptr};  // release store when read; pairs with Current

std::mutex read_mutex;

std::string ShortHostName() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return std::string(host, strcspn(host, "."));
}

Verbosity VerbosityOf(const std::string& text) {
  if (strcasecmp(text.c_str(), "VERSION") == 0) return Verbosity::kVersion;
  if (strcasecmp(text.c_str(), "WARN") == 0) return Verbosity::kWarn;
  // ABORT adds little to WARN; TRACE adds to INFO only what NCCL's own debug builds print.
  if (strcasecmp(text.c_str(), "ABORT") == 0) return Verbosity::kWarn;
  if (strcasecmp(text.c_str(), "INFO") == 0) return Verbosity::kInfo;
  if (strcasecmp(text.c_str(), "TRACE") == 0) return Verbosity::kInfo;
  return Verbosity::kNone;
}

// Truncated, then opened for append: two processes with the same file name do not overwrite each
// other's lines.
std::FILE* OpenStream(const std::string& name) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC;
  constexpr mode_t kMode = 0644;
  const int fd = open(name.c_str(), kFlags, kMode);
  std::FILE* stream = fd >= 0 ? fdopen(fd, "a") : nullptr;
  if (stream != nullptr) return stream;
  const std::string why = std::strerror(errno);
  if (fd >= 0) close(fd);
  LogLineTo(stdout, Verbosity::kWarn,
            absl::StrCat("cannot open NCCL_DEBUG_FILE '", name, "': ", why,
                         "; lines go to stdout; name a file in a writable directory"));
  return stdout;
}

// `again`: read even if another thread has read them.
const Output& Read(bool again) {
  std::lock_guard lock(read_mutex);
  const Output* known = the_output.load(std::memory_order_relaxed);
  if (known != nullptr && !again) return *known;
  auto* output = new Output;
  output->previous = known;
  output->verbosity = VerbosityOf(ValueOf("NCCL_DEBUG").value_or(""));
  output->subsystems = SubsystemsOf(ValueOf("NCCL_DEBUG_SUBSYS").value_or("INIT,ENV"));
  const auto file = ValueOf("NCCL_DEBUG_FILE");
  if (file && output->verbosity > Verbosity::kVersion) {
    output->stream = OpenStream(ExpandFileName(*file, ShortHostName(), getpid()));
  }
  the_output.store(output, std::memory_order_release);
  return *output;
}

const Output& CurrentOutput() {
  const Output* output = the_output.load(std::memory_order_acquire);
  return output != nullptr ? *output : Read(/*again=*/false);
}

}  // namespace

std::string ExpandFileName(std::string_view pattern, std::string_view host, int process) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
      name += pattern[i];
      continue;
    }
    ++i;
    if (next == 'h') name += host;
    if (next == 'p') name += std::to_string(process);
    if (next == '%') name += '%';
  }
  return name;
}

uint32_t SubsystemsOf(std::string_view text) {
  const bool inverted = !text.empty() && text[0] == '^';
  if (inverted) text.remove_prefix(1);
  uint32_t bits = 0;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    const std::string name = absl::AsciiStrToUpper(absl::StripAsciiWhitespace(part));
    for (const SubsystemName& known : kSubsystemNames) {
      if (name == known.name) bits |= known.bits;
    }
  }
  return inverted ? ~bits : bits;
}

void ReloadVerbosity() {
  ReloadSettings();
  Read(/*again=*/true);
}

bool IsLogged(Verbosity level, Subsystem subsystem) {
  const Output& output = CurrentOutput();
  if (level > output.verbosity) return false;
  return level != Verbosity::kInfo || (output.subsystems & Bit(subsystem)) != 0;
}

std::FILE* DebugStream() { return CurrentOutput().stream; }
bool DebugStreamIsFile() { return CurrentOutput().stream != stdout; }

void LogLine(Verbosity level, std::string_view text, Subsystem subsystem) {
  if (IsLogged(level, subsystem)) LogLineTo(DebugStream(), level, text);
}

void LogLineTo(std::FILE* stream, Verbosity level, std::string_view text) {
  std::fprintf(stream, "%s:%d:%ld MCCS %s%.*s\n", ShortHostName().c_str(), getpid(),
               syscall(SYS_gettid), level == Verbosity::kWarn ? "WARN " : "INFO ",
               static_cast<int>(text.size()), text.data());
  std::fflush(stream);
}

void LogVersionOnce() {
  static std::atomic<bool> logged{false};
  if (!IsLogged(Verbosity::kVersion) || logged.exchange(true)) return;
  std::fprintf(DebugStream(), "MCCS version %s (NCCL %d.%d.%d API)\n", kMccsVersion, NCCL_MAJOR,
               NCCL_MINOR, NCCL_PATCH);
  std::fflush(DebugStream());
}

}  // namespace mccs::shim

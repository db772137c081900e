#include "lab/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/unique_fd.h"
#include "lab/node.h"
#include "lab/vm_client.h"

namespace mccs::lab {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

bool IsFile(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

void ResetSignals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD}) {
    signal(signal_number, SIG_DFL);
  }
}

// In the child: acts for a program in a virtual machine. Returns an errno value if it cannot start.
// `verdict`: closed when the program has started.
int ActForProgram(const SpawnOptions& options, int verdict) {
  std::ifstream file(options.place.agent_key_file);
  VmRequest request{.key = {},
                    .directory = std::filesystem::current_path(),
                    .file = options.file,
                    .argv = options.argv,
                    .environment = options.environment};
  if (!std::getline(file, request.key)) return EACCES;
  file.close();
  // Not execve, which would close the descriptors of the calling program.
  if (verdict > 3) close_range(3, verdict - 1, 0);
  close_range(verdict + 1, ~0U, 0);
  VmClient client;
  if (const int error = client.Start(options.place.agent_port, request); error != 0) return error;
  close(verdict);
  _exit(client.Follow());
}

// In the child, between fork and execve. Returns an errno value.
int BecomeProgram(const SpawnOptions& options, pid_t parent, int verdict, char** argv,
                  char** environment) {
  // Enter first: a change of credentials resets the death signal.
  if (options.place.node != 0) {
    if (const int error = EnterNode(options.place.node); error != 0) return error;
  } else if (options.place.agent_port == 0 && !options.host.name.empty()) {
    BecomeHost(options.host).IgnoreError();
  }
  if (options.own_group && setpgid(0, 0) != 0) return errno;
  if (options.death_signal != 0) {
    if (prctl(PR_SET_PDEATHSIG, options.death_signal) != 0) return errno;
    if (getppid() != parent) return ESRCH;  // it died before prctl
  }
  const int wanted[] = {options.input, options.output, options.error};
  for (int target = 0; target < 3; ++target) {
    if (wanted[target] >= 0 && dup2(wanted[target], target) < 0) return errno;
  }
  ResetSignals();
  if (options.place.agent_port != 0) return ActForProgram(options, verdict);
  execve(options.file.c_str(), argv, environment);
  return errno;
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        const std::string& path_variable) {
  std::vector<std::string> candidates;
  if (program.find('/') != std::string::npos) {
    candidates.push_back(program);
  } else {
    for (absl::string_view directory : absl::StrSplit(path_variable, ':', absl::SkipEmpty())) {
      candidates.push_back(absl::StrCat(directory, "/", program));
    }
  }
  bool found_one = false;
  for (const std::string& candidate : candidates) {
    if (!IsFile(candidate)) continue;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    found_one = true;
  }
  if (found_one)
    return absl::PermissionDeniedError(absl::StrCat(
        "program '", program, "' is not executable; set its execute permission (chmod +x)"));
  bool is_path = program.find('/') != std::string::npos;
  return absl::NotFoundError(
      absl::StrCat("program '", program, "' not found", is_path ? "" : " in PATH"));
}

absl::StatusOr<pid_t> Spawn(const SpawnOptions& options) {
  // execve closes it on success; else the child sends errno through it.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  UniqueFd verdict(ends[0]);
  UniqueFd verdict_writer(ends[1]);
  std::vector<char*> argv = Pointers(options.argv);
  std::vector<char*> environment = Pointers(options.environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  if (child == 0) {
    int error =
        BecomeProgram(options, parent, verdict_writer.get(), argv.data(), environment.data());
    (void)!write(verdict_writer.get(), &error, sizeof(error));
    _exit(127);
  }
  verdict_writer.Reset();
  int error = 0;
  ssize_t got;
  while ((got = read(verdict.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (got == 0) return child;
  waitpid(child, nullptr, 0);
  if (error == ECONNREFUSED || error == ECONNRESET || error == EPIPE) {
    return absl::UnavailableError(absl::StrCat(
        "cannot start ", options.file,
        ": its virtual machine does not reply; restart the lab with mccs-lab down and up"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", options.file));
}

absl::StatusOr<pid_t> SpawnWithLog(SpawnOptions options, const std::string& log_path) {
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log.valid() || !nothing.valid())
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", log_path));
  options.input = nothing.get();
  options.output = log.get();
  options.error = log.get();
  options.own_group = true;
  options.death_signal = SIGKILL;
  return Spawn(options);
}

}  // namespace mccs::lab

#include "service/gpus/child_gpu_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

extern char** environ;

namespace mccs {
namespace {

constexpr size_t kMostBytes = 1u << 20;
constexpr int kReapPolls = 20;
constexpr int kReapPollMs = 5;

int MillisecondsUntil(MonotonicNs until, MonotonicNs now) {
  return static_cast<int>(std::clamp<int64_t>((until - now) / kNsPerMs + 1, 0, 60'000));
}

agent::v1::GpuSurvey Unreadable(std::string why) {
  agent::v1::GpuSurvey survey;
  survey.set_unreadable(std::move(why));
  return survey;
}

}  // namespace

ChildGpuReader::~ChildGpuReader() {
  if (!Reap()) KillChild();
}

bool ChildGpuReader::Reap() {
  if (child_ != 0 && waitpid(child_, &status_, WNOHANG) != 0) child_ = 0;
  return child_ == 0;
}

bool ChildGpuReader::AwaitEnd() {
  for (int i = 0; i < kReapPolls && !Reap(); ++i) poll(nullptr, 0, kReapPollMs);
  return child_ == 0;
}

void ChildGpuReader::KillChild() {
  kill(child_, SIGKILL);
  AwaitEnd();
}

std::string ChildGpuReader::Start(int output) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  for (const std::string& argument : options_.argv)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawn(&child, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return absl::StrCat("cannot start ", options_.argv[0], ": ", strerror(error));
  child_ = child;
  return "";
}

std::string ChildGpuReader::Collect(int output, int stop_fd, std::string* why) {
  const MonotonicNs deadline = clock_.Now() + options_.timeout_ns;
  std::string bytes;
  for (;;) {
    pollfd fds[] = {{.fd = output, .events = POLLIN, .revents = 0},
                    {.fd = stop_fd, .events = POLLIN, .revents = 0}};
    poll(fds, 2, MillisecondsUntil(deadline, clock_.Now()));
    if (fds[1].revents != 0) {
      *why = "mccsd stops";
      return "";
    }
    if (fds[0].revents != 0) {
      char buffer[4096];
      const ssize_t count = read(output, buffer, sizeof(buffer));
      if (count == 0) return bytes;
      if (count > 0) bytes.append(buffer, static_cast<size_t>(count));
      if (bytes.size() <= kMostBytes && (count > 0 || errno == EINTR)) continue;
      *why = "its process wrote too much";
      return "";
    }
    if (clock_.Now() >= deadline) {
      *why = absl::StrCat("NVML has not answered for ", options_.timeout_ns / kNsPerSec,
                          " s, as with a GPU that hangs");
      return "";
    }
  }
}

agent::v1::GpuSurvey ChildGpuReader::Read(int stop_fd) {
  if (!Reap()) {
    return Unreadable(absl::StrCat("NVML still hangs in process ", child_,
                                   ", which cannot be killed: a GPU hangs"));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Unreadable(absl::StrCat("pipe: ", strerror(errno)));
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  if (std::string error = Start(input.get()); !error.empty()) return Unreadable(std::move(error));
  input.Reset();
  std::string why;
  const std::string bytes = Collect(output.get(), stop_fd, &why);
  if (!why.empty()) {
    KillChild();
    return Unreadable(std::move(why));
  }
  // Its output is closed, so it ends now, unless the driver keeps it.
  if (!AwaitEnd()) {
    KillChild();
  } else if (WIFSIGNALED(status_)) {
    return Unreadable(
        absl::StrCat("NVML ended its process with signal ", strsignal(WTERMSIG(status_))));
  }
  agent::v1::GpuSurvey survey;
  if (!survey.ParseFromString(bytes) || (survey.gpus_size() == 0 && bytes.empty()))
    return Unreadable(absl::StrCat(options_.argv[0], " did not report the GPUs"));
  return survey;
}

}  // namespace mccs

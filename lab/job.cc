#include "lab/job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lab/child_processes.h"

namespace mccs::lab {

std::string LinePrefixer::Take(std::string_view piece) {
  std::string out;
  while (!piece.empty()) {
    size_t newline = piece.find('\n');
    size_t room = kMaxLineBytes - unfinished_.size();
    size_t taken = std::min({newline, piece.size(), room});
    unfinished_.append(piece.substr(0, taken));
    piece.remove_prefix(taken);
    bool ends_line = !piece.empty() && piece.front() == '\n';
    if (ends_line) piece.remove_prefix(1);
    if (ends_line || unfinished_.size() == kMaxLineBytes) {
      out += prefix_ + unfinished_ + '\n';
      unfinished_.clear();
    }
  }
  return out;
}

std::string LinePrefixer::Finish() {
  if (unfinished_.empty()) return "";
  std::string out = prefix_ + unfinished_ + '\n';
  unfinished_.clear();
  return out;
}

namespace {

constexpr size_t kPieceBytes = 64 * 1024;

void PrintMessage(const std::string& text) { std::fprintf(stderr, "mccs-lab: %s\n", text.c_str()); }

// False: the reader has closed the pipe.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(written);
  }
  return true;
}

}  // namespace

absl::StatusOr<int> Job::Run(const std::vector<JobProcess>& processes) {
  MCCS_ASSIGN_OR_RETURN(signals_, SignalWatch::Create());
  AdoptOrphans();
  signal(SIGPIPE, SIG_IGN);  // Print handles EPIPE
  if (options_.supervisor > 0) supervisor_ = OpenPidfd(options_.supervisor);
  for (const JobProcess& process : processes) {
    absl::Status started = Start(process);
    if (started.ok()) continue;
    KillDescendants();
    return started;
  }
  while (AnyRunning()) {
    WaitForEvent();
    HandleSignals();
    ReapProcesses();
    ForwardOutput();
    AdvanceStage();
  }
  KillDescendants();
  ForwardOutput();
  for (Stream& stream : streams_) Print(stream.to, stream.prefixer.Finish());
  return failure_.value_or(0);
}

absl::Status Job::Start(const JobProcess& process) {
  SpawnOptions spawn = process.spawn;
  spawn.death_signal = SIGKILL;
  UniqueFd ours[2];
  UniqueFd theirs[3];
  if (options_.prefixed) {
    theirs[0].Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    for (int i = 0; i < 2; ++i) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
      ours[i].Reset(ends[0]);
      theirs[i + 1].Reset(ends[1]);
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    spawn.own_group = true;
    spawn.input = theirs[0].get();
    spawn.output = theirs[1].get();
    spawn.error = theirs[2].get();
  }
  MCCS_ASSIGN_OR_RETURN(pid_t pid, Spawn(spawn));
  processes_.push_back({process.label, pid});
  for (int i = 0; i < 2 && options_.prefixed; ++i) {
    const int to = i == 0 ? options_.output : options_.error;
    streams_.push_back({std::move(ours[i]), to, LinePrefixer(process.prefix)});
  }
  return absl::OkStatus();
}

void Job::WaitForEvent() {
  std::vector<pollfd> waiting;
  waiting.push_back({signals_->fd(), POLLIN, 0});
  if (supervisor_.valid()) waiting.push_back({supervisor_.get(), POLLIN, 0});
  size_t fixed = waiting.size();
  for (const Stream& stream : streams_) waiting.push_back({stream.from.get(), POLLIN, 0});
  int timeout_ms = -1;
  if (stage_ != Stage::kRunning) {
    timeout_ms = static_cast<int>(std::max<int64_t>(0, stage_ends_ - clock_.Now()) / kNsPerMs) + 1;
  }
  poll(waiting.data(), waiting.size(), timeout_ms);
  if (fixed == 2 && waiting[1].revents != 0) {
    supervisor_.Reset();
    PrintMessage("the lab is stopping; stopping the job");
    failure_ = failure_.value_or(1);
    BeginShutdown(SIGTERM);
  }
}

void Job::HandleSignals() {
  while (std::optional<Signal> signal = signals_->Take()) {
    if (signal->number == SIGCHLD) continue;
    // The terminal sent Ctrl-C to the program as well, which handles it.
    if (!options_.prefixed && signal->from_terminal) continue;
    failure_ = failure_.value_or(128 + signal->number);
    if (stage_ == Stage::kTerminated) {
      SignalAll(SIGKILL);
    } else {
      BeginShutdown(signal->number);
    }
  }
}

void Job::ReapProcesses() {
  for (const EndedChild& ended : ReapChildren()) {
    auto process =
        std::find_if(processes_.begin(), processes_.end(),
                     [&](const Process& candidate) { return candidate.pid == ended.pid; });
    if (process == processes_.end()) continue;  // an adopted orphan
    process->pid = 0;
    int status = ExitStatusOf(ended.wait_status);
    if (status == 0 || failure_) continue;
    failure_ = status;
    if (options_.prefixed)
      PrintMessage(absl::StrCat(process->label, " ", DescribeEnd(ended.wait_status)));
    BeginShutdown(0);
  }
}

void Job::ForwardOutput() {
  std::erase_if(streams_, [this](Stream& stream) {
    if (Forward(&stream)) return false;
    Print(stream.to, stream.prefixer.Finish());
    return true;
  });
}

bool Job::Forward(Stream* stream) {
  static char piece[kPieceBytes];
  while (true) {
    ssize_t got = read(stream->from.get(), piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    Print(stream->to, stream->prefixer.Take({piece, static_cast<size_t>(got)}));
  }
}

void Job::Print(int to, std::string_view text) {
  if (WriteAll(to, text)) return;
  failure_ = failure_.value_or(128 + SIGPIPE);
  BeginShutdown(SIGTERM);
}

void Job::BeginShutdown(int signal_number) {
  if (signal_number != 0) SignalAll(signal_number);
  Stage wanted = signal_number == 0 ? Stage::kGrace : Stage::kTerminated;
  if (stage_ >= wanted) return;
  stage_ = wanted;
  stage_ends_ = clock_.Now() + options_.grace_ns;
}

void Job::AdvanceStage() {
  if (stage_ == Stage::kRunning || stage_ == Stage::kKilled || clock_.Now() < stage_ends_) return;
  if (stage_ == Stage::kGrace) {
    for (const Process& process : processes_) {
      if (process.pid > 0)
        PrintMessage(absl::StrCat(process.label, " is still running; terminating it"));
    }
    BeginShutdown(SIGTERM);
    return;
  }
  SignalAll(SIGKILL);
  stage_ = Stage::kKilled;
}

void Job::SignalAll(int signal_number) {
  for (const Process& process : processes_) {
    if (process.pid > 0) kill(options_.prefixed ? -process.pid : process.pid, signal_number);
  }
}

bool Job::AnyRunning() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& process) { return process.pid > 0; });
}

namespace {

absl::StatusOr<std::vector<const DaemonState*>> ChosenHosts(const LabState& lab,
                                                            const std::vector<std::string>& names) {
  std::vector<const DaemonState*> chosen;
  if (names.empty()) {
    for (const DaemonState& host : lab.hosts()) chosen.push_back(&host);
  }
  for (const std::string& name : names) {
    MCCS_ASSIGN_OR_RETURN(const DaemonState* host, lab.FindHost(name));
    if (std::find(chosen.begin(), chosen.end(), host) != chosen.end())
      return absl::InvalidArgumentError(
          absl::StrCat("--hosts names ", name, " twice; name each host once"));
    chosen.push_back(host);
  }
  return chosen;
}

}  // namespace

absl::StatusOr<std::vector<PlacedRank>> PlaceRanks(const LabState& lab,
                                                   const PlacementOptions& options) {
  MCCS_ASSIGN_OR_RETURN(const std::vector<const DaemonState*> hosts,
                        ChosenHosts(lab, options.hosts));
  std::vector<int32_t> room;
  int32_t most = 0;
  for (const DaemonState* host : hosts) {
    if (options.ranks_per_host > host->gpus) {
      return absl::InvalidArgumentError(absl::StrCat("--ranks-per-host ", options.ranks_per_host,
                                                     ": ", host->name, " has ", host->gpus,
                                                     " GPUs"));
    }
    room.push_back(options.ranks_per_host == 0 ? host->gpus : options.ranks_per_host);
    most += room.back();
  }
  if (options.ranks > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--ranks ", options.ranks, ": ", hosts.size(),
        hosts.size() == 1 ? " host takes" : " hosts take", " at most ", most, " ranks"));
  }
  int32_t left = options.ranks == 0 ? most : options.ranks;
  std::vector<PlacedRank> placed;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const int32_t here = std::min(room[i], left);
    left -= here;
    for (int32_t local_rank = 0; local_rank < here; ++local_rank)
      placed.push_back({.host = hosts[i],
                        .host_index = static_cast<int32_t>(i),
                        .local_rank = local_rank,
                        .local_world_size = here});
  }
  return placed;
}

}  // namespace mccs::lab

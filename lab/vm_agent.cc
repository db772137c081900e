#include "lab/vm_agent.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "lab/spawn.h"
#include "lab/vm_frames.h"

namespace mccs::lab {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kOutputPieceBytes = 64 << 10;

absl::StatusOr<std::string> ReadKey(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  if (std::getline(file, key) && !key.empty()) return key;
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
}

absl::StatusOr<UniqueFd> ListenOn(uint16_t port) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  if (!listener.valid() ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&place), sizeof(place)) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on port ", port));
  }
  return listener;
}

struct Pipe {
  UniqueFd reader, writer;

  static Pipe Create() {
    int ends[2] = {-1, -1};
    (void)!pipe2(ends, O_CLOEXEC);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
};

// One program, from its start to its end.
class Execution {
 public:
  Execution(int connection, SignalWatch signals)
      : connection_(connection), signals_(std::move(signals)) {}

  // Returns 0 or an errno value.
  int Start(const VmRequest& request);
  // Returns when the program has ended or the client has gone.
  void Follow();

 private:
  // False: the client has gone.
  bool HandleFrame();
  void WriteInput();
  // Closes `from` at its end. False: the client has gone.
  bool ForwardOutput(UniqueFd* from, Frame::Type type);
  void Reap();

  const int connection_;
  SignalWatch signals_;
  pid_t program_ = 0;
  std::optional<int> wait_status_;
  UniqueFd input_, output_, error_;
  std::string unwritten_input_;
  bool input_ends_ = false;
};

int Execution::Start(const VmRequest& request) {
  if (chdir(request.directory.c_str()) != 0) return errno;
  if (access(request.file.c_str(), X_OK) != 0) return errno;
  Pipe input = Pipe::Create();
  Pipe output = Pipe::Create();
  Pipe error = Pipe::Create();
  absl::StatusOr<pid_t> program = Spawn({.file = request.file,
                                         .argv = request.argv,
                                         .environment = request.environment,
                                         .input = input.reader.get(),
                                         .output = output.writer.get(),
                                         .error = error.writer.get(),
                                         .own_group = true});
  if (!program.ok()) return ENOEXEC;
  program_ = *program;
  input_ = std::move(input.writer);
  output_ = std::move(output.reader);
  error_ = std::move(error.reader);
  for (const UniqueFd* fd : {&input_, &output_, &error_}) fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  return 0;
}

void Execution::Follow() {
  while (!wait_status_) {
    // Frames wait while the program does not read its input.
    const short frames = unwritten_input_.empty() ? POLLIN : POLLRDHUP;
    const short writable = unwritten_input_.empty() ? 0 : POLLOUT;
    pollfd waiting[] = {{signals_.fd(), POLLIN, 0},
                        {connection_, frames, 0},
                        {output_.get(), POLLIN, 0},
                        {error_.get(), POLLIN, 0},
                        {input_.get(), writable, 0}};
    poll(waiting, std::size(waiting), -1);
    if ((waiting[1].revents & POLLRDHUP) != 0) return;
    if (waiting[1].revents != 0 && !HandleFrame()) return;
    WriteInput();
    if (waiting[2].revents != 0 && !ForwardOutput(&output_, Frame::Type::kOutput)) return;
    if (waiting[3].revents != 0 && !ForwardOutput(&error_, Frame::Type::kError)) return;
    Reap();
  }
  KillDescendants();  // they could write to the pipes for ever
  if (!ForwardOutput(&output_, Frame::Type::kOutput)) return;
  if (!ForwardOutput(&error_, Frame::Type::kError)) return;
  SendFrame(connection_, Frame::Type::kEnded, *wait_status_);
  // Reads until the client closes. Unread input would reset the connection before the last frame.
  while (ReceiveFrame(connection_)) {
  }
}

bool Execution::HandleFrame() {
  const std::optional<Frame> frame = ReceiveFrame(connection_);
  if (!frame) return false;
  if (frame->type == Frame::Type::kInput) {
    unwritten_input_ += frame->payload;
    input_ends_ = frame->payload.empty();
  } else if (frame->type == Frame::Type::kSignal) {
    kill(-program_, frame->Number().value_or(SIGTERM));
  }
  return true;
}

void Execution::WriteInput() {
  while (input_.valid() && !unwritten_input_.empty()) {
    const ssize_t written = write(input_.get(), unwritten_input_.data(), unwritten_input_.size());
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) input_.Reset();  // the program has closed its end
    if (written > 0) unwritten_input_.erase(0, written);
  }
  if (!input_.valid()) unwritten_input_.clear();
  if (input_ends_) input_.Reset();
}

bool Execution::ForwardOutput(UniqueFd* from, Frame::Type type) {
  static char piece[kOutputPieceBytes];
  while (from->valid()) {
    const ssize_t got = read(from->get(), piece, sizeof(piece));
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) from->Reset();
    if (got > 0 && !SendFrame(connection_, type, {piece, static_cast<size_t>(got)})) return false;
  }
  return true;
}

void Execution::Reap() {
  while (signals_.Take()) {
  }
  for (const EndedChild& ended : ReapChildren()) {
    if (ended.pid == program_) wait_status_ = ended.wait_status;
  }
}

}  // namespace

void ServeVmConnection(int connection, const std::string& key) {
  const std::optional<Frame> frame = ReceiveFrame(connection);
  if (!frame || frame->type != Frame::Type::kRequest) return;
  const std::optional<VmRequest> request = DecodeRequest(frame->payload);
  if (!request || request->key != key) return;
  AdoptOrphans();
  signal(SIGPIPE, SIG_IGN);
  absl::StatusOr<SignalWatch> signals = SignalWatch::Create();
  if (!signals.ok()) return;
  Execution execution(connection, *std::move(signals));
  if (const int error = execution.Start(*request); error != 0) {
    SendFrame(connection, Frame::Type::kFailed, error);
    return;
  }
  if (SendFrame(connection, Frame::Type::kStarted, "")) execution.Follow();
  KillDescendants();
}

absl::Status RunVmAgent(const VmAgentOptions& options) {
  MCCS_ASSIGN_OR_RETURN(const std::string key, ReadKey(options.key_file));
  MCCS_ASSIGN_OR_RETURN(const UniqueFd listener, ListenOn(options.port));
  MCCS_ASSIGN_OR_RETURN(SignalWatch signals, SignalWatch::Create());
  std::ofstream(options.ready_file) << "ready\n";
  while (true) {
    pollfd waiting[] = {{listener.get(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    poll(waiting, std::size(waiting), -1);
    while (signals.Take()) {
    }
    ReapChildren();  // the first process of a machine also gets all orphans
    if ((waiting[0].revents & POLLIN) == 0) continue;
    const UniqueFd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.valid() || fork() != 0) continue;
    ServeVmConnection(connection.get(), key);
    _exit(0);
  }
}

}  // namespace mccs::lab

#include "lab/vm_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"

namespace mccs::lab {
namespace {

// A writable connection takes this much without blocking.
constexpr size_t kInputPieceBytes = 4096;
// For the start of a program: an emulated processor is slow.
constexpr int kStartTimeoutS = 60;
constexpr int kExitLostConnection = 1;

void WriteOrExit(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) _exit(128 + SIGPIPE);  // without a reader; the agent ends the program
    bytes.remove_prefix(written);
  }
}

// Ends this process as the program ended.
int EndLike(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
  const int number = WTERMSIG(wait_status);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
  return 128 + number;
}

}  // namespace

int VmClient::Start(uint16_t port, const VmRequest& request) {
  absl::StatusOr<SignalWatch> signals = SignalWatch::Create();
  if (!signals.ok()) return EMFILE;
  signals_ = *std::move(signals);
  connection_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int connection = connection_.get();
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection, reinterpret_cast<sockaddr*>(&place), sizeof(place)) != 0) return errno;
  const timeval limit{kStartTimeoutS, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (!SendFrame(connection, Frame::Type::kRequest, EncodeRequest(request))) return EPIPE;
  const std::optional<Frame> answer = ReceiveFrame(connection);
  if (!answer) return ECONNRESET;
  const timeval none{};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
  if (answer->type == Frame::Type::kFailed) return answer->Number().value_or(EPROTO);
  return answer->type == Frame::Type::kStarted ? 0 : EPROTO;
}

int VmClient::Follow() {
  bool has_input = true;
  bool is_blocked = false;  // input waits until the connection is writable
  while (true) {
    const short events = static_cast<short>(is_blocked ? POLLIN | POLLOUT : POLLIN);
    pollfd waiting[] = {{signals_->fd(), POLLIN, 0},
                        {connection_.get(), events, 0},
                        {has_input && !is_blocked ? STDIN_FILENO : -1, POLLIN, 0}};
    poll(waiting, std::size(waiting), -1);
    ForwardSignals();
    is_blocked = is_blocked && (waiting[1].revents & POLLOUT) == 0;
    if (waiting[2].revents != 0) {
      is_blocked = !CanSend();
      if (!is_blocked) has_input = ForwardInput();
    }
    if ((waiting[1].revents & ~POLLOUT) == 0) continue;
    const std::optional<Frame> frame = ReceiveFrame(connection_.get());
    if (!frame) {
      std::fputs("mccs-lab: the virtual machine has closed the connection\n", stderr);
      return kExitLostConnection;
    }
    if (frame->type == Frame::Type::kOutput) WriteOrExit(STDOUT_FILENO, frame->payload);
    if (frame->type == Frame::Type::kError) WriteOrExit(STDERR_FILENO, frame->payload);
    if (frame->type == Frame::Type::kEnded) return EndLike(frame->Number().value_or(0));
  }
}

void VmClient::ForwardSignals() {
  while (const std::optional<Signal> signal = signals_->Take()) {
    if (signal->number != SIGCHLD)
      SendFrame(connection_.get(), Frame::Type::kSignal, signal->number);
  }
}

bool VmClient::ForwardInput() {
  char piece[kInputPieceBytes];
  const ssize_t got = read(STDIN_FILENO, piece, sizeof(piece));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  SendFrame(connection_.get(), Frame::Type::kInput,
            {piece, static_cast<size_t>(got > 0 ? got : 0)});
  return got > 0;
}

bool VmClient::CanSend() const {
  pollfd waiting{connection_.get(), POLLOUT, 0};
  return poll(&waiting, 1, 0) > 0;
}

}  // namespace mccs::lab

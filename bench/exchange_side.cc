#include "bench/exchange_side.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"

namespace mccs {

Side::Side(bool first, int barrier_fd, int buffer_bytes)
    : first_(first),
      barrier_fd_(barrier_fd),
      network_(*reactor_,
               {.send_buffer_bytes = buffer_bytes, .receive_buffer_bytes = buffer_bytes}) {}

void Side::Barrier() const {
  char byte = 0;
  MCCS_CHECK(write(barrier_fd_, &byte, 1) == 1);
  MCCS_CHECK(read(barrier_fd_, &byte, 1) == 1);
}

void Side::Open(int count) {
  std::unique_ptr<Listener> listener = *network_.Listen({.host = "127.0.0.1", .port = 0});
  uint16_t mine = listener->local().port, theirs = 0;
  MCCS_CHECK(write(barrier_fd_, &mine, sizeof(mine)) == sizeof(mine));
  MCCS_CHECK(read(barrier_fd_, &theirs, sizeof(theirs)) == sizeof(theirs));
  for (int i = 0; i < count; ++i) {
    out.push_back(*network_.Connect({.host = "127.0.0.1", .port = theirs}, {}));
  }
  while (in.size() < static_cast<size_t>(count)) {
    std::unique_ptr<Connection> accepted = *listener->Accept();
    if (accepted == nullptr) {
      reactor_->Wait(-1);
    } else {
      in.push_back(std::move(accepted));
    }
  }
  Barrier();
}

void Side::Close() {
  Barrier();
  out.clear();
  in.clear();
}

void Side::Idle(int& idle) {
  reactor_->Wait(0);
  if (++idle % 8 == 0) sched_yield();
}

void ExchangeBare(Side& side, size_t bytes, size_t call_bytes) {
  const size_t connections = side.out.size();
  const size_t share = bytes / connections;
  std::vector<size_t> sent(side.out.size()), received(side.in.size());
  auto window = [&](std::vector<std::byte>& buffer, size_t done, size_t lane) {
    const size_t offset = (done * connections + lane * call_bytes) % kBufferBytes;
    return iovec{.iov_base = buffer.data() + offset,
                 .iov_len = std::min({call_bytes, share - done, kBufferBytes - offset})};
  };
  int idle = 0;
  for (;;) {
    bool moved = false, done = true;
    for (size_t i = 0; i < side.out.size(); ++i) {
      if (sent[i] < share && side.out[i]->writable()) {
        const iovec piece = window(side.source, sent[i], i);
        const size_t wrote = *side.out[i]->Write({&piece, 1});
        sent[i] += wrote;
        moved = moved || wrote > 0;
      }
      if (received[i] < share && side.in[i]->readable()) {
        const iovec piece = window(side.target, received[i], i);
        const size_t got = *side.in[i]->Read({&piece, 1});
        received[i] += got;
        moved = moved || got > 0;
      }
      done = done && sent[i] == share && received[i] == share;
    }
    if (done) return;
    if (!moved) side.Idle(idle);
  }
}

double Seconds(Side& side, int connections, const std::function<void()>& exchange) {
  SystemClock clock;
  side.Open(connections);
  const MonotonicNs start = clock.Now();
  exchange();
  const MonotonicNs end = clock.Now();
  side.Close();
  return static_cast<double>(end - start) / kNsPerSec;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int RunOnTwoSides(int buffer_bytes, const std::function<void(Side&)>& run) {
  int fds[2];
  MCCS_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const pid_t child = fork();
  MCCS_CHECK(child >= 0);
  Side side(child != 0, fds[child != 0 ? 0 : 1], buffer_bytes);
  close(fds[child != 0 ? 1 : 0]);
  run(side);
  if (child == 0) return 0;
  int status = 0;
  MCCS_CHECK(waitpid(child, &status, 0) == child);
  return status == 0 ? 0 : 1;
}

}  // namespace mccs

// The lower limit of a small all-reduce between two hosts: as many processes as MCCS has there pass
// eight bytes along, with sockets and blocking calls.
//
//   program ──── daemon ════ daemon ──── program        ── Unix socket   ══ TCP over loopback
//
// Prints the microseconds from one end to the other: half of a round trip.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace {

constexpr int kProcesses = 4;
constexpr int kWarmup = 200;

using Ends = std::array<int, 2>;

Ends UnixPair() {
  Ends ends;
  MCCS_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  return ends;
}

void SendAtOnce(int socket) {
  const int on = 1;
  MCCS_CHECK(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
}

Ends TcpPair() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  MCCS_CHECK(listener >= 0 && bind(listener, any, length) == 0 && listen(listener, 1) == 0);
  MCCS_CHECK(getsockname(listener, any, &length) == 0);
  const int first = socket(AF_INET, SOCK_STREAM, 0);
  MCCS_CHECK(first >= 0 && connect(first, any, length) == 0);
  const int second = accept(listener, nullptr, nullptr);
  MCCS_CHECK(second >= 0);
  close(listener);
  SendAtOnce(first);
  SendAtOnce(second);
  return {first, second};
}

// Returns false when the other end is gone.
bool Receive(int from, uint64_t* word) {
  return recv(from, word, sizeof(*word), MSG_WAITALL) == sizeof(*word);
}
bool Send(int to, uint64_t word) {
  return send(to, &word, sizeof(word), MSG_NOSIGNAL) == sizeof(word);
}

// A process in the middle, until one end is gone.
void Forward(int left, int right) {
  uint64_t word;
  while (Receive(left, &word) && Send(right, word) && Receive(right, &word) && Send(left, word)) {
  }
}

// The last process.
void Answer(int left) {
  uint64_t word;
  while (Receive(left, &word) && Send(left, word)) {
  }
}

void RoundTrips(int right, int count) {
  for (int i = 0; i < count; ++i) {
    uint64_t word = static_cast<uint64_t>(i);
    MCCS_CHECK(Send(right, word) && Receive(right, &word));
    MCCS_CHECK(word == static_cast<uint64_t>(i));
  }
}

void Run(int count) {
  const std::array<Ends, kProcesses - 1> links = {UnixPair(), TcpPair(), UnixPair()};
  for (int p = 1; p < kProcesses; ++p) {
    const pid_t child = fork();
    MCCS_CHECK(child >= 0);
    if (child > 0) continue;
    const auto at = static_cast<size_t>(p);
    for (size_t i = 0; i < links.size(); ++i) {
      if (i + 1 != at) close(links[i][1]);
      if (i != at) close(links[i][0]);
    }
    if (p + 1 < kProcesses) {
      Forward(links[at - 1][1], links[at][0]);
    } else {
      Answer(links[at - 1][1]);
    }
    _exit(0);
  }
  for (size_t i = 0; i < links.size(); ++i) {
    close(links[i][1]);
    if (i > 0) close(links[i][0]);
  }
  RoundTrips(links[0][0], kWarmup);
  const auto begin = std::chrono::steady_clock::now();
  RoundTrips(links[0][0], count);
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - begin;
  std::printf("%.3f\n", elapsed.count() / count / 2);
  close(links[0][0]);
  while (wait(nullptr) > 0) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  CLI::App app("Four processes pass eight bytes along: microseconds from the first to the last");
  app.add_option("round_trips", count)->required()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  Run(count);
}

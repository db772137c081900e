// Two processes that exchange bytes over loopback connections: the frame of lane_bench, and the
// bare exchange with which benchmarks compare lanes and all-reduces.
//
// THREAD: one per side.
#ifndef MCCS_BENCH_EXCHANGE_SIDE_H_
#define MCCS_BENCH_EXCHANGE_SIDE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/reactor.h"
#include "base/units.h"
#include "service/transport/socket_network.h"

namespace mccs {

inline constexpr size_t kBufferBytes = 16 * kMiB;
// Bytes per call of the bare exchange, whose rate depends on it; benchmarks use the best one.
inline constexpr size_t kBareCalls[] = {64 * kKiB, 256 * kKiB, kMiB};

// One of the two processes: its ends of the connections, and a barrier with the other process.
class Side {
 public:
  Side(bool first, int barrier_fd, int buffer_bytes);

  void Barrier() const;
  // Opens `count` connections per direction; the sending side connects.
  void Open(int count);
  void Close();
  // Idles as an engine does without work: polls, and yields the processor every few calls.
  void Idle(int& idle);

  bool first() const { return first_; }

  std::vector<std::unique_ptr<Connection>> out;
  std::vector<std::unique_ptr<Connection>> in;
  std::vector<std::byte> source = std::vector<std::byte>(kBufferBytes, std::byte{1});
  std::vector<std::byte> target = std::vector<std::byte>(kBufferBytes, std::byte{2});

 private:
  const bool first_;
  const int barrier_fd_;
  std::unique_ptr<Reactor> reactor_ = *Reactor::Create();
  SocketNetwork network_;
};

// Exchanges `bytes` per direction over the side's open connections with sendmsg and recvmsg,
// `call_bytes` at a time.
void ExchangeBare(Side& side, size_t bytes, size_t call_bytes);

// Seconds of `exchange` over `connections` new connections per direction.
double Seconds(Side& side, int connections, const std::function<void()>& exchange);

double Median(std::vector<double> values);

// Runs `run` on both sides, one of them in a child process. Returns the exit status.
int RunOnTwoSides(int buffer_bytes, const std::function<void(Side&)>& run);

}  // namespace mccs

#endif  // MCCS_BENCH_EXCHANGE_SIDE_H_

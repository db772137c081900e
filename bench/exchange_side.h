// Two processes that exchange bytes over loopback connections: what lane_bench measures lanes with,
// and the bare exchange that lanes and all-reduces are compared with.
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
// The bare exchange depends on how much it hands to one call: the best counts.
inline constexpr size_t kBareCalls[] = {64 * kKiB, 256 * kKiB, kMiB};

// One of the two processes: its ends of the connections, and a word with the other.
class Side {
 public:
  Side(bool first, int barrier_fd, int buffer_bytes);

  void Barrier() const;
  // Opens `count` connections each way; the sending side opens.
  void Open(int count);
  void Close();
  // What an engine does when nothing moved: looks again a few times, then lets others run.
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

// `bytes` each way over the side's open connections with nothing but sendmsg and recvmsg,
// `call_bytes` at a time.
void ExchangeBare(Side& side, size_t bytes, size_t call_bytes);

// Seconds of `exchange` over `connections` fresh ones each way.
double Seconds(Side& side, int connections, const std::function<void()>& exchange);

double Median(std::vector<double> values);

// Runs `run` on the two sides, one of them in a child process. Returns the exit status.
int RunOnTwoSides(int buffer_bytes, const std::function<void(Side&)>& run);

}  // namespace mccs

#endif  // MCCS_BENCH_EXCHANGE_SIDE_H_

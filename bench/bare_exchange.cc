// Two processes send each other as many bytes at the same time, with nothing but sendmsg and
// recvmsg over loopback. Prints the microseconds of one exchange, for each size of calls of
// kBareCalls.
//
//   bare_exchange BYTES ITERATIONS CONNECTIONS     (bytes of one exchange each way; connections
//   each way)
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/exchange_side.h"

namespace mccs {
namespace {

struct Load {
  size_t bytes;
  int iterations;
  int connections;
};

void Run(Side& side, const Load& load) {
  for (size_t call_bytes : kBareCalls) {
    const double seconds = Seconds(side, load.connections, [&] {
      ExchangeBare(side, load.bytes * static_cast<size_t>(load.iterations), call_bytes);
    });
    if (side.first()) std::printf("%.3f\n", seconds / load.iterations * 1e6);
  }
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bare_exchange BYTES ITERATIONS CONNECTIONS\n");
    return 2;
  }
  const mccs::Load load{.bytes = std::strtoull(argv[1], nullptr, 10),
                        .iterations = std::max(1, std::atoi(argv[2])),
                        .connections = std::max(1, std::atoi(argv[3]))};
  return mccs::RunOnTwoSides(0, [&](mccs::Side& side) { mccs::Run(side, load); });
}

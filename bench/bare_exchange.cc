// Two processes simultaneously send each other the same number of bytes with sendmsg and recvmsg
// over loopback. Prints the microseconds of one exchange for each call size in kBareCalls.
#include <CLI/CLI.hpp>
#include <cstdio>

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
  CLI::App app("Two processes exchange bytes over loopback sockets: microseconds of one exchange");
  mccs::Load load{};
  app.add_option("bytes", load.bytes, "bytes of one exchange, per direction")->required();
  app.add_option("iterations", load.iterations)->required()->check(CLI::PositiveNumber);
  app.add_option("connections", load.connections, "number of connections per direction")
      ->required()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return mccs::RunOnTwoSides(0, [&](mccs::Side& side) { mccs::Run(side, load); });
}

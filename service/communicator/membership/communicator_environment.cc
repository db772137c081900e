#include "service/communicator/membership/communicator_environment.h"

namespace mccs {

Strategy DefaultStrategy(const CommunicatorEnvironment& environment, int hosts) {
  Strategy strategy;
  strategy.origin = "daemon default (locality order)";
  strategy.lanes = environment.lanes;
  strategy.skew = environment.skew;
  strategy.algorithms = environment.algorithms;
  // One host needs no lanes, and one channel keeps all its workers busy.
  const int channels = hosts == 1 ? 1 : environment.channels;
  for (int c = 0; c < channels; ++c) {
    ChannelStrategy& channel = strategy.channels.emplace_back();
    for (int h = 0; h < hosts; ++h) channel.ring.push_back(HostIndex(h));
  }
  return strategy;
}

}  // namespace mccs

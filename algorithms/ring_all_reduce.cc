// All-reduce: reduce-scatter over the hosts' blocks, then all-gather of the sums.
//
// Block h starts at host h (its local ranks' inputs), accumulates the inputs of each host on its
// path, and is complete at the host before h: H−1 hops. From there the sum travels around the ring
// once more, H−1 hops; on each host it lands in the first local rank's output, is forwarded from
// there and copied to the other ranks. The order of accumulation is that of the ring, then of the
// local ranks. Each sum is computed at one host only, so all ranks have the same bits.
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"
#include "algorithms/ring.h"

namespace mccs {
namespace {

int32_t BlockOf(HostIndex host) { return host.value(); }

}  // namespace

Program RingAllReduce(const Ring& ring, bool scaled) {
  const int hosts = ring.hosts();
  const LocalRanks local(ring.local());
  ProgramBuilder program(ring.channel());

  // Hop 0: the block of this host starts. A single unscaled input needs no staging.
  const int32_t own = BlockOf(ring.HostAtDistance(0));
  if (local.count() == 1 && !scaled) {
    program.Send(ring.next(), {LocalRanks::Input(0, own)}, {});
  } else {
    program.SendStaged(ring.next(), {{.sources = local.Inputs(own), .block = own}}, {});
  }
  uint16_t receive = program.ReceiveInSlot(ring.previous(), {BlockOf(ring.HostAtDistance(1))});

  for (int hop = 1; hop <= hosts - 2; ++hop) {
    program.BeginStage(hop);
    const int32_t block = BlockOf(ring.HostAtDistance(hop));
    const Place received = ProgramBuilder::Received(receive, 0, block);
    program.SendStaged(ring.next(), {{.sources = local.WithReceived(received), .block = block}},
                       {receive});
    receive = program.ReceiveInSlot(ring.previous(), {BlockOf(ring.HostAtDistance(hop + 1))});
  }

  // The block of the next host is completed here and starts its second pass.
  program.BeginStage(hosts - 1);
  int32_t block = BlockOf(ring.HostAtDistance(hosts - 1));
  const uint16_t whole =
      program.Combines({{.sources = local.WithReceived(ProgramBuilder::Received(receive, 0, block)),
                         .destinations = local.Outputs(block),
                         .finish = true}},
                       {receive});
  program.Send(ring.next(), {LocalRanks::Output(0, block)}, {whole});

  for (int hop = hosts - 1; hop <= 2 * hosts - 3; ++hop) {
    block = BlockOf(ring.HostAtDistance(hop + 1 - hosts));
    receive = program.ReceiveInto(ring.previous(), {LocalRanks::Output(0, block)});
    program.BeginStage(hop + 1);
    if (hop < 2 * hosts - 3) program.Send(ring.next(), {LocalRanks::Output(0, block)}, {receive});
    if (local.count() > 1) {
      program.Combines(
          {{.sources = {LocalRanks::Output(0, block)}, .destinations = local.OtherOutputs(block)}},
          {receive});
    }
  }
  return program.Take();
}

}  // namespace mccs

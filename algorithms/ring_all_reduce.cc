// All-reduce: reduce-scatter over the hosts' blocks, then all-gather of the sums.
//
// Block h begins at host h (its local ranks' inputs), takes up the inputs of each host that it
// passes, and is whole at the host before h: H−1 hops. From there the sum goes round once more, H−1
// hops; each host lets it land in its first local rank's output, sends it on from there and copies
// it to its other ranks. The order of accumulation is that of the ring, then of the local ranks,
// and a sum is made at one host only: so all ranks have the same bits.
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

  // Hop 0: the block of this host begins its way. A single unscaled input needs no staging.
  const int32_t own = BlockOf(ring.Behind(0));
  if (local.count() == 1 && !scaled) {
    program.Send(ring.next(), {LocalRanks::Input(0, own)}, {});
  } else {
    program.SendStaged(ring.next(), {{.sources = local.Inputs(own), .block = own}}, {});
  }
  uint16_t receive = program.ReceiveInSlot(ring.previous(), {BlockOf(ring.Behind(1))});

  for (int hop = 1; hop <= hosts - 2; ++hop) {
    program.BeginStage(hop);
    const int32_t block = BlockOf(ring.Behind(hop));
    const Place received = ProgramBuilder::Received(receive, 0, block);
    program.SendStaged(ring.next(), {{.sources = local.AddedTo(received), .block = block}},
                       {receive});
    receive = program.ReceiveInSlot(ring.previous(), {BlockOf(ring.Behind(hop + 1))});
  }

  // The block of the next host becomes whole here and sets out for its second round.
  program.BeginStage(hosts - 1);
  int32_t block = BlockOf(ring.Behind(hosts - 1));
  const uint16_t whole =
      program.Combines({{.sources = local.AddedTo(ProgramBuilder::Received(receive, 0, block)),
                         .destinations = local.Outputs(block),
                         .finish = true}},
                       {receive});
  program.Send(ring.next(), {LocalRanks::Output(0, block)}, {whole});

  for (int hop = hosts - 1; hop <= 2 * hosts - 3; ++hop) {
    block = BlockOf(ring.Behind(hop + 1 - hosts));
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

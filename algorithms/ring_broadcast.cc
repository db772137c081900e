// Broadcast: a pipeline along the ring from the root's host to the host before it.
//
// The root's host sends from the root's input. On the others slices land in the first local rank's
// output, are forwarded from there, and are copied to the other ranks.
#include "algorithms/plan_builder.h"
#include "algorithms/ring.h"

namespace mccs {

Program RingBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local) {
  const LocalRanks local(ring.local());
  const int hops = ring.HopsFrom(root_host);
  ProgramBuilder program(ring.channel());
  if (hops == 0) {
    const Place root = LocalRanks::Input(static_cast<uint16_t>(root_local.value()), 0);
    program.Send(ring.next(), {root}, {});
    program.Combines({{.sources = {root}, .destinations = local.Outputs(0)}}, {});
    return program.Take();
  }
  program.BeginStage(hops - 1);
  const uint16_t receive = program.ReceiveInto(ring.previous(), {LocalRanks::Output(0, 0)});
  program.BeginStage(hops);
  if (hops < ring.hosts() - 1) program.Send(ring.next(), {LocalRanks::Output(0, 0)}, {receive});
  if (local.count() > 1) {
    program.Combines(
        {{.sources = {LocalRanks::Output(0, 0)}, .destinations = local.OtherOutputs(0)}},
        {receive});
  }
  return program.Take();
}

}  // namespace mccs

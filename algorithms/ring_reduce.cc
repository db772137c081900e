// Reduce: a pipeline along the ring from the host after the root's to the root's host.
//
// A slice starts with the inputs of the host after the root's and accumulates those of each host on
// its path; the root's host adds its own directly into the root's output.
#include <vector>

#include "algorithms/plan_builder.h"
#include "algorithms/ring.h"

namespace mccs {

Program RingReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled) {
  const LocalRanks local(ring.local());
  // Hops that the data has made when this host sends it on, or when it ends.
  const int hops = (ring.HopsFrom(root_host) + ring.hosts() - 1) % ring.hosts();
  ProgramBuilder program(ring.channel());
  if (hops == 0) {
    if (local.count() == 1 && !scaled) {
      program.Send(ring.next(), {LocalRanks::Input(0, 0)}, {});
    } else {
      program.SendStaged(ring.next(), {{.sources = local.Inputs(0), .block = 0}}, {});
    }
    return program.Take();
  }
  program.BeginStage(hops - 1);
  const uint16_t receive = program.ReceiveInSlot(ring.previous(), {0});
  const std::vector<Place> sources = local.WithReceived(ProgramBuilder::Received(receive, 0, 0));
  program.BeginStage(hops);
  if (hops < ring.hosts() - 1) {
    program.SendStaged(ring.next(), {{.sources = sources, .block = 0}}, {receive});
  } else {
    const Place output = LocalRanks::Output(static_cast<uint16_t>(root_local.value()), 0);
    program.Combines({{.sources = sources, .destinations = {output}, .finish = true}}, {receive});
  }
  return program.Take();
}

}  // namespace mccs

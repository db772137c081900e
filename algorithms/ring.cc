// Reduce-scatter: the share of each target host travels around the ring once and ends there.
//
// A slice has one piece per rank of its target host. It starts at the host after the target and
// accumulates the inputs of each host on its path; the target adds its own directly into its ranks'
// outputs.
#include "algorithms/ring.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"

namespace mccs {

Ring::Ring(const Layout& layout, const std::vector<HostIndex>& order, ChannelId channel,
           HostIndex self, LocalIndex home)
    : layout_(layout),
      order_(order),
      channel_(channel),
      position_(static_cast<int>(std::find(order.begin(), order.end(), self) - order.begin())),
      home_(home) {}

HostIndex Ring::HostAtDistance(int hops) const {
  return order_[static_cast<size_t>((position_ - hops + hosts()) % hosts())];
}

int Ring::HopsFrom(HostIndex from) const {
  const int other =
      static_cast<int>(std::find(order_.begin(), order_.end(), from) - order_.begin());
  return (position_ - other + hosts()) % hosts();
}

// Reduce-scatter: the share of each target host travels around the ring once and ends there.
//
// A slice has one piece per rank of its target host. It starts at the host after the target and
// accumulates the inputs of each host on its path; the target adds its own directly into its ranks'
// outputs.
namespace {

// The blocks of the ranks of `target`: the pieces of its slices.
std::vector<int32_t> BlocksOf(const Ring& ring, HostIndex target) {
  std::vector<int32_t> blocks;
  for (Rank rank : ring.RanksOf(target)) blocks.push_back(rank.value());
  return blocks;
}

void SendFirst(ProgramBuilder& program, const Ring& ring, bool scaled) {
  const LocalRanks local(ring.local(), ring.home());
  const std::vector<int32_t> blocks = BlocksOf(ring, ring.HostAtDistance(1));
  if (local.count() == 1 && !scaled) {
    std::vector<Place> pieces;
    for (int32_t block : blocks) pieces.push_back(LocalRanks::Input(0, block));
    program.Send(ring.next(), std::move(pieces), {});
    return;
  }
  std::vector<ProgramBuilder::Piece> pieces;
  for (int32_t block : blocks) pieces.push_back({.sources = local.Inputs(block), .block = block});
  program.SendStaged(ring.next(), std::move(pieces), {});
}

}  // namespace

Program RingReduceScatter(const PlanKey& key, const Ring& ring) {
  const int hosts = ring.hosts();
  const LocalRanks local(ring.local(), ring.home());
  ProgramBuilder program(ring.channel(), key.packed ? Packing::kBlocks : Packing::kNone);

  SendFirst(program, ring, key.scaled);
  std::vector<int32_t> blocks = BlocksOf(ring, ring.HostAtDistance(2));
  uint16_t receive = program.ReceiveInSlot(ring.previous(), blocks);

  for (int hop = 1; hop <= hosts - 2; ++hop) {
    program.BeginStage(hop);
    std::vector<ProgramBuilder::Piece> pieces;
    for (uint16_t p = 0; p < blocks.size(); ++p) {
      const Place received = ProgramBuilder::Received(receive, p, blocks[p]);
      pieces.push_back({.sources = local.WithReceived(received), .block = blocks[p]});
    }
    program.SendStaged(ring.next(), std::move(pieces), {receive});
    blocks = BlocksOf(ring, ring.HostAtDistance(hop + 2));
    receive = program.ReceiveInSlot(ring.previous(), blocks);
  }

  program.BeginStage(hosts - 1);
  std::vector<Combine> whole;
  for (uint16_t p = 0; p < blocks.size(); ++p) {
    whole.push_back({.sources = local.WithReceived(ProgramBuilder::Received(receive, p, blocks[p])),
                     .destinations = {LocalRanks::Output(p, blocks[p])},
                     .finish = true});
  }
  program.Combines(std::move(whole), {receive});
  return program.Take();
}

// All-gather: each host's inputs travel around the ring once, one piece per rank of the source
// host.
//
// The source host sends from its ranks' inputs. On the others slices land in the output of the home
// rank, are forwarded from there, and are copied to the other local ranks.
namespace {

// The places of the blocks of `origin` in the home rank's output.
std::vector<Place> Landing(const Ring& ring, HostIndex origin) {
  const LocalRanks local(ring.local(), ring.home());
  std::vector<Place> places;
  for (Rank rank : ring.RanksOf(origin)) places.push_back(local.Landing(rank.value()));
  return places;
}

}  // namespace

Program RingAllGather(const PlanKey& key, const Ring& ring) {
  const int hosts = ring.hosts();
  const LocalRanks local(ring.local(), ring.home());
  ProgramBuilder program(ring.channel(), key.packed ? Packing::kBlocks : Packing::kNone);

  std::vector<Place> inputs;
  std::vector<Combine> copies;
  for (uint16_t i = 0; i < local.count(); ++i) {
    const Place input = LocalRanks::Input(i, local.BlockOf(i));
    inputs.push_back(input);
    copies.push_back({.sources = {input}, .destinations = local.Outputs(input.block)});
  }
  program.Send(ring.next(), std::move(inputs), {});

  for (int hop = 0; hop <= hosts - 2; ++hop) {
    std::vector<Place> landing = Landing(ring, ring.HostAtDistance(hop + 1));
    const uint16_t receive = program.ReceiveInto(ring.previous(), landing);
    if (hop == 0) program.Combines(std::move(copies), {});
    program.BeginStage(hop + 1);
    if (hop < hosts - 2) program.Send(ring.next(), landing, {receive});
    if (local.count() == 1) continue;
    std::vector<Combine> spread;
    for (const Place& place : landing) {
      spread.push_back({.sources = {place}, .destinations = local.OtherOutputs(place.block)});
    }
    program.Combines(std::move(spread), {receive});
  }
  return program.Take();
}

// All-reduce: reduce-scatter over the hosts' blocks, then all-gather of the sums.
//
// Block h starts at host h (its local ranks' inputs), accumulates the inputs of each host on its
// path, and is complete at the host before h: H−1 hops. From there the sum travels around the ring
// once more, H−1 hops; on each host it lands in the home rank's output, is forwarded from
// there and copied to the other ranks. The order of accumulation is that of the ring, then of the
// local ranks. Each sum is computed at one host only, so all ranks have the same bits.
namespace {

int32_t BlockOf(HostIndex host) { return host.value(); }

}  // namespace

Program RingAllReduce(const Ring& ring, bool scaled) {
  const int hosts = ring.hosts();
  const LocalRanks local(ring.local(), ring.home());
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
  program.Send(ring.next(), {local.Landing(block)}, {whole});

  for (int hop = hosts - 1; hop <= 2 * hosts - 3; ++hop) {
    block = BlockOf(ring.HostAtDistance(hop + 1 - hosts));
    receive = program.ReceiveInto(ring.previous(), {local.Landing(block)});
    program.BeginStage(hop + 1);
    if (hop < 2 * hosts - 3) program.Send(ring.next(), {local.Landing(block)}, {receive});
    if (local.count() > 1) {
      program.Combines(
          {{.sources = {local.Landing(block)}, .destinations = local.OtherOutputs(block)}},
          {receive});
    }
  }
  return program.Take();
}

// Broadcast: a pipeline along the ring from the root's host to the host before it.
//
// The root's host sends from the root's input. On the others slices land in the home rank's output,
// are forwarded from there, and are copied to the other ranks.
Program RingBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local) {
  const LocalRanks local(ring.local(), ring.home());
  const int hops = ring.HopsFrom(root_host);
  ProgramBuilder program(ring.channel());
  if (hops == 0) {
    const Place root = LocalRanks::Input(static_cast<uint16_t>(root_local.value()), 0);
    program.Send(ring.next(), {root}, {});
    program.Combines({{.sources = {root}, .destinations = local.Outputs(0)}}, {});
    return program.Take();
  }
  program.BeginStage(hops - 1);
  const uint16_t receive = program.ReceiveInto(ring.previous(), {local.Landing(0)});
  program.BeginStage(hops);
  if (hops < ring.hosts() - 1) program.Send(ring.next(), {local.Landing(0)}, {receive});
  if (local.count() > 1) {
    program.Combines({{.sources = {local.Landing(0)}, .destinations = local.OtherOutputs(0)}},
                     {receive});
  }
  return program.Take();
}

// Reduce: a pipeline along the ring from the host after the root's to the root's host.
//
// A slice starts with the inputs of the host after the root's and accumulates those of each host on
// its path; the root's host adds its own directly into the root's output.
Program RingReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled) {
  const LocalRanks local(ring.local(), ring.home());
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

// One host: each output is one combine of the local ranks' inputs, in one memory pass.
namespace {

uint16_t PositionOf(Rank rank, const std::vector<Rank>& ranks) {
  return static_cast<uint16_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

Program LocalProgram(const PlanKey& key, const std::vector<Rank>& ranks, ChannelId channel) {
  const LocalRanks local(ranks);
  std::vector<Combine> combines;
  switch (key.kind) {
    case OpKind::kAllReduce:
      combines.push_back(
          {.sources = local.Inputs(0), .destinations = local.Outputs(0), .finish = true});
      break;
    case OpKind::kReduceScatter:
      for (uint16_t i = 0; i < local.count(); ++i) {
        const int32_t block = local.BlockOf(i);
        combines.push_back({.sources = local.Inputs(block),
                            .destinations = {LocalRanks::Output(i, block)},
                            .finish = true});
      }
      break;
    case OpKind::kAllGather:
      for (uint16_t i = 0; i < local.count(); ++i) {
        const int32_t block = local.BlockOf(i);
        combines.push_back(
            {.sources = {LocalRanks::Input(i, block)}, .destinations = local.Outputs(block)});
      }
      break;
    case OpKind::kReduce:
      combines.push_back({.sources = local.Inputs(0),
                          .destinations = {LocalRanks::Output(PositionOf(key.root, ranks), 0)},
                          .finish = true});
      break;
    default:  // Broadcast.
      combines.push_back({.sources = {LocalRanks::Input(PositionOf(key.root, ranks), 0)},
                          .destinations = local.Outputs(0)});
  }
  ProgramBuilder program(channel);
  program.Combines(std::move(combines), {});
  return program.Take();
}

}  // namespace mccs

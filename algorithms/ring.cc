#include "algorithms/ring.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"

namespace mccs {

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

class ReduceScatterBuild final : public ProgramInParts {
 public:
  ReduceScatterBuild(const PlanKey& key, const Ring& ring)
      : ProgramInParts(ring, key.packed ? Packing::kBlocks : Packing::kNone), scaled_(key.scaled) {}

  bool done() const override { return hop_ == ring_.hosts(); }
  void BuildNext() override {
    program_.BeginStage(hop_);
    if (hop_ == ring_.hosts() - 1) {
      AddIntoOutputs();
    } else {
      if (hop_ == 0) {
        SendFirst();
      } else {
        SendOn();
      }
      blocks_ = BlocksOf(ring_, ring_.HostAtDistance((hop_ + 2) % ring_.hosts()));
      receive_ = program_.ReceiveInSlot(ring_.previous(), blocks_);
    }
    ++hop_;
  }

 private:
  void SendFirst() {
    const std::vector<int32_t> blocks = BlocksOf(ring_, ring_.HostAtDistance(1));
    if (local_.count() == 1 && !scaled_) {
      std::vector<Place> pieces;
      for (int32_t block : blocks) pieces.push_back(LocalRanks::Input(0, block));
      program_.Send(ring_.next(), std::move(pieces), {});
      return;
    }
    std::vector<ProgramBuilder::Piece> pieces;
    for (int32_t block : blocks)
      pieces.push_back({.sources = local_.Inputs(block), .block = block});
    program_.SendStaged(ring_.next(), std::move(pieces), {});
  }
  void SendOn() {
    std::vector<ProgramBuilder::Piece> pieces;
    pieces.reserve(blocks_.size());
    for (uint16_t p = 0; p < blocks_.size(); ++p) {
      pieces.push_back({.sources = SumOf(p), .block = blocks_[p]});
    }
    program_.SendStaged(ring_.next(), std::move(pieces), {receive_});
  }
  void AddIntoOutputs() {
    std::vector<Combine> whole;
    for (uint16_t p = 0; p < blocks_.size(); ++p) {
      whole.push_back({.sources = SumOf(p),
                       .destinations = {LocalRanks::Output(p, blocks_[p])},
                       .finish = true});
    }
    program_.Combines(std::move(whole), {receive_});
  }
  // Of a received piece.
  PlaceList SumOf(uint16_t piece) const {
    return local_.WithReceived(ProgramBuilder::Received(receive_, piece, blocks_[piece]));
  }

  const bool scaled_;
  int hop_ = 0;
  std::vector<int32_t> blocks_;  // received last
  uint16_t receive_ = 0;         // the step that received them
};

}  // namespace

std::unique_ptr<ProgramBuild> RingReduceScatter(const PlanKey& key, const Ring& ring) {
  return std::make_unique<ReduceScatterBuild>(key, ring);
}

// All-gather: each host's inputs travel around the ring once, one piece per rank of the source
// host.
//
// The source host sends from its ranks' inputs. On the others slices land in the output of the home
// rank, are forwarded from there, and are copied to the other local ranks.
namespace {

class AllGatherBuild final : public ProgramInParts {
 public:
  AllGatherBuild(const PlanKey& key, const Ring& ring)
      : ProgramInParts(ring, key.packed ? Packing::kBlocks : Packing::kNone) {}

  bool done() const override { return hop_ == ring_.hosts() - 1; }
  void BuildNext() override {
    if (hop_ == 0) SendInputs();
    const std::vector<Place> landing = Landing(ring_.HostAtDistance(hop_ + 1));
    const uint16_t receive = program_.ReceiveInto(ring_.previous(), landing);
    if (hop_ == 0) CopyInputs();
    ++hop_;
    program_.BeginStage(hop_);
    if (!done()) program_.Send(ring_.next(), landing, {receive});
    if (local_.count() == 1) return;
    std::vector<Combine> spread;
    spread.reserve(landing.size());
    for (const Place& place : landing) {
      spread.push_back({.sources = {place}, .destinations = local_.OtherOutputs(place.block)});
    }
    program_.Combines(std::move(spread), {receive});
  }

 private:
  Place OwnInput(uint16_t local) const { return LocalRanks::Input(local, local_.BlockOf(local)); }
  void SendInputs() {
    std::vector<Place> inputs;
    for (uint16_t i = 0; i < local_.count(); ++i) inputs.push_back(OwnInput(i));
    program_.Send(ring_.next(), std::move(inputs), {});
  }
  void CopyInputs() {
    std::vector<Combine> copies;
    for (uint16_t i = 0; i < local_.count(); ++i) {
      const Place input = OwnInput(i);
      copies.push_back({.sources = {input}, .destinations = local_.Outputs(input.block)});
    }
    program_.Combines(std::move(copies), {});
  }
  // The places of the blocks of `origin` in the home rank's output.
  std::vector<Place> Landing(HostIndex origin) const {
    std::vector<Place> places;
    for (Rank rank : ring_.RanksOf(origin)) places.push_back(local_.Landing(rank.value()));
    return places;
  }

  int hop_ = 0;
};

}  // namespace

std::unique_ptr<ProgramBuild> RingAllGather(const PlanKey& key, const Ring& ring) {
  return std::make_unique<AllGatherBuild>(key, ring);
}

// All-reduce: reduce-scatter over the hosts' blocks, then all-gather of the sums.
//
// Block h starts at host h (its local ranks' inputs), accumulates the inputs of each host on its
// path, and is complete at the host before h: H−1 hops. From there the sum travels around the ring
// once more, H−1 hops; on each host it lands in the home rank's output, is forwarded from
// there and copied to the other ranks. The order of accumulation is that of the ring, then of the
// local ranks. Each sum is computed at one host only, so all ranks have the same bits.
namespace {

class AllReduceBuild final : public ProgramInParts {
 public:
  AllReduceBuild(const Ring& ring, bool scaled) : ProgramInParts(ring), scaled_(scaled) {}

  bool done() const override { return hop_ == 2 * ring_.hosts() - 1; }
  void BuildNext() override {
    program_.BeginStage(hop_);
    if (hop_ < ring_.hosts() - 1) {
      SendSum();
      receive_ = program_.ReceiveInSlot(ring_.previous(), {BlockOf(hop_ + 1)});
    } else {
      if (hop_ == ring_.hosts() - 1) {
        CompleteSum();
      } else {
        PassOn();
      }
      if (hop_ < 2 * ring_.hosts() - 2) {
        const Place landing = local_.Landing(BlockOf(hop_ + 1));
        receive_ = program_.ReceiveInto(ring_.previous(), {landing});
      }
    }
    ++hop_;
  }

 private:
  // The block that this host sends in a hop: that of the host `hop` before it.
  int32_t BlockOf(int hop) const { return ring_.HostAtDistance(hop % ring_.hosts()).value(); }
  PlaceList Sum() const {
    return local_.WithReceived(ProgramBuilder::Received(receive_, 0, BlockOf(hop_)));
  }

  // Hop 0: the block of this host starts. A single unscaled input needs no staging.
  void SendSum() {
    const int32_t block = BlockOf(hop_);
    if (hop_ == 0 && local_.count() == 1 && !scaled_) {
      program_.Send(ring_.next(), {LocalRanks::Input(0, block)}, {});
    } else if (hop_ == 0) {
      program_.SendStaged(ring_.next(), {{.sources = local_.Inputs(block), .block = block}}, {});
    } else {
      program_.SendStaged(ring_.next(), {{.sources = Sum(), .block = block}}, {receive_});
    }
  }
  // The block of the next host is completed here and starts its second pass.
  void CompleteSum() {
    const int32_t block = BlockOf(hop_);
    const uint16_t whole = program_.Combines(
        {{.sources = Sum(), .destinations = local_.Outputs(block), .finish = true}}, {receive_});
    program_.Send(ring_.next(), {local_.Landing(block)}, {whole});
  }
  void PassOn() {
    const int32_t block = BlockOf(hop_);
    const bool last = hop_ == 2 * ring_.hosts() - 2;
    if (!last) program_.Send(ring_.next(), {local_.Landing(block)}, {receive_});
    if (local_.count() == 1) return;
    program_.Combines(
        {{.sources = {local_.Landing(block)}, .destinations = local_.OtherOutputs(block)}},
        {receive_});
  }

  const bool scaled_;
  int hop_ = 0;
  uint16_t receive_ = 0;  // the step that received the block of this hop
};

}  // namespace

std::unique_ptr<ProgramBuild> RingAllReduce(const Ring& ring, bool scaled) {
  return std::make_unique<AllReduceBuild>(ring, scaled);
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
  const PlaceList sources = local.WithReceived(ProgramBuilder::Received(receive, 0, 0));
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

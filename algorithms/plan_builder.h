// Shared by the builders of plans: the places of one host's ranks, and a program to which steps are
// appended.
#ifndef MCCS_ALGORITHMS_PLAN_BUILDER_H_
#define MCCS_ALGORITHMS_PLAN_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

// The ranks of the plan's host. `home`: in whose output slices land (ChannelOrders).
class LocalRanks {
 public:
  explicit LocalRanks(const std::vector<Rank>& ranks, LocalIndex home = LocalIndex(0))
      : ranks_(ranks), home_(static_cast<uint16_t>(home.value())) {}

  uint16_t count() const { return static_cast<uint16_t>(ranks_.size()); }
  // The block of a local rank, for buffers with a block per rank.
  int32_t BlockOf(uint16_t local) const { return ranks_[local].value(); }
  static Place Input(uint16_t local, int32_t block) { return {Space::kInput, local, 0, block}; }
  static Place Output(uint16_t local, int32_t block) { return {Space::kOutput, local, 0, block}; }
  // The same block of each local rank, ascending.
  PlaceList Inputs(int32_t block) const;
  // The received place, then each local rank's contribution to the same block.
  PlaceList WithReceived(Place received) const;
  PlaceList Outputs(int32_t block) const;
  // The output of the home rank, and the others.
  Place Landing(int32_t block) const { return Output(home_, block); }
  PlaceList OtherOutputs(int32_t block) const;

 private:
  const std::vector<Rank>& ranks_;
  const uint16_t home_;
};

// Which slices go straight from and into buffers. The builder packs the others: it copies their
// pieces to a staging slot before it sends them, and from the receive slot after they landed.
enum class Packing : uint8_t {
  kNone,    // all: each part of a step has one piece
  kBlocks,  // those whose pieces are successive blocks of one buffer; a slice has whole blocks
  kSlices,  // those of one piece; a slice may have a part of each block
};

// Appends steps; each function returns the position of its (last) step, for use in `after`.
class ProgramBuilder {
 public:
  // The sources that are accumulated for one piece of a slice to send.
  struct Piece {
    PlaceList sources;
    int32_t block = 0;
  };

  explicit ProgramBuilder(ChannelId channel, Packing packing = Packing::kNone)
      : program_{.channel = channel, .steps = {}}, packing_(packing) {}

  // Sets the stage of the following steps. REQUIRES: not below the one before.
  void BeginStage(int stage);

  uint16_t Combines(std::vector<Combine> combines, std::vector<uint16_t> after);
  // From inputs and outputs, straight or packed.
  uint16_t Send(HostIndex to, std::vector<Place> pieces, std::vector<uint16_t> after);
  // Combines each piece in the send's staging slot, then sends it.
  uint16_t SendStaged(HostIndex to, std::vector<Piece> pieces, std::vector<uint16_t> after);
  struct StagedSend {
    HostIndex to;
    std::vector<Piece> pieces;
    std::vector<uint16_t> after;
  };
  // The same for several sends: first all combines, then all sends.
  void SendAllStaged(std::vector<StagedSend> sends);
  // Combines one piece in the staging slots of a send to each of `to`, and in `kept`; then sends
  // it. Returns the position of the combine.
  uint16_t SpreadStaged(const std::vector<HostIndex>& to, Piece piece, PlaceList kept);
  // Straight or packed.
  uint16_t ReceiveInto(HostIndex from, std::vector<Place> outputs);
  // Receives one piece per block; they stay in the slot.
  uint16_t ReceiveInSlot(HostIndex from, const std::vector<int32_t>& blocks);
  // A piece of the slot of the step that ReceiveInSlot returned.
  static Place Received(uint16_t step, uint16_t piece, int32_t block) {
    return {Space::kReceived, step, piece, block};
  }

  size_t size() const { return program_.steps.size(); }
  // The steps, combines and places so far: time and memory are proportional to them.
  uint64_t parts() const { return parts_; }
  // The plan's hops, if they are not the stages of its slices.
  void SetHops(int hops) { hops_ = hops; }

  Program Take();

 private:
  uint16_t next_position() const { return static_cast<uint16_t>(program_.steps.size()); }
  bool GoesStraight(const std::vector<Place>& pieces) const;
  uint16_t AppendSend(HostIndex to, std::vector<Place> pieces, std::vector<uint16_t> after);
  uint16_t AppendReceive(HostIndex from, std::vector<Place> pieces);
  uint16_t Append(Step step);

  Program program_;
  const Packing packing_;
  uint64_t parts_ = 0;
  uint16_t stage_ = 0;
  std::optional<int> hops_;
};

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PLAN_BUILDER_H_

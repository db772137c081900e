#include "algorithms/grid.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"

namespace mccs {

Grid::Grid(int hosts) : hosts_(hosts), columns_(1) {
  while (columns_ * columns_ < hosts) ++columns_;
}

int Grid::RowLength(int row) const { return std::min(columns_, hosts_ - row * columns_); }

int Grid::ColumnLength(int column) const {
  return rows() - (column < RowLength(rows() - 1) ? 0 : 1);
}

int Grid::Via(int from, int to) const {
  const bool exists = column(to) < RowLength(row(from));
  return exists ? row(from) * columns_ + column(to) : row(to) * columns_ + column(from);
}

GridShape GridShapeOf(int hosts, int max_local_ranks) {
  const int columns = Grid(hosts).columns();  // not fewer than rows
  static_assert(kMaxHosts <= kMaxPieces * kMaxPieces, "a block per host of a row fits any slice");
  const int pairs = std::min(max_local_ranks * max_local_ranks, kMaxPieces / columns);
  return {.local_ranks = max_local_ranks, .wave_pairs = pairs, .max_pieces = columns * pairs};
}

// In a wave a host has at most one lane each way per hop and peer, of two steps each, and a copy of
// what arrives from each peer.
uint64_t MostGridSteps(int hosts, const GridShape& shape) {
  const auto pairs = static_cast<uint64_t>(shape.local_ranks * shape.local_ranks);
  const auto wave = static_cast<uint64_t>(shape.wave_pairs);
  const uint64_t waves = (pairs + wave - 1) / wave;
  return 1 + waves * 8 * static_cast<uint64_t>(Grid(hosts).peers());
}

namespace {

// Blocks between two hosts, by position on the ring.
struct Flow {
  int from = 0;
  int to = 0;
};

// The flows of the slices of one lane and hop, in the order of their pieces.
struct LaneFlows {
  int peer = 0;
  std::vector<Flow> flows;
};

// The pairs of ranks of one wave.
struct Wave {
  int first = 0;
  int end = 0;
};

class AllToAll final : public ProgramInParts {
 public:
  AllToAll(const Ring& ring, const GridShape& shape)
      : ProgramInParts(ring, Packing::kSlices),
        self_(ring_.position()),
        grid_(ring_.hosts()),
        shape_(shape) {
    program_.SetHops(2);
    ListFlows();
  }

  bool done() const override { return next_pair_ == shape_.local_ranks * shape_.local_ranks; }
  // Of a wave first the lanes of the first hop, one by one; then what is sent in the second hop;
  // then its lanes.
  void BuildNext() override {
    if (program_.size() == 0) CopyLocalBlocks();
    const int pairs = shape_.local_ranks * shape_.local_ranks;
    const Wave wave{.first = next_pair_, .end = std::min(pairs, next_pair_ + shape_.wave_pairs)};
    const size_t first = std::max(first_out_.size(), first_in_.size());
    if (next_lane_ == 0) BeginWave();
    if (next_lane_ < first) {
      FirstHop(next_lane_, wave);
    } else if (next_lane_ == first) {
      SendOnward(wave);
    } else {
      ReceiveInOutputs(second_in_[next_lane_ - first - 1], wave);
    }
    if (++next_lane_ <= first + second_in_.size()) return;
    next_lane_ = 0;
    next_pair_ = wave.end;
  }

 private:
  using Lanes = std::map<int, std::vector<Flow>>;  // by the peer's position

  // The hop to the intermediate host, and the one from there. A hop from a host to itself is none.
  void ListFlows() {
    Lanes first_out, first_in, second_out, second_in;
    for (int other = 0; other < ring_.hosts(); ++other) {
      if (other == self_) continue;
      if (const int via = grid_.Via(self_, other); via != self_)
        first_out[via].push_back({self_, other});
      if (const int via = grid_.Via(other, self_); via != self_)
        second_in[via].push_back({other, self_});
    }
    for (const Flow& flow : FlowsThroughThisHost()) {
      if (flow.from != self_) first_in[flow.from].push_back(flow);
      if (flow.to != self_) second_out[flow.to].push_back(flow);
    }
    first_out_ = InOrder(first_out, 1);
    first_in_ = InOrder(first_in, -1);
    second_out_ = InOrder(second_out, 1);
    second_in_ = InOrder(second_in, -1);
  }

  // Those for which this host is the intermediate one, or an end that is: between a host of its
  // row and one of its column. By source, then by destination.
  std::vector<Flow> FlowsThroughThisHost() const {
    std::vector<Flow> flows;
    const int row = grid_.row(self_);
    const int column = grid_.column(self_);
    for (int c = 0; c < grid_.RowLength(row); ++c) {
      for (int r = 0; r < grid_.ColumnLength(column); ++r) {
        const int in_row = row * grid_.columns() + c;
        const int in_column = r * grid_.columns() + column;
        for (const Flow flow : {Flow{in_row, in_column}, Flow{in_column, in_row}}) {
          if (flow.from != flow.to && grid_.Via(flow.from, flow.to) == self_) flows.push_back(flow);
        }
      }
    }
    std::sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) {
      return std::pair(a.from, a.to) < std::pair(b.from, b.to);
    });
    return flows;
  }

  // By distance on the ring, after (1) or before (-1) this host: so that hosts do not all send to
  // the same one first.
  std::vector<LaneFlows> InOrder(const Lanes& lanes, int direction) const {
    std::vector<LaneFlows> ordered;
    for (const auto& [peer, flows] : lanes) ordered.push_back({.peer = peer, .flows = flows});
    const auto distance = [&](const LaneFlows& lane) {
      return (direction * (lane.peer - self_) + ring_.hosts()) % ring_.hosts();
    };
    std::sort(ordered.begin(), ordered.end(),
              [&](const LaneFlows& a, const LaneFlows& b) { return distance(a) < distance(b); });
    return ordered;
  }

  HostIndex HostAt(int position) const { return ring_.HostAtDistance(self_ - position); }
  const std::vector<Rank>& RanksAt(int position) const { return ring_.RanksOf(HostAt(position)); }

  // Calls visit(local index of the source, local index of the destination) for the flow's blocks.
  template <typename Visitor>
  void ForEachBlock(const Flow& flow, const Wave& wave, Visitor visit) const {
    const auto sources = static_cast<int>(RanksAt(flow.from).size());
    const auto destinations = static_cast<int>(RanksAt(flow.to).size());
    for (int pair = wave.first; pair < wave.end; ++pair) {
      const int i = pair / shape_.local_ranks;
      const int j = pair % shape_.local_ranks;
      if (i < sources && j < destinations)
        visit(static_cast<uint16_t>(i), static_cast<uint16_t>(j));
    }
  }

  // Block d of an input is for rank d; block s of an output is from rank s. In between a block has
  // the number of its destination.
  int32_t NumberOfInput(const Flow& flow, uint16_t j) const { return RanksAt(flow.to)[j].value(); }
  int32_t NumberOfOutput(const Flow& flow, uint16_t i) const {
    return RanksAt(flow.from)[i].value();
  }

  void CopyLocalBlocks() {
    std::vector<Combine> copies;
    const Flow own{self_, self_};
    ForEachBlock(own, {0, shape_.local_ranks * shape_.local_ranks}, [&](uint16_t i, uint16_t j) {
      copies.push_back({.sources = {LocalRanks::Input(i, NumberOfInput(own, j))},
                        .destinations = {LocalRanks::Output(j, NumberOfOutput(own, i))}});
    });
    program_.Combines(std::move(copies), {});
  }

  void BeginWave() {
    program_.BeginStage(stage_++);
    received_.clear();
  }

  // Sends and receives alternate, as in every exchange.
  void FirstHop(size_t lane, const Wave& wave) {
    if (lane < first_out_.size()) SendInputs(first_out_[lane], wave);
    if (lane < first_in_.size()) ReceiveInSlot(first_in_[lane], wave);
  }

  void SendInputs(const LaneFlows& lane, const Wave& wave) {
    std::vector<Place> pieces;
    for (const Flow& flow : lane.flows) {
      ForEachBlock(flow, wave, [&](uint16_t i, uint16_t j) {
        pieces.push_back(LocalRanks::Input(i, NumberOfInput(flow, j)));
      });
    }
    if (!pieces.empty()) program_.Send(HostAt(lane.peer), std::move(pieces), {});
  }

  void ReceiveInSlot(const LaneFlows& lane, const Wave& wave) {
    std::vector<int32_t> blocks;
    std::map<int, uint16_t>& begin = received_[lane.peer].begin;
    for (const Flow& flow : lane.flows) {
      begin[flow.to] = static_cast<uint16_t>(blocks.size());
      ForEachBlock(flow, wave,
                   [&](uint16_t, uint16_t j) { blocks.push_back(NumberOfInput(flow, j)); });
    }
    if (!blocks.empty())
      received_[lane.peer].step = program_.ReceiveInSlot(HostAt(lane.peer), blocks);
  }

  void SendOnward(const Wave& wave) {
    program_.BeginStage(stage_++);
    // First what frees the slots of the first hop: lanes to and from an incomplete row carry slices
    // of both hops.
    for (const LaneFlows& lane : first_in_) CopyArrived({lane.peer, self_}, wave);
    std::vector<ProgramBuilder::StagedSend> sends;
    for (const LaneFlows& lane : second_out_) {
      ProgramBuilder::StagedSend send = OnwardSlice(lane, wave);
      if (!send.pieces.empty()) sends.push_back(std::move(send));
    }
    program_.SendAllStaged(std::move(sends));
  }

  // Copies blocks that arrived in the first hop, if this host is their destination.
  void CopyArrived(const Flow& flow, const Wave& wave) {
    const auto from = received_.find(flow.from);
    if (from == received_.end() || !from->second.begin.contains(self_)) return;
    std::vector<Combine> copies;
    uint16_t piece = from->second.begin.at(self_);
    ForEachBlock(flow, wave, [&](uint16_t i, uint16_t j) {
      copies.push_back({.sources = {ProgramBuilder::Received(from->second.step, piece++,
                                                             NumberOfInput(flow, j))},
                        .destinations = {LocalRanks::Output(j, NumberOfOutput(flow, i))}});
    });
    if (!copies.empty()) program_.Combines(std::move(copies), {from->second.step});
  }

  ProgramBuilder::StagedSend OnwardSlice(const LaneFlows& lane, const Wave& wave) const {
    std::vector<ProgramBuilder::Piece> pieces;
    std::set<uint16_t> after;
    for (const Flow& flow : lane.flows) {
      const Slot* slot = flow.from == self_ ? nullptr : &received_.at(flow.from);
      uint16_t piece = slot == nullptr ? 0 : slot->begin.at(flow.to);
      ForEachBlock(flow, wave, [&](uint16_t i, uint16_t j) {
        const int32_t block = NumberOfInput(flow, j);
        if (slot != nullptr) after.insert(slot->step);
        const Place source = slot == nullptr ? LocalRanks::Input(i, block)
                                             : ProgramBuilder::Received(slot->step, piece++, block);
        pieces.push_back({.sources = {source}, .block = block});
      });
    }
    return {.to = HostAt(lane.peer),
            .pieces = std::move(pieces),
            .after = {after.begin(), after.end()}};
  }

  void ReceiveInOutputs(const LaneFlows& lane, const Wave& wave) {
    std::vector<Place> outputs;
    for (const Flow& flow : lane.flows) {
      ForEachBlock(flow, wave, [&](uint16_t i, uint16_t j) {
        outputs.push_back(LocalRanks::Output(j, NumberOfOutput(flow, i)));
      });
    }
    if (!outputs.empty()) program_.ReceiveInto(HostAt(lane.peer), std::move(outputs));
  }

  // A slice of the first hop in its slot.
  struct Slot {
    uint16_t step = 0;
    std::map<int, uint16_t> begin;  // by destination: its first piece
  };

  const int self_;
  const Grid grid_;
  const GridShape shape_;
  int stage_ = 0;
  int next_pair_ = 0;  // the first one of the wave
  // Of the wave: the lanes of the first hop, the sends of the second, the receives of the second.
  size_t next_lane_ = 0;
  std::vector<LaneFlows> first_out_, first_in_, second_out_, second_in_;
  std::map<int, Slot> received_;  // of the current wave, by the peer's position
};

}  // namespace

std::unique_ptr<ProgramBuild> GridAllToAll(const Ring& ring, const GridShape& shape) {
  return std::make_unique<AllToAll>(ring, shape);
}

}  // namespace mccs

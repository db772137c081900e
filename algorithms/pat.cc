#include "algorithms/pat.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "algorithms/plan_builder.h"

namespace mccs {
namespace {

int LowestBit(int offset) { return offset & -offset; }

}  // namespace

int PatHops(int hosts) { return std::bit_width(static_cast<unsigned>(hosts - 1)); }

PatShape PatShapeOf(OpKind kind, const Layout& layout) {
  const int hosts = layout.host_count();
  const int ranks = layout.max_local_ranks();
  const int all = static_cast<int>(std::bit_ceil(static_cast<unsigned>(hosts)));
  if (kind == OpKind::kAllGather) {
    return {.wave_offsets = all, .max_pieces = std::min(kMaxPieces, ranks * (hosts / 2))};
  }
  // Half of a wave's offsets are odd: they are the largest slice, that of its first hop.
  static_assert(kMaxLocalRanks <= kMaxPieces, "two offsets fit any slice");
  int offsets = 2;
  while (offsets < all && ranks * offsets <= kMaxPieces) offsets *= 2;
  return {.wave_offsets = offsets, .max_pieces = ranks * (std::min(offsets, hosts) / 2)};
}

// ---- All-gather ---------------------------------------------------------------------------------

namespace {

// A piece that this host has.
struct HeldPiece {
  Place place;
  std::optional<uint16_t> receive;  // the step that delivers it; nothing: an input
};

// The pieces of one receive, in the output of the home rank.
struct Landing {
  uint16_t receive = 0;
  std::vector<Place> places;
};

class AllGather final : public ProgramInParts {
 public:
  AllGather(const Ring& ring, int max_pieces)
      : ProgramInParts(ring, Packing::kSlices),
        hops_(PatHops(ring_.hosts())),
        max_pieces_(static_cast<size_t>(max_pieces)),
        held_(static_cast<size_t>(ring_.hosts())) {
    for (uint16_t i = 0; i < local_.count(); ++i) {
      const Place input = LocalRanks::Input(i, local_.BlockOf(i));
      held_[0].push_back({.place = input, .receive = std::nullopt});
      own_.push_back({.sources = {input}, .destinations = local_.Outputs(input.block)});
    }
    ListHop();
  }

  bool done() const override { return hop_ > hops_; }
  // Of a hop first the slices, then the copies of what has landed in the hop before.
  void BuildNext() override {
    program_.BeginStage(hop_);
    if (next_piece_ < std::max(out_.size(), in_.size())) {
      ExchangeSlices();
    } else if (!own_.empty()) {
      program_.Combines(std::exchange(own_, {}), {});
    } else if (!landed_.empty()) {
      CopyToOthers(landed_.front());
      landed_.pop_front();
    } else {
      landed_ = std::exchange(landing_, {});
      ++hop_;
      ListHop();
    }
  }

 private:
  int Distance() const { return 1 << (hops_ - 1 - hop_); }

  // The blocks for the host one distance after this one, and those from the host as far before it.
  void ListHop() {
    out_.clear();
    in_.clear();
    next_piece_ = 0;
    if (hop_ >= hops_) return;
    // Earlier hops have reached the multiples of twice the distance.
    for (int offset = 0; offset + Distance() < ring_.hosts(); offset += 2 * Distance()) {
      const std::vector<HeldPiece>& held = held_[static_cast<size_t>(offset)];
      out_.insert(out_.end(), held.begin(), held.end());
      for (Rank rank : ring_.RanksOf(ring_.HostAtDistance(offset + Distance()))) {
        in_.emplace_back(offset + Distance(), local_.Landing(rank.value()));
      }
    }
  }

  // Sends and receives alternate: sending all slices first could deadlock with a host that does
  // the same.
  void ExchangeSlices() {
    if (next_piece_ < out_.size()) SendSlice(ring_.HostAtDistance(-Distance()), out_, next_piece_);
    if (next_piece_ < in_.size()) {
      landing_.push_back(ReceiveSlice(ring_.HostAtDistance(Distance()), in_, next_piece_));
    }
    next_piece_ += max_pieces_;
  }

  void SendSlice(HostIndex to, const std::vector<HeldPiece>& out, size_t begin) {
    std::vector<Place> pieces;
    std::set<uint16_t> after;
    for (size_t i = begin; i < std::min(out.size(), begin + max_pieces_); ++i) {
      pieces.push_back(out[i].place);
      if (out[i].receive.has_value()) after.insert(*out[i].receive);
    }
    program_.Send(to, std::move(pieces), {after.begin(), after.end()});
  }

  Landing ReceiveSlice(HostIndex from, const std::vector<std::pair<size_t, Place>>& in,
                       size_t begin) {
    const size_t end = std::min(in.size(), begin + max_pieces_);
    std::vector<Place> places;
    for (size_t i = begin; i < end; ++i) places.push_back(in[i].second);
    const uint16_t receive = program_.ReceiveInto(from, places);
    for (size_t i = begin; i < end; ++i) held_[in[i].first].push_back({in[i].second, receive});
    return {.receive = receive, .places = std::move(places)};
  }

  void CopyToOthers(const Landing& landing) {
    if (local_.count() == 1) return;
    std::vector<Combine> copies;
    copies.reserve(landing.places.size());
    for (const Place& place : landing.places) {
      copies.push_back({.sources = {place}, .destinations = local_.OtherOutputs(place.block)});
    }
    program_.Combines(std::move(copies), {landing.receive});
  }

  const int hops_;
  const size_t max_pieces_;
  std::vector<std::vector<HeldPiece>> held_;  // by this host's offset in the tree of the piece
  int hop_ = 0;
  std::vector<HeldPiece> out_;                // of the hop
  std::vector<std::pair<size_t, Place>> in_;  // likewise: offset, place
  size_t next_piece_ = 0;                     // of both
  std::vector<Combine> own_;                  // copies of this host's blocks, in the first hop
  std::deque<Landing> landing_;               // in this hop
  std::deque<Landing> landed_;                // in the hop before, and not copied yet
};

}  // namespace

std::unique_ptr<ProgramBuild> PatAllGather(const Ring& ring, const PatShape& shape) {
  return std::make_unique<AllGather>(ring, shape.max_pieces);
}

// ---- Reduce-scatter -----------------------------------------------------------------------------
//
// A host sends the sum for a tree in which its offset is t: its ranks' inputs, and the sums that
// the children have sent it, which are the offsets t + 2^k below the lowest bit of t. The root is
// offset 0, whose children are all powers of two. It adds into its ranks' outputs.

namespace {

class ReduceScatter final : public ProgramInParts {
 public:
  ReduceScatter(const Ring& ring, int wave_offsets, bool scaled)
      : ProgramInParts(ring, Packing::kSlices),
        wave_offsets_(wave_offsets),
        scaled_(scaled),
        sums_(static_cast<size_t>(ring_.hosts())),
        first_((ring_.hosts() - 1) / wave_offsets_ * wave_offsets_) {
    program_.SetHops(PatHops(ring_.hosts()));
  }

  bool done() const override { return done_; }
  void BuildNext() override {
    const int end = std::min(ring_.hosts(), first_ + wave_offsets_);
    if (first_ + distance_ < end) {
      std::vector<int> offsets;
      for (int t = first_ + distance_; t < end; t += 2 * distance_) offsets.push_back(t);
      Exchange(distance_, offsets);
      distance_ *= 2;
    } else if (first_ > 0) {
      Exchange(LowestBit(first_), {first_});
      first_ -= wave_offsets_;
      distance_ = 1;
    } else {
      program_.BeginStage(stage_);
      AddIntoOutputs();
      done_ = true;
    }
  }

 private:
  // A received sum: for each rank of the tree's root a piece, from `piece` on.
  struct Sum {
    uint16_t receive = 0;
    uint16_t piece = 0;
  };

  // The root of the tree in which this host has the offset.
  const std::vector<Rank>& RootOf(int offset) const {
    return ring_.RanksOf(ring_.HostAtDistance(-offset));
  }

  // Sends the sums of these offsets to their parents, all on one host, and receives those from the
  // same offsets of other trees, whose parent is this host.
  void Exchange(int distance, const std::vector<int>& offsets) {
    program_.BeginStage(stage_++);
    SendSums(ring_.HostAtDistance(-distance), offsets);
    std::vector<int32_t> blocks;
    std::vector<size_t> begin;
    for (int t : offsets) {
      begin.push_back(blocks.size());
      for (Rank rank : RootOf(t - distance)) blocks.push_back(rank.value());
    }
    const uint16_t receive = program_.ReceiveInSlot(ring_.HostAtDistance(distance), blocks);
    for (size_t i = 0; i < offsets.size(); ++i) {
      sums_[static_cast<size_t>(offsets[i])] = {receive, static_cast<uint16_t>(begin[i])};
    }
  }

  void SendSums(HostIndex to, const std::vector<int>& offsets) {
    std::set<uint16_t> after;
    std::vector<ProgramBuilder::Piece> pieces;
    for (int t : offsets) {
      const std::vector<Sum> received = ReceivedBelow(t);
      for (const Sum& sum : received) after.insert(sum.receive);
      const std::vector<Rank>& root = RootOf(t);
      for (uint16_t i = 0; i < root.size(); ++i) {
        pieces.push_back(
            {.sources = Sources(received, i, root[i].value()), .block = root[i].value()});
      }
    }
    if (!after.empty() || local_.count() > 1 || scaled_) {
      program_.SendStaged(to, std::move(pieces), {after.begin(), after.end()});
      return;
    }
    std::vector<Place> inputs;
    for (const ProgramBuilder::Piece& piece : pieces) inputs.push_back(piece.sources.front());
    program_.Send(to, std::move(inputs), {});
  }

  void AddIntoOutputs() {
    const std::vector<Sum> received = ReceivedBelow(0);
    std::set<uint16_t> after;
    for (const Sum& sum : received) after.insert(sum.receive);
    std::vector<Combine> whole;
    for (uint16_t i = 0; i < local_.count(); ++i) {
      const int32_t block = local_.BlockOf(i);
      whole.push_back({.sources = Sources(received, i, block),
                       .destinations = {LocalRanks::Output(i, block)},
                       .finish = true});
    }
    program_.Combines(std::move(whole), {after.begin(), after.end()});
  }

  // The sums from the children of this host in the tree in which it has offset `t`.
  std::vector<Sum> ReceivedBelow(int t) const {
    std::vector<Sum> received;
    const int limit = t == 0 ? ring_.hosts() : LowestBit(t);
    for (int distance = 1; distance < limit && t + distance < ring_.hosts(); distance *= 2) {
      received.push_back(sums_[static_cast<size_t>(t + distance)]);
    }
    return received;
  }

  // The received sums for the `rank`-th rank of a root, then the local ranks' inputs.
  PlaceList Sources(const std::vector<Sum>& received, uint16_t rank, int32_t block) const {
    PlaceList sources;
    sources.reserve(received.size() + local_.count());
    for (const Sum& sum : received) {
      sources.push_back(
          ProgramBuilder::Received(sum.receive, static_cast<uint16_t>(sum.piece + rank), block));
    }
    for (const Place& input : local_.Inputs(block)) sources.push_back(input);
    return sources;
  }

  const int wave_offsets_;
  const bool scaled_;
  int stage_ = 0;
  std::vector<Sum> sums_;  // by the offset of the sender
  int first_ = 0;          // offset of the wave
  int distance_ = 1;       // of its next exchange
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ProgramBuild> PatReduceScatter(const Ring& ring, const PatShape& shape,
                                               bool scaled) {
  return std::make_unique<ReduceScatter>(ring, shape.wave_offsets, scaled);
}

}  // namespace mccs

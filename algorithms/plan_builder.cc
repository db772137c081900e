#include "algorithms/plan_builder.h"

#include <utility>

#include "base/check.h"

namespace mccs {
namespace {

uint64_t PartsOf(const Step& step) {
  uint64_t parts = 1 + step.pieces.size() + step.after.size();
  for (const Combine& combine : step.combines)
    parts += 1 + combine.sources.size() + combine.destinations.size();
  return parts;
}

}  // namespace

PlaceList LocalRanks::Inputs(int32_t block) const {
  PlaceList places;
  places.reserve(count());
  for (uint16_t local = 0; local < count(); ++local) places.push_back(Input(local, block));
  return places;
}

PlaceList LocalRanks::WithReceived(Place received) const {
  PlaceList places;
  places.reserve(count() + size_t{1});
  places.push_back(received);
  for (uint16_t local = 0; local < count(); ++local) places.push_back(Input(local, received.block));
  return places;
}

PlaceList LocalRanks::Outputs(int32_t block) const {
  PlaceList places;
  places.reserve(count());
  for (uint16_t local = 0; local < count(); ++local) places.push_back(Output(local, block));
  return places;
}

PlaceList LocalRanks::OtherOutputs(int32_t block) const {
  PlaceList places;
  places.reserve(count());
  for (uint16_t local = 0; local < count(); ++local) {
    if (local != home_) places.push_back(Output(local, block));
  }
  return places;
}

void ProgramBuilder::BeginStage(int stage) {
  MCCS_CHECK(stage >= stage_ && stage <= UINT16_MAX);
  stage_ = static_cast<uint16_t>(stage);
}

uint16_t ProgramBuilder::Combines(std::vector<Combine> combines, std::vector<uint16_t> after) {
  return Append({.kind = StepKind::kCombine,
                 .combines = std::move(combines),
                 .pieces = {},
                 .peer = {},
                 .after = std::move(after)});
}

bool ProgramBuilder::GoesStraight(const std::vector<Place>& pieces) const {
  if (packing_ == Packing::kNone || pieces.size() == 1) return true;
  if (packing_ == Packing::kSlices) return false;
  const Place& first = pieces.front();
  for (size_t i = 1; i < pieces.size(); ++i) {
    const Place& piece = pieces[i];
    if (piece.space != first.space || piece.index != first.index) return false;
    if (piece.block != first.block + static_cast<int32_t>(i)) return false;
  }
  return true;
}

uint16_t ProgramBuilder::Send(HostIndex to, std::vector<Place> pieces,
                              std::vector<uint16_t> after) {
  if (GoesStraight(pieces)) return AppendSend(to, std::move(pieces), std::move(after));
  std::vector<Piece> copies;
  copies.reserve(pieces.size());
  for (const Place& piece : pieces) copies.push_back({.sources = {piece}, .block = piece.block});
  return SendStaged(to, std::move(copies), std::move(after));
}

uint16_t ProgramBuilder::AppendSend(HostIndex to, std::vector<Place> pieces,
                                    std::vector<uint16_t> after) {
  return Append({.kind = StepKind::kSend,
                 .combines = {},
                 .pieces = std::move(pieces),
                 .peer = to,
                 .after = std::move(after)});
}

uint16_t ProgramBuilder::SendStaged(HostIndex to, std::vector<Piece> pieces,
                                    std::vector<uint16_t> after) {
  std::vector<StagedSend> one;
  one.push_back({.to = to, .pieces = std::move(pieces), .after = std::move(after)});
  SendAllStaged(std::move(one));
  return static_cast<uint16_t>(next_position() - 1);
}

void ProgramBuilder::SendAllStaged(std::vector<StagedSend> sends) {
  const size_t first = program_.steps.size();
  std::vector<std::vector<Place>> staged(sends.size());
  for (size_t i = 0; i < sends.size(); ++i) {
    const auto send = static_cast<uint16_t>(first + sends.size() + i);
    std::vector<Combine> combines;
    combines.reserve(sends[i].pieces.size());
    staged[i].reserve(sends[i].pieces.size());
    for (Piece& piece : sends[i].pieces) {
      const auto number = static_cast<uint16_t>(staged[i].size());
      staged[i].push_back({Space::kStaged, send, number, piece.block});
      combines.push_back({.sources = std::move(piece.sources), .destinations = {staged[i].back()}});
    }
    Combines(std::move(combines), std::move(sends[i].after));
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    AppendSend(sends[i].to, std::move(staged[i]), {static_cast<uint16_t>(first + i)});
  }
}

uint16_t ProgramBuilder::SpreadStaged(const std::vector<HostIndex>& to, Piece piece,
                                      PlaceList kept) {
  PlaceList destinations = std::move(kept);
  const uint16_t combine = next_position();
  for (size_t i = 0; i < to.size(); ++i) {
    const auto send = static_cast<uint16_t>(combine + 1 + i);
    destinations.push_back({Space::kStaged, send, 0, piece.block});
  }
  Combines({{.sources = std::move(piece.sources), .destinations = std::move(destinations)}}, {});
  for (HostIndex host : to) {
    const uint16_t send = next_position();
    AppendSend(host, {{Space::kStaged, send, 0, piece.block}}, {combine});
  }
  return combine;
}

uint16_t ProgramBuilder::ReceiveInto(HostIndex from, std::vector<Place> outputs) {
  if (GoesStraight(outputs)) return AppendReceive(from, std::move(outputs));
  std::vector<int32_t> blocks;
  for (const Place& output : outputs) blocks.push_back(output.block);
  const uint16_t receive = ReceiveInSlot(from, blocks);
  std::vector<Combine> copies;
  copies.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Place received = Received(receive, static_cast<uint16_t>(i), blocks[i]);
    copies.push_back({.sources = {received}, .destinations = {outputs[i]}});
  }
  return Combines(std::move(copies), {receive});
}

uint16_t ProgramBuilder::ReceiveInSlot(HostIndex from, const std::vector<int32_t>& blocks) {
  const uint16_t receive = next_position();
  std::vector<Place> pieces;
  pieces.reserve(blocks.size());
  for (int32_t block : blocks) {
    pieces.push_back(Received(receive, static_cast<uint16_t>(pieces.size()), block));
  }
  return AppendReceive(from, std::move(pieces));
}

uint16_t ProgramBuilder::AppendReceive(HostIndex from, std::vector<Place> pieces) {
  return Append({.kind = StepKind::kReceive,
                 .combines = {},
                 .pieces = std::move(pieces),
                 .peer = from,
                 .after = {}});
}

Program ProgramBuilder::Take() {
  // A slice of stage n has made n hops when it is sent.
  for (const Step& step : program_.steps) {
    if (step.kind != StepKind::kCombine) program_.hops = std::max(program_.hops, step.stage + 1);
  }
  if (hops_.has_value()) program_.hops = *hops_;
  program_.parts = parts_;
  return std::move(program_);
}

uint16_t ProgramBuilder::Append(Step step) {
  MCCS_CHECK(program_.steps.size() < UINT16_MAX);
  step.stage = stage_;
  parts_ += PartsOf(step);
  program_.steps.push_back(std::move(step));
  return static_cast<uint16_t>(next_position() - 1);
}

}  // namespace mccs

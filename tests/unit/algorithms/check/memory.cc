#include "tests/unit/algorithms/check/memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/unit/algorithms/check/contract.h"

namespace mccs::check {
namespace {

std::string Describe(const Place& place) {
  switch (place.space) {
    case Space::kInput:
      return absl::StrCat("block ", place.block, " of the input of local rank ", place.index);
    case Space::kOutput:
      return absl::StrCat("block ", place.block, " of the output of local rank ", place.index);
    case Space::kReceived:
      return absl::StrCat("piece ", place.piece, " of the slot of receive ", place.index);
    case Space::kStaged:
      return absl::StrCat("piece ", place.piece, " of the staging slot of send ", place.index);
  }
  return "?";
}

}  // namespace

Memory::Memory(const ProofInput& proof, const ChannelEvents& events)
    : proof_(proof),
      events_(events),
      blocks_(static_cast<size_t>(proof.plans[0].blocks)),
      pieces_(static_cast<size_t>(proof.plans[0].max_pieces) * proof.geometry.Parts(0).size()) {
  size_t next = 0;
  for (const std::vector<Rank>& ranks : proof.layout.hosts) {
    buffers_.push_back(static_cast<CellId>(next));
    next += 2 * ranks.size() * blocks_ * events.block_slices();
  }
  for (const Lane& lane : events.lanes()) {
    LaneCells& cells = lanes_.emplace_back();
    cells.received = static_cast<CellId>(next);
    next += lane.receives.size() * pieces_;
    cells.staged = static_cast<CellId>(next);
    next += lane.sends.size() * pieces_;
  }
  cells_ = next;
}

CellId Memory::BufferCell(int host, uint64_t slice, size_t buffer, int32_t block) const {
  const size_t row = buffer * blocks_ + static_cast<size_t>(block);
  return static_cast<CellId>(buffers_[host] + row * events_.block_slices() + slice);
}

CellId Memory::Input(int host, uint64_t slice, uint16_t local, int32_t block) const {
  return BufferCell(host, slice, 2 * size_t{local}, block);
}

// In place, block by block: the unblocked one of the two buffers contains only its rank's own block
// and is at that block's position in the other.
CellId Memory::Output(int host, uint64_t slice, uint16_t local, int32_t block) const {
  return BufferCell(host, slice, 2 * size_t{local} + (proof_.options.in_place ? 0 : 1), block);
}

CellId Memory::Cell(const Instance& instance, const Place& place) const {
  switch (place.space) {
    case Space::kInput:
      return Input(instance.host, instance.block_slice, place.index, place.block);
    case Space::kOutput:
      return Output(instance.host, instance.block_slice, place.index, place.block);
    default:
      break;
  }
  const Instance& owner =
      events_.instances()[events_.Find(instance.host, instance.round, place.index)];
  const LaneCells& cells = lanes_[owner.lane];
  const CellId first = place.space == Space::kReceived ? cells.received : cells.staged;
  return static_cast<CellId>(first + owner.slice * pieces_ + place.piece);
}

bool Memory::IsOmitted(const Instance& instance, const Combine& combine,
                       const Place& destination) const {
  if (combine.sources.size() != 1 || combine.finish) return false;
  if (proof_.plans[0].key.scaled && combine.sources[0].space == Space::kInput) return false;
  return Cell(instance, combine.sources[0]) == Cell(instance, destination);
}

Memory::CellAccesses Memory::ListAccesses() const {
  CellAccesses accesses(cells_);
  for (InstanceId id = 0; id < events_.instances().size(); ++id) {
    switch (events_.instances()[id].step->kind) {
      case StepKind::kCombine:
        ListCombine(id, accesses);
        break;
      case StepKind::kSend:
        ListSend(id, accesses);
        break;
      case StepKind::kReceive:
        ListReceive(id, accesses);
        break;
    }
  }
  return accesses;
}

void Memory::ListCombine(InstanceId id, CellAccesses& accesses) const {
  const Instance& instance = events_.instances()[id];
  for (size_t c = 0; c < instance.step->combines.size(); ++c) {
    const Combine& combine = instance.step->combines[c];
    for (const Place& place : combine.sources) {
      accesses[Cell(instance, place)].push_back(
          {id, c, instance.begin, instance.end, false, place});
    }
    for (const Place& place : combine.destinations) {
      if (IsOmitted(instance, combine, place)) continue;
      accesses[Cell(instance, place)].push_back({id, c, instance.begin, instance.end, true, place});
    }
  }
}

void Memory::ListSend(InstanceId id, CellAccesses& accesses) const {
  const Instance& send = events_.instances()[id];
  for (const Place& place : send.step->pieces) {
    accesses[Cell(send, place)].push_back({id, 0, send.begin, send.delivered, false, place});
  }
}

// The payload may be written to the slot as soon as it is sent, even if it then goes to an output.
void Memory::ListReceive(InstanceId id, CellAccesses& accesses) const {
  const Instance& receive = events_.instances()[id];
  const EventId sent = events_.instances()[receive.peer].begin;
  const Step& step = *receive.step;
  for (size_t i = 0; i < step.pieces.size(); ++i) {
    const Place slot{Space::kReceived, receive.position, static_cast<uint16_t>(i),
                     step.pieces[i].block};
    accesses[Cell(receive, slot)].push_back({id, i, sent, receive.end, true, slot});
    if (step.pieces[i].space != Space::kOutput) continue;
    accesses[Cell(receive, step.pieces[i])].push_back(
        {id, i, receive.landing, receive.end, true, step.pieces[i]});
  }
}

absl::Status Memory::CheckRaces() const {
  CellAccesses accesses = ListAccesses();
  for (std::vector<Access>& cell : accesses) MCCS_RETURN_IF_ERROR(CheckCell(cell));
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = events_.lanes()[i];
    MCCS_RETURN_IF_ERROR(
        CheckSlots(accesses, lanes_[i].received, lane.receives.size(), proof_.options.slots));
    MCCS_RETURN_IF_ERROR(
        CheckSlots(accesses, lanes_[i].staged, lane.sends.size(), proof_.options.staging()));
  }
  return absl::OkStatus();
}

// Visits the accesses in an order of one run. Comparing with the last write and, for a write, with
// the reads since is sufficient, because order is transitive.
absl::Status Memory::CheckCell(std::vector<Access>& accesses) const {
  std::stable_sort(accesses.begin(), accesses.end(), [&](const Access& a, const Access& b) {
    return events_.graph().PositionInOrder(a.begin) < events_.graph().PositionInOrder(b.begin);
  });
  const Access* written = nullptr;
  std::vector<const Access*> reads;
  for (const Access& access : accesses) {
    if (written != nullptr && !Ordered(*written, access)) return Conflict(*written, access);
    if (!access.writes) {
      reads.push_back(&access);
      continue;
    }
    for (const Access* read : reads) {
      const bool same = read->instance == access.instance && read->combine == access.combine;
      if (!same && !Ordered(*read, access)) return Conflict(*read, access);
    }
    written = &access;
    reads.clear();
  }
  return absl::OkStatus();
}

absl::Status Memory::CheckSlots(const CellAccesses& accesses, CellId first, size_t slices,
                                size_t slots) const {
  for (size_t n = slots; n < slices; ++n) {
    for (size_t cell = 0; cell < pieces_ * pieces_; ++cell) {
      const auto& older = accesses[first + (n - slots) * pieces_ + cell / pieces_];
      for (const Access& use : accesses[first + n * pieces_ + cell % pieces_]) {
        for (const Access& before : older) {
          if (use.writes && !Ordered(before, use)) return Conflict(before, use);
        }
      }
    }
  }
  return absl::OkStatus();
}

bool Memory::Ordered(const Access& first, const Access& second) const {
  return events_.graph().Precedes(first.end, second.begin);
}

absl::Status Memory::Conflict(const Access& first, const Access& second) const {
  const auto& instances = events_.instances();
  return absl::FailedPreconditionError(absl::StrCat(
      "race: ", events_.Where(instances[second.instance]), second.writes ? " writes " : " reads ",
      Describe(second.place), ", but does not wait for ", events_.Where(instances[first.instance]),
      ", which ", first.writes ? "writes" : "reads", " it"));
}

}  // namespace mccs::check

#include "service/device/gpu/program_image.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "kernels/interpreter.h"
#include "kernels/program.h"

namespace mccs {
namespace {

using kernels::Span32;

constexpr size_t kArrayAlignment = 16;

kernels::PlaceEntry EntryOf(const Place& place) {
  kernels::PlaceEntry entry;
  entry.space = static_cast<kernels::PlaceSpace>(place.space);
  entry.index = place.index;
  entry.piece = place.piece;
  entry.block = place.block;
  return entry;
}
static_assert(static_cast<int>(kernels::PlaceSpace::kInput) == static_cast<int>(Space::kInput) &&
              static_cast<int>(kernels::PlaceSpace::kOutput) == static_cast<int>(Space::kOutput) &&
              static_cast<int>(kernels::PlaceSpace::kReceived) ==
                  static_cast<int>(Space::kReceived) &&
              static_cast<int>(kernels::PlaceSpace::kStaged) == static_cast<int>(Space::kStaged));

class ImageWriter {
 public:
  ImageWriter(const Program& program, const ProgramFacts& facts)
      : program_(program), facts_(facts), steps_(program.steps.size()) {}

  std::vector<std::byte> Write(kernels::ProgramImage header) {
    for (size_t s = 0; s < steps_.size(); ++s) AddStep(s);
    DeriveReleases();
    DeriveComposes();
    DeriveOpens();
    const std::vector<kernels::LaneEntry> sends = SendLanes(), receives = ReceiveLanes();
    std::vector<std::byte> image(sizeof(header));
    header.step_count = static_cast<uint32_t>(steps_.size());
    header.send_lanes = static_cast<uint32_t>(sends.size());
    header.receive_lanes = static_cast<uint32_t>(receives.size());
    header.steps = Append(steps_, image);
    header.sends = Append(sends, image);
    header.receives = Append(receives, image);
    header.combines = Append(combines_, image);
    header.places = Append(places_, image);
    header.lists = Append(lists_, image);
    header.state_bytes = kernels::StateBytes(header.send_lanes, header.receive_lanes, header.slots);
    std::memcpy(image.data(), &header, sizeof(header));
    return image;
  }

 private:
  template <typename T>
  static uint32_t Append(const std::vector<T>& entries, std::vector<std::byte>& image) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = (image.size() + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
    image.resize(at + entries.size() * sizeof(T));
    if (!entries.empty())
      std::memcpy(image.data() + at, entries.data(), entries.size() * sizeof(T));
    return static_cast<uint32_t>(at);
  }
  Span32 AddList(const std::vector<uint16_t>& list) {
    const Span32 span{static_cast<uint32_t>(lists_.size()), static_cast<uint32_t>(list.size())};
    lists_.insert(lists_.end(), list.begin(), list.end());
    return span;
  }
  template <typename Places>
  void AddPlaces(const Places& places) {
    for (const Place& place : places) places_.push_back(EntryOf(place));
  }
  bool IsStagedSend(uint16_t step) const {
    return program_.steps[step].kind == StepKind::kSend && facts_.steps[step].staged;
  }

  void AddStep(size_t s) {
    const Step& step = program_.steps[s];
    kernels::StepEntry& entry = steps_[s];
    entry.stage = step.stage;
    std::vector<uint16_t> frees;
    for (const uint16_t before : step.after) {
      if (program_.steps[before].kind == StepKind::kSend && !IsStagedSend(before))
        frees.push_back(before);
      if (entry.opens_after == kernels::kNoStep || entry.opens_after < before)
        entry.opens_after = before;
    }
    entry.frees = AddList(frees);
    if (step.kind == StepKind::kCombine) {
      entry.type = kernels::StepType::kCombine;
      entry.entries = {static_cast<uint32_t>(combines_.size()),
                       static_cast<uint32_t>(step.combines.size())};
      for (const Combine& combine : step.combines) AddCombine(combine);
      return;
    }
    const StepFacts& facts = facts_.steps[s];
    entry.type =
        step.kind == StepKind::kSend ? kernels::StepType::kSend : kernels::StepType::kReceive;
    entry.in_slot = facts.in_slot;
    entry.unread = facts.in_slot && facts.readers == 0;
    entry.position = facts_.lanes.positions[s];
    entry.entries = {static_cast<uint32_t>(places_.size()),
                     static_cast<uint32_t>(step.pieces.size())};
    AddPlaces(step.pieces);
  }

  void AddCombine(const Combine& combine) {
    kernels::CombineEntry entry;
    entry.first_place = static_cast<uint32_t>(places_.size());
    entry.sources = static_cast<uint16_t>(combine.sources.size());
    entry.destinations = static_cast<uint16_t>(combine.destinations.size());
    entry.finish = combine.finish;
    MCCS_CHECK(entry.sources <= kernels::kMaxSources);
    MCCS_CHECK(entry.destinations <= kernels::kMaxDestinations);
    combines_.push_back(entry);
    AddPlaces(combine.sources);
    AddPlaces(combine.destinations);
  }

  // A slot is released by its last reader in the order of the program.
  void DeriveReleases() {
    std::vector<std::vector<uint16_t>> releases(steps_.size());
    std::vector<int32_t> last(steps_.size(), -1);
    for (size_t s = 0; s < steps_.size(); ++s) {
      for (const uint16_t receive : facts_.steps[s].reads) last[receive] = static_cast<int32_t>(s);
    }
    for (size_t r = 0; r < steps_.size(); ++r) {
      if (last[r] >= 0) releases[static_cast<size_t>(last[r])].push_back(static_cast<uint16_t>(r));
    }
    for (size_t s = 0; s < steps_.size(); ++s) steps_[s].releases = AddList(releases[s]);
  }
  void DeriveComposes() {
    std::vector<std::vector<uint16_t>> composes(steps_.size());
    for (size_t s = 0; s < steps_.size(); ++s) {
      for (const uint16_t composer : facts_.steps[s].composers)
        composes[composer].push_back(static_cast<uint16_t>(s));
    }
    for (size_t s = 0; s < steps_.size(); ++s) steps_[s].composes = AddList(composes[s]);
  }
  bool OpensLater(size_t step) const {
    const kernels::StepEntry& entry = steps_[step];
    return entry.type == kernels::StepType::kReceive && entry.in_slot == 0 &&
           entry.opens_after != kernels::kNoStep;
  }
  void DeriveOpens() {
    std::vector<std::vector<uint16_t>> opens(steps_.size());
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (!OpensLater(s)) continue;
      opens[steps_[s].opens_after].push_back(static_cast<uint16_t>(steps_[s].position.lane));
    }
    for (size_t s = 0; s < steps_.size(); ++s) {
      std::sort(opens[s].begin(), opens[s].end());
      opens[s].erase(std::unique(opens[s].begin(), opens[s].end()), opens[s].end());
      steps_[s].opens = AddList(opens[s]);
    }
  }

  std::vector<kernels::LaneEntry> SendLanes() {
    std::vector<kernels::LaneEntry> lanes;
    for (size_t i = 0; i < facts_.lanes.sends.size(); ++i) {
      kernels::LaneEntry& lane = lanes.emplace_back();
      lane.steps = AddList(facts_.lanes.sends[i].steps);
      lane.buffers = facts_.send_sources[i].buffers;
    }
    return lanes;
  }
  std::vector<kernels::LaneEntry> ReceiveLanes() {
    std::vector<kernels::LaneEntry> lanes;
    for (const ProgramLanes::Lane& receive : facts_.lanes.receives) {
      kernels::LaneEntry& lane = lanes.emplace_back();
      lane.steps = AddList(receive.steps);
      lane.all_open =
          std::ranges::none_of(receive.steps, [&](uint16_t s) { return OpensLater(s); });
    }
    return lanes;
  }

  const Program& program_;
  const ProgramFacts& facts_;
  std::vector<kernels::StepEntry> steps_;
  std::vector<kernels::CombineEntry> combines_;
  std::vector<kernels::PlaceEntry> places_;
  std::vector<uint16_t> lists_;
};

}  // namespace

std::vector<std::byte> MakeProgramImage(const Plan& plan, const Program& program,
                                        const ProgramFacts& facts, const LaneShape& shape,
                                        uint32_t skew) {
  kernels::ProgramImage header;
  header.channel = program.channel.value();
  header.parts = plan.parts;
  header.skew = skew;
  header.slots = shape.slots;
  header.staging_slots = shape.staging_slots();
  header.slot_bytes = shape.slot_bytes;
  header.input_blocked = plan.input_blocked;
  header.output_blocked = plan.output_blocked;
  header.reduces = Reduces(plan.key.kind);
  return ImageWriter(program, facts).Write(header);
}

uint64_t MostImageBytes(const Program& program) {
  uint64_t places = 0, combines = 0, lists = 0;
  for (const Step& step : program.steps) {
    places += step.pieces.size();
    lists += step.after.size() + 2;  // of the lane; opened by another step
    combines += step.combines.size();
    for (const Combine& combine : step.combines) {
      places += combine.sources.size() + combine.destinations.size();
      lists += combine.sources.size() + combine.destinations.size();  // releases, composes
    }
  }
  // There are at most two lanes for each step.
  return sizeof(kernels::ProgramImage) + 6 * kArrayAlignment +
         program.steps.size() * (sizeof(kernels::StepEntry) + 2 * sizeof(kernels::LaneEntry)) +
         combines * sizeof(kernels::CombineEntry) + places * sizeof(kernels::PlaceEntry) +
         lists * sizeof(uint16_t);
}

}  // namespace mccs

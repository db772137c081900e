// The program of one channel (algorithms/plan.h) as a kernel runs it: one block of memory without
// pointers, so that it can be copied to any address.
//
//   ProgramImage | StepEntry[] | LaneEntry[] sends | LaneEntry[] receives | CombineEntry[]
//                | PlaceEntry[] | uint16_t[] lists
//
// A kernel runs the steps of all rounds one after the other, in IssueOrder
// (algorithms/issue_order.h): a step of a plan waits only for older ones, so the order cannot
// deadlock. Every list that a step needs is derived beforehand.
//
// OWNER: the daemon, which writes it. It never reads it back: tenants can write there.
#ifndef MCCS_KERNELS_PROGRAM_H_
#define MCCS_KERNELS_PROGRAM_H_

#include <cstdint>

#include "algorithms/issue_cursor.h"
#include "base/portable.h"

namespace mccs::kernels {

inline constexpr uint32_t kNoStep = 0xffffffff;

// `count` entries of an array from `begin` on.
struct Span32 {
  uint32_t begin = 0;
  uint32_t count = 0;
};

// As Space and Place in algorithms/plan.h.
enum class PlaceSpace : uint8_t { kInput, kOutput, kReceived, kStaged };
struct PlaceEntry {
  PlaceSpace space = PlaceSpace::kInput;
  uint8_t reserved = 0;
  uint16_t index = 0;
  uint16_t piece = 0;
  uint16_t reserved1 = 0;
  int32_t block = 0;
};

struct CombineEntry {
  uint32_t first_place = 0;  // of the sources, which the destinations follow
  uint16_t sources = 0;
  uint16_t destinations = 0;
  uint8_t finish = 0;  // 1: applies the operator's last part
  uint8_t reserved[3] = {};
};

enum class StepType : uint8_t { kCombine, kSend, kReceive };
struct StepEntry {
  StepType type = StepType::kCombine;
  uint8_t in_slot = 0;  // a receive that stays in its slot
  uint8_t unread = 0;   // such a receive that no combine reads
  uint8_t reserved = 0;
  uint16_t stage = 0;
  uint16_t reserved1 = 0;
  LanePosition position;  // sends and receives
  // Combines: of CombineEntry. Sends and receives: of PlaceEntry, its pieces.
  Span32 entries;
  // The rest are lists of step numbers.
  Span32 frees;     // sends from buffers that must be free before this step
  Span32 composes;  // combines: sends in whose staging slots it writes
  Span32 releases;  // combines: receives whose slots it is the last to read
  // A receive into an output: the last of the steps before it; kNoStep: none.
  uint32_t opens_after = kNoStep;
  // Lanes (not steps) on which a receive may become open when this step is done.
  Span32 opens;
};

// One direction of a lane.
struct LaneEntry {
  Span32 steps;          // a list
  uint8_t buffers = 0;   // sends: some are from buffers
  uint8_t all_open = 0;  // receives: each may be open from the start of the operation
  uint8_t reserved[6] = {};
};

struct ProgramImage {
  uint32_t state_bytes = 0;  // of the memory of ProgramRun::state
  int32_t channel = 0;
  int32_t parts = 1;  // Plan::parts
  uint32_t skew = 0;
  uint32_t slots = 0;
  uint32_t staging_slots = 0;
  uint32_t slot_bytes = 0;
  uint8_t input_blocked = 0;
  uint8_t output_blocked = 0;
  uint8_t reduces = 0;
  uint8_t reserved[5] = {};
  uint32_t step_count = 0;
  uint32_t send_lanes = 0;
  uint32_t receive_lanes = 0;
  // Offsets in bytes from the start of the image.
  uint32_t steps = 0;
  uint32_t sends = 0;
  uint32_t receives = 0;
  uint32_t combines = 0;
  uint32_t places = 0;
  uint32_t lists = 0;

  MCCS_HOST_DEVICE const StepEntry& StepAt(uint32_t step) const {
    return Array<StepEntry>(steps)[step];
  }
  MCCS_HOST_DEVICE const LaneEntry& SendLane(uint32_t lane) const {
    return Array<LaneEntry>(sends)[lane];
  }
  MCCS_HOST_DEVICE const LaneEntry& ReceiveLane(uint32_t lane) const {
    return Array<LaneEntry>(receives)[lane];
  }
  MCCS_HOST_DEVICE const CombineEntry& CombineAt(uint32_t combine) const {
    return Array<CombineEntry>(combines)[combine];
  }
  MCCS_HOST_DEVICE const PlaceEntry* PlacesAt(uint32_t place) const {
    return Array<PlaceEntry>(places) + place;
  }
  MCCS_HOST_DEVICE const uint16_t* ListAt(Span32 list) const {
    return Array<uint16_t>(lists) + list.begin;
  }

 private:
  template <typename T>
  MCCS_HOST_DEVICE const T* Array(uint32_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const unsigned char*>(this) + offset);
  }
};

// The steps of an image, or those of one of its lanes, for IssueCursor.
class ImageSteps {
 public:
  ImageSteps() = default;
  MCCS_HOST_DEVICE explicit ImageSteps(const ProgramImage& image)
      : image_(&image), count_(image.step_count) {}
  MCCS_HOST_DEVICE ImageSteps(const ProgramImage& image, Span32 steps)
      : image_(&image), steps_(image.ListAt(steps)), count_(steps.count) {}

  MCCS_HOST_DEVICE size_t size() const { return count_; }
  MCCS_HOST_DEVICE uint16_t step(size_t position) const {
    return steps_ == nullptr ? static_cast<uint16_t>(position) : steps_[position];
  }
  MCCS_HOST_DEVICE uint16_t stage(size_t position) const {
    return image_->StepAt(step(position)).stage;
  }

 private:
  const ProgramImage* image_ = nullptr;
  const uint16_t* steps_ = nullptr;  // null: all
  uint32_t count_ = 0;
};
using ImageCursor = IssueCursor<ImageSteps>;

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_PROGRAM_H_

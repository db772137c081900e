// The hostile end of a lane's connection (service/transport/lane_wire.h): it sends slices or
// acknowledges those that come, as a daemon would or otherwise.
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_LYING_LANE_H_
#define MCCS_TESTS_SIM_LYING_LANE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "service/transport/handshake.h"
#include "service/transport/lane_wire.h"
#include "service/transport/network.h"
#include "tests/sim/lying_messages.h"

namespace mccs {

class LyingLane {
 public:
  struct Slice {
    SliceTag tag{};
    std::string payload;
  };

  // `sends`: slices go from here to the daemon; else they come from it.
  LyingLane(std::unique_ptr<Connection> connection, const Preamble& preamble,
            const LaneShape& shape, bool sends);

  const Preamble& preamble() const { return preamble_; }
  const LaneShape& shape() const { return shape_; }
  bool sends() const { return sends_; }
  bool broken() const { return broken_; }

  // Moves bytes, and acknowledges what came. True when any moved.
  bool Poll();
  // The slices that came since; the oldest are forgotten where nobody asks.
  std::deque<Slice> TakeSlices() { return std::exchange(slices_, {}); }
  // As the next slice, when there is credit. REQUIRES: sends().
  void Send(Slice slice);
  // A header or an acknowledgement that no daemon sends.
  void Lie(Dice& dice);

 private:
  bool Read();
  bool Write();
  bool TakeSlice();
  void TakeFrame();
  void Acknowledge(uint32_t magic);
  void WriteSlice(uint64_t number, uint64_t bytes, const Slice& slice);

  std::unique_ptr<Connection> connection_;
  const Preamble preamble_;
  const LaneShape shape_;
  const bool sends_;
  bool broken_ = false;
  std::string incoming_, outgoing_;
  std::deque<Slice> slices_;   // that came
  std::deque<Slice> waiting_;  // to go out
  uint64_t next_ = 0;          // number of the slice that goes out or comes next
  uint64_t credit_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_LYING_LANE_H_

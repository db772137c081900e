// The hostile end of a lane's connection (service/transport/stream_lane.h): it sends slices or
// acknowledges received ones, correctly or not.
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_HOSTILE_LANE_H_
#define MCCS_TESTS_SIM_HOSTILE_LANE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "service/transport/handshake.h"
#include "service/transport/network.h"
#include "service/transport/stream_lane.h"
#include "tests/sim/hostile_messages.h"

namespace mccs {

class HostileLane {
 public:
  struct Slice {
    SliceTag tag{};
    std::string payload = {};
  };

  // `sends`: slices go from here to the daemon; otherwise they come from it.
  HostileLane(std::unique_ptr<Connection> connection, const Preamble& preamble,
              const LaneShape& shape, bool sends);

  const Preamble& preamble() const { return preamble_; }
  const LaneShape& shape() const { return shape_; }
  bool sends() const { return sends_; }
  bool broken() const { return broken_; }

  // Transfers bytes and acknowledges received slices. True if any byte moved.
  bool Poll();
  // The slices received since the last call; if there are too many, the oldest are dropped.
  std::deque<Slice> TakeSlices() { return std::exchange(slices_, {}); }
  // Queues the next slice, sent when there is credit. REQUIRES: sends().
  void Send(Slice slice);
  // Sends an invalid header or acknowledgement.
  void Attack(Dice& dice);

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
  SliceTag tag_{};             // of the last received slice
  std::deque<Slice> slices_;   // received
  std::deque<Slice> waiting_;  // to be sent
  uint64_t next_ = 0;          // number of the next slice sent or received
  uint64_t credit_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_HOSTILE_LANE_H_

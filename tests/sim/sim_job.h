// A job in the simulated world: one process per rank, one communicator, buffers with known content.
#ifndef MCCS_TESTS_SIM_SIM_JOB_H_
#define MCCS_TESTS_SIM_SIM_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/sim_world.h"

namespace mccs {

class SimJob {
 public:
  // host_of_rank[r]: host of rank r. `bytes`: size of each buffer.
  SimJob(SimWorld& world, std::vector<int> host_of_rank, size_t bytes,
         const std::string& tenant = "uid 1000");
  // A job whose ranks exist already, listed by rank.
  struct RankOfTenant {
    SimTenant* tenant;
    SimRank* rank;
  };
  SimJob(SimWorld& world, const std::vector<RankOfTenant>& seats, size_t bytes);

  // Creates the communicator; false on timeout.
  bool Form();
  // The same in two steps: Begin requests the communicator, Formed reports whether it is formed.
  bool Begin(uint32_t init_timeout_ms = 0);
  bool Formed() const;
  // Whether the daemons have answered all registrations; whether they rejected any of them.
  bool BuffersAnswered() const;
  bool BufferRejected() const;
  std::string BufferRejection() const;  // the daemon's reason, the last one; empty: none
  bool Ended() const;                   // every rank's Destroy or Abort is answered
  int ranks() const { return static_cast<int>(members_.size()); }
  // Whether the process of rank r has requested the communicator.
  bool HasRank(int r) const { return members_[static_cast<size_t>(r)].rank != nullptr; }
  // REQUIRES: HasRank.
  SimRank& rank(int r) { return *members_[static_cast<size_t>(r)].rank; }
  SimTenant& tenant(int r) { return *members_[static_cast<size_t>(r)].tenant; }

  // Element `i` of rank r's input: a small integer, so that every sum is exact in float32.
  static float InputValue(int r, uint64_t i) {
    return static_cast<float>((i * 7 + static_cast<uint64_t>(r) * 13) % 31) - 15;
  }
  // Fills the inputs for `count` elements per rank and clears the outputs.
  void Fill(uint64_t count);
  // Posts one call on rank r.
  void Post(int r, OpKind kind, uint64_t count, int root = 0);
  void PostAll(OpKind kind, uint64_t count, int root = 0);
  // Posts an in-place all-reduce over the output, from element `at` on, with the same elements of
  // the input there. A lost operation leaves the input, one that runs twice gives a sum of sums.
  // Wrong() over adjacent operations detects both.
  void PostInPlace(int r, uint64_t count, uint64_t at);
  // A send or receive of rank r: `count` elements of its input or output, from element `at` on.
  struct Message {
    bool sends = true;
    int peer = 0;
    uint64_t at = 0;
    uint64_t count = 0;
    bool more = false;  // the next call of the rank belongs to the same group
  };
  void Post(int r, const Message& message);
  // Registers rank r's next RMA window: the first `count` elements of its output.
  void OpenWindow(int r, uint64_t count);
  // A put of rank r: `count` elements of its input from `at` on, to element `to` of the peer's
  // window.
  struct Put {
    int peer = 0;
    uint64_t at = 0;
    uint64_t count = 0;
    uint64_t to = 0;
    uint64_t window = 1;
    uint32_t signal = 0;
    bool more = false;
  };
  void Post(int r, const Put& put);
  // A wait for `signals` signals of the peer.
  struct Wait {
    int peer = 0;
    uint64_t signals = 1;
    uint32_t signal = 0;
    bool more = false;
  };
  void Post(int r, const Wait& wait);
  // Releases rank r's input and output; IsReleased: whether the daemon has unmapped both.
  void Release(int r);
  bool IsReleased(int r) const;
  // The collective or message as a call; `at`: first element in the rank's buffers.
  SimCall CallOf(int r, OpKind kind, uint64_t count, uint64_t at = 0) const;
  SimCall CallOf(int r, const Message& message) const;
  // Copies `count` elements of rank r's input from `at` on to its output, for a call in place.
  void CopyToOutput(int r, uint64_t at, uint64_t count);
  // All ranks have completed everything they posted. Complete runs the world until then; false on
  // timeout.
  bool Done() const;
  bool Complete(int64_t limit_ns = 10 * kNsPerSec);
  // Completes, and checks the results of the last collective: what is wrong; empty: nothing.
  std::string Finish(OpKind kind, uint64_t count, int root = 0);
  // Fills the buffers, posts the collective on every rank, and finishes it.
  std::string Run(OpKind kind, uint64_t count, int root = 0);
  // Runs the world until all these ranks have failed; false on timeout.
  bool RunUntilFailed(const std::vector<int>& ranks, int64_t limit_ns = 10 * kNsPerSec);
  // Requests the end of a rank. RunUntilEnded runs the world until it is answered; false on
  // timeout.
  void Destroy(int r) { tenant(r).Destroy(rank(r)); }
  void Abort(int r) { tenant(r).Abort(rank(r)); }
  bool RunUntilEnded(int r, int64_t limit_ns = 10 * kNsPerSec);
  float output(int r, uint64_t i) const { return members_[static_cast<size_t>(r)].output[i]; }
  // The value that Fill() writes to the outputs.
  static constexpr float kUnwritten = 1e9f;
  // Number of elements, over all ranks, that differ from the expected result.
  uint64_t Wrong(OpKind kind, uint64_t count, int root = 0) const;

 private:
  struct Member {
    SimTenant* tenant = nullptr;
    SimRank* rank = nullptr;
    std::vector<float> input, output;
  };
  float Expected(OpKind kind, int r, uint64_t i, uint64_t count, int root) const;
  void RegisterBuffers();
  wire::BufferRef RefOf(const Member& member, const std::vector<float>& buffer) const;

  SimWorld& world_;
  std::vector<Member> members_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_JOB_H_

// A job in the simulated world: one process per rank, one communicator, buffers with known
// contents.
#ifndef MCCS_TESTS_SIM_SIM_JOB_H_
#define MCCS_TESTS_SIM_SIM_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/sim_world.h"

namespace mccs {

class SimJob {
 public:
  // host_of_rank[r]: where rank r runs. `bytes` per buffer.
  SimJob(SimWorld& world, std::vector<int> host_of_rank, size_t bytes,
         const std::string& tenant = "uid 1000");
  // A job whose ranks are there already, in the order of their ranks.
  struct Seat {
    SimTenant* tenant;
    SimRank* rank;
  };
  SimJob(SimWorld& world, const std::vector<Seat>& seats, size_t bytes);

  // Makes the communicator; false when it does not form in time.
  bool Form();
  // The same in two steps: asks for it, and says whether it stands.
  bool Begin(uint32_t init_timeout_ms = 0);
  bool Formed() const;
  // What the daemons have said of its buffers: all of them something, or no to some.
  bool BuffersAnswered() const;
  bool BufferRefused() const;
  bool Ended() const;  // every rank's Destroy or Abort was answered
  int ranks() const { return static_cast<int>(members_.size()); }
  SimRank& rank(int r) { return *members_[static_cast<size_t>(r)].rank; }
  SimTenant& tenant(int r) { return *members_[static_cast<size_t>(r)].tenant; }

  // Element `i` of rank r's input: small integers, so that every sum is exact in float32.
  static float InputValue(int r, uint64_t i) {
    return static_cast<float>((i * 7 + static_cast<uint64_t>(r) * 13) % 31) - 15;
  }
  // Fills the inputs for `count` elements per rank and clears the outputs.
  void Fill(uint64_t count);
  // Posts the call on rank r.
  void Post(int r, OpKind kind, uint64_t count, int root = 0);
  void PostAll(OpKind kind, uint64_t count, int root = 0);
  // Posts an all-reduce in place over the output, `at` elements from its start, with the input's
  // elements there. One that is lost leaves them there, one that runs twice a sum of sums: Wrong()
  // over memory that several of them have filled one behind the other sees each.
  void PostInPlace(int r, uint64_t count, uint64_t at);
  // A send or receive of rank r: `count` elements from `at` on of its input or output.
  struct Message {
    bool sends = true;
    int peer = 0;
    uint64_t at = 0;
    uint64_t count = 0;
    bool more = false;  // the next call of the rank belongs to the same group
  };
  void Post(int r, const Message& message);
  // Rank r's next window: the first `count` elements of its output.
  void OpenWindow(int r, uint64_t count);
  // A put of rank r: `count` elements from `at` on of its input, to `to` of the peer's window.
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
  // Until `signals` signals of the peer have come.
  struct Wait {
    int peer = 0;
    uint64_t signals = 1;
    uint32_t signal = 0;
    bool more = false;
  };
  void Post(int r, const Wait& wait);
  // Rank r takes its input and its output back; whether the daemon has let go of both.
  void TakeBack(int r);
  bool HasBack(int r) const;
  // The collective as a call, `at` elements from the start of the rank's buffers; likewise a
  // message.
  SimCall CallOf(int r, OpKind kind, uint64_t count, uint64_t at = 0) const;
  SimCall CallOf(int r, const Message& message) const;
  // Puts `count` elements from `at` on of rank r's input into its output, for a call in place.
  void CopyToOutput(int r, uint64_t at, uint64_t count);
  // All ranks have done everything they posted.
  bool Done() const;
  float output(int r, uint64_t i) const { return members_[static_cast<size_t>(r)].output[i]; }
  // What Fill() leaves in the outputs.
  static constexpr float kUnwritten = 1e9f;
  // Elements that are not what the call should have given, over all ranks.
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

// Synchronizes the ranks of a run: distributes what they exchange, and starts a test only when all
// ranks have finished the previous one. Runs in rank 0's process, in its own thread.
//
// A rank that leaves a test early (it failed) must not block the others: the coordinator notifies
// ranks that wait for it in an exchange, now or later. If a rank never finishes, or its process
// ends, the coordinator ends the run by Events::broken.
#ifndef TESTS_CONFORMANCE_COORDINATOR_H_
#define TESTS_CONFORMANCE_COORDINATOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "conformance/control_link.h"

namespace conformance {

class Coordinator {
 public:
  // THREAD: the coordinator's.
  struct Events {
    std::function<void(size_t test, const Verdict&)> finished;
    // The run cannot continue. Must end the process.
    std::function<void(size_t test, const std::string& why)> broken;
  };
  struct Options {
    int ranks = 1;
    size_t tests = 0;
    std::chrono::seconds limit;  // from one verdict to the next, everything included
  };

  // Takes over `listener`.
  Coordinator(int listener, Options options, Events events);
  // Waits until the last verdict has been sent.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Member {
    int fd;
    FrameReader reader;
    int rank = -1;
    std::optional<Outcome> outcome;   // of the current test
    std::optional<std::string> part;  // of the current exchange
  };

  void Run();
  void Accept();
  void Handle(Member* member, const Frame& frame);
  void CompleteExchange(uint32_t participants);
  void RejectExchange();
  void HandleFinish(Member* member, const Frame& frame);
  void CompleteTest();
  void SendToAll(const Frame& frame);
  std::string Unfinished() const;
  bool AnyRankLeft() const;

  const int listener_;
  const Options options_;
  const Events events_;
  std::vector<Member> members_;
  size_t test_ = 0;
  Verdict verdict_;
  Clock::time_point began_;
  std::thread thread_;
};

}  // namespace conformance

#endif  // TESTS_CONFORMANCE_COORDINATOR_H_

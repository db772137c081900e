// Notices that an operation does not get on because some ranks have not entered it, and says which
// ranks wait for which. Costs nothing while operations get on: hosts ask each other only once one
// of them has waited for as long as its patience.
//
//   a host that has waited     leader                     every host
//   Stalled     ───────────►   (or its own patience)
//                              AskEntered  ───────────►
//                              ◄───────────  Entered
//                              HeldUp      ───────────►   a line in its log, a text in its report
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_HANG_WATCHER_H_
#define MCCS_SERVICE_COMMUNICATOR_HANG_WATCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/repeated_sentence.h"
#include "proto/peer.pb.h"
#include "service/communicator/membership.h"
#include "service/communicator/star.h"

namespace mccs {

// MCCS_WARN_AFTER, where the tenant does not say.
inline constexpr int64_t kDefaultPatienceNs = 10 * kNsPerSec;
// The least that a tenant may ask for: hosts ask each other about it.
inline constexpr int64_t kLeastPatienceNs = 100 * kNsPerMs;

// What hosts have said of themselves as one sentence, and the operation it is about: the one that
// the last host is at. An empty text: nobody is waited for.
struct HeldUp {
  uint64_t operation = 0;
  std::string text;
};
struct HostAnswers {
  std::map<HostIndex, peer::Entered> entered;
  std::vector<HostIndex> silent;  // asked, and have not answered
};
HeldUp DescribeHoldUp(const Membership& members, const HostAnswers& answers);

class HangWatcher {
 public:
  struct Options {
    const Membership* members;
    Star* star;
    Log* log;
    std::string name;  // of the communicator, in the log
    int64_t patience_ns = kDefaultPatienceNs;
    // Where this host is; asked for only when one has waited long.
    std::function<peer::Entered()> look;
  };

  // LIFETIME: members, star and log outlive this.
  explicit HangWatcher(Options options) : options_(std::move(options)) {}

  // `operation`: the one that runs or comes next on this host. `waiting`: a local rank has entered
  // it. True when held_up() has changed.
  bool Poll(MonotonicNs now, uint64_t operation, bool waiting);
  // True when the message was meant for this. kDataLoss: it makes no sense.
  absl::StatusOr<bool> Hear(const StarMessage& heard, MonotonicNs now);

  // Who waits for whom on this host; empty when operations get on.
  const std::string& held_up() const { return held_up_.text; }
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  void WaitedLong(MonotonicNs now);
  void Ask(MonotonicNs now);
  absl::Status TakeAnswer(HostIndex from, const peer::Entered& entered);
  std::vector<HostIndex> Silent() const;
  void Conclude(MonotonicNs now);
  void Learn(const HeldUp& held_up, MonotonicNs now);

  const Options options_;
  uint64_t operation_ = 0;
  MonotonicNs waiting_since_ = 0;  // in operation_; 0: not waiting
  MonotonicNs speak_at_ = 0;       // when this host tells (again) that it waits; 0: not waiting
  HeldUp held_up_;
  bool changed_ = false;
  RepeatedSentence in_log_;

  // The leader's question, while it is open.
  bool asking_ = false;
  uint64_t question_ = 0;
  MonotonicNs answers_until_ = 0;
  MonotonicNs ask_again_at_ = 0;
  HostAnswers answers_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_HANG_WATCHER_H_

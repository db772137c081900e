// What daemons have found out of the ways of flows, what they are being asked, and when to ask
// again (docs/decisions/0036-probing-paths.md).
//
//   wished ──Due──► asked ──Hear──► known ──kLookAgainNs, or a link change──► asked again, if a
//     ▲               │                                                       lane leaves from
//     there └──kRetryNs─────┴── no answer, or why not
//
// What is known counts until another answer comes. OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_PROBE_BOOK_H_
#define MCCS_CONTROLLER_PROBE_BOOK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "controller/probe_wishes.h"
#include "controller/registry.h"
#include "proto/agent.pb.h"
#include "topology/probed_paths.h"

namespace mccs {

class ProbeBook {
 public:
  // How long a daemon may take. Each has one question at a time.
  static constexpr int64_t kPatienceNs = 15 * kNsPerSec;
  static constexpr size_t kMaxFlowsOfQuestion = 64;
  // After this what lanes go by is looked at again.
  static constexpr int64_t kLookAgainNs = 60 * kNsPerSec;
  // After this a daemon is asked again for what it could not find out.
  static constexpr int64_t kRetryNs = 30 * kNsPerSec;
  // What no lane goes by is forgotten then.
  static constexpr int64_t kForgetNs = 600 * kNsPerSec;
  static constexpr size_t kMaxKnown = 1'000'000;

  // LIFETIME: `log` outlives it.
  explicit ProbeBook(Log* log) : log_(log) {}

  // For policies' views. Never null.
  std::shared_ptr<const ProbedPaths> known() const { return known_; }

  // What policies would like to know from now on.
  void Wish(std::vector<ProbeWish> wishes, MonotonicNs now);
  // Questions for hosts that are ready and have none open.
  std::vector<std::pair<AgentKey, agent::Probe>> Due(const Registry& registry, MonotonicNs now);
  // True where something else is known than before. An answer to another question, or by another
  // host, is nothing.
  bool Hear(const std::string& host, const agent::Probed& probed, MonotonicNs now);
  // Its stream has ended: nothing will come.
  void Lost(const std::string& host);

  // Links may have changed, for flows from this host or for all. What lanes go by is asked again,
  // at once; for all, the rest is forgotten.
  void LinksChanged(const std::string& host);
  void LinksChanged();

 private:
  struct Entry {
    MonotonicNs due = 0;    // when to ask for it (again)
    MonotonicNs heard = 0;  // when it became known
  };
  struct Question {
    uint64_t number = 0;
    std::vector<FiveTuple> flows;
    MonotonicNs until = 0;
  };

  // Whether it is news.
  bool Note(const FiveTuple& flow, const Hops& hops, MonotonicNs now);
  void TellWhyNot(const std::string& host, const std::string& why);
  void Forget(MonotonicNs now);

  Log* const log_;
  std::shared_ptr<const ProbedPaths> known_ = std::make_shared<const ProbedPaths>();
  std::map<FiveTuple, Entry> entries_;  // of all that is wished for or known
  std::vector<ProbeWish> wishes_;
  std::map<std::string, Question> open_;        // by host
  std::map<std::string, std::string> why_not_;  // by host: told last
  uint64_t last_ = 0;
};

// Whether connections of the host's lanes have broken since its report before: lanes may go other
// ways since.
bool LanesBroke(const Registry& registry, const std::string& host, const agent::Report& report);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PROBE_BOOK_H_

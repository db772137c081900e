// What the agent has to tell the controller, as a table of communicators with marks on what is not
// told yet. The engine writes it, the agent's threads empty it; both under the agent's mutex.
//
//   Announce, Report, Ended ──► entry, marked ──TakeUnsaid──► messages, marks removed
//   Propose, Pace, Tenants  ◄── kept until the engine takes them
//   Registration() marks every entry as if it had just been written: a new stream knows nothing.
//
// No threads, no network.
#ifndef MCCS_SERVICE_AGENT_AGENT_TABLE_H_
#define MCCS_SERVICE_AGENT_AGENT_TABLE_H_

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "proto/agent.pb.h"
#include "service/communicator/controller_link.h"

namespace mccs {

class AgentTable {
 public:
  // Entries beyond are not told of; the data plane does not care.
  static constexpr size_t kMaxEntries = 65536;

  void Announce(const CommunicatorInfo& info);
  void Report(const CommunicatorStats& stats);
  // The last word about a communicator.
  void Ended(CommId id, const std::string& why);
  // There is nobody to tell of what ended, but for what the stream's registration has named: the
  // controller may take that for running, and hears of it once it has accepted us.
  void ForgetEnded();
  // The stream is no more: nobody is left to tell of anything that ended.
  void ForgetRegistration();

  // All communicators that this host leads and that were announced, for a new stream. From here on
  // TakeUnsaid gives all reports again.
  std::vector<agent::Announce> Registration();
  // What has been written since, in an order in which the controller understands it. At most
  // kMaxUnsaid messages.
  std::vector<agent::FromAgent> TakeUnsaid();
  // All reports are told again: a controller that did not know a communicator when it was first
  // reported.
  void RepeatReports();

  // Keeps a proposal for TakeProposal. kNotFound: no such communicator here (it ended meanwhile);
  // kInvalidArgument: it does not fit.
  absl::Status Propose(const agent::Propose& proposal);
  std::optional<Proposal> TakeProposal();

  // Keeps an order for TakePace; one for a communicator that nobody has told of here waits for its
  // first report, with kMaxEarlyPaces others. kInvalidArgument: it makes no sense.
  absl::Status SetPace(const agent::Pace& order);
  std::optional<PaceOrder> TakePace();

  // There is something to take.
  bool has_orders() const {
    return !proposed_.empty() || !paced_.empty() || !questions_.empty() || tenants_.has_value();
  }

  // All that there are, until TakeTenants or the next ones.
  void SetTenants(const agent::Tenants& tenants);
  std::optional<std::vector<TenantEntry>> TakeTenants() {
    return std::exchange(tenants_, std::nullopt);
  }

  // An operator asks for the daemon's state. More than kMaxQuestions at a time are not taken.
  void Ask(uint64_t question);
  std::optional<uint64_t> TakeQuestion();
  void Answer(uint64_t question, const state::Daemon& state);
  // What came of a Probe. Where too many answers wait already this one is lost.
  void AnswerProbe(agent::Probed probed);
  // A stream has ended: nobody waits for answers any more.
  void ForgetQuestions();

  static constexpr size_t kMaxQuestions = 8;
  static constexpr size_t kMaxUnsaid = 256;
  // Of one communicator: what is in force, what it goes over to, and what came meanwhile.
  static constexpr size_t kMaxTaken = 8;
  static constexpr size_t kMaxEarlyPaces = 256;

 private:
  struct Entry {
    std::optional<agent::Announce> announce;  // this host leads
    bool announce_unsaid = false;
    bool registered = false;  // named in the registration of the stream that there is
    std::optional<agent::Report> report;
    bool report_unsaid = false;
    std::optional<std::string> ended;
    std::optional<Strategy> proposal;
    Epoch newest{0};              // of all proposals
    std::vector<Strategy> taken;  // proposals that the leader took, from the one in force on
    int hosts = 0;
  };

  Entry* Find(CommId id);
  // Of `orders`, the one for `id` gives way to this, which goes to the back.
  static void Put(std::deque<PaceOrder>* orders, PaceOrder order);

  std::map<CommId, Entry> entries_;
  std::deque<CommId> proposed_;  // with a proposal that was not taken, the oldest first
  std::deque<PaceOrder> paced_;  // to be taken; one for each communicator
  std::deque<PaceOrder> early_;  // likewise, of communicators that are not known yet
  std::optional<std::vector<TenantEntry>> tenants_;  // that the engine has not taken
  std::deque<uint64_t> questions_;                   // that the engine has not taken
  std::deque<agent::FromAgent> answers_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_AGENT_TABLE_H_

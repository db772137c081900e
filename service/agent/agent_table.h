// The agent's messages to the controller, as a table of communicators that marks unsent entries.
// The engine writes it and the agent's threads read it, both under the agent's mutex.
//
// clang-format off
//   Announce, Report, Ended ──► entry, marked ──TakeUnsaid──► messages, marks removed
//   Propose, Pace, Tenants  ◄── stored until the engine takes them
//   Registration() marks every entry as unsent, because a new stream has no state.
// clang-format on
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
  // Communicators beyond this number are not reported; they work all the same.
  static constexpr size_t kMaxEntries = 65536;

  void Announce(const CommunicatorInfo& info);
  void Report(const CommunicatorStats& stats);
  // The final report of a communicator.
  void Ended(CommId id, const std::string& why);
  // Drops the final reports, because there is no stream. Exception: communicators in the stream's
  // registration, which the controller may believe to run; they are reported once it has accepted.
  void ForgetEnded();
  // The stream has ended: drops all final reports.
  void ForgetRegistration();

  // All announced communicators that this host leads, for a new stream. Marks all reports as
  // unsent.
  std::vector<agent::Announce> Registration();
  // Returns unsent messages, each after those it depends on. At most kMaxUnsaid messages.
  std::vector<agent::FromAgent> TakeUnsaid();
  // Marks all reports as unsent, for a controller that did not know a communicator at its first
  // report.
  void RepeatReports();

  // Stores a proposal for TakeProposal. kNotFound: this host leads no such communicator (it may
  // have ended); kInvalidArgument: invalid strategy.
  absl::Status Propose(const agent::Propose& proposal);
  std::optional<Proposal> TakeProposal();

  // Stores an order for TakePace. An order for an unknown communicator waits for its first report;
  // at most kMaxEarlyPaces orders wait. kInvalidArgument: invalid order.
  absl::Status SetPace(const agent::Pace& order);
  std::optional<PaceOrder> TakePace();

  // Whether there is an order to take.
  bool has_orders() const {
    return !proposed_.empty() || !paced_.empty() || !questions_.empty() || tenants_.has_value();
  }

  // Stores the complete list for TakeTenants; replaces an earlier one.
  void SetTenants(const agent::Tenants& tenants);
  std::optional<std::vector<TenantEntry>> TakeTenants() {
    return std::exchange(tenants_, std::nullopt);
  }

  // Stores an operator's request for the daemon's state; ignored beyond kMaxQuestions.
  void Ask(uint64_t question);
  std::optional<uint64_t> TakeQuestion();
  void Answer(uint64_t question, const state::Daemon& state);
  // Stores the result of a Probe; dropped if too many answers are unsent.
  void AnswerProbe(agent::Probed probed);
  // The stream has ended: drops requests and answers.
  void ForgetQuestions();

  static constexpr size_t kMaxQuestions = 8;
  static constexpr size_t kMaxUnsaid = 256;
  // Per communicator: the current strategy, the next one, and those that arrived meanwhile.
  static constexpr size_t kMaxTaken = 8;
  static constexpr size_t kMaxEarlyPaces = 256;

 private:
  struct Entry {
    std::optional<agent::Announce> announce;  // this host leads
    bool announce_unsaid = false;
    bool registered = false;  // named in the registration of the current stream
    std::optional<agent::Report> report;
    bool report_unsaid = false;
    std::optional<std::string> ended;
    std::optional<Strategy> proposal;
    Epoch newest{0};              // of all proposals
    std::vector<Strategy> taken;  // proposals that the leader took, starting with the current one
    int hosts = 0;
  };

  Entry* Find(CommId id);
  // Replaces the order for the same communicator, if any, and appends the new one at the end.
  static void Put(std::deque<PaceOrder>* orders, PaceOrder order);

  std::map<CommId, Entry> entries_;
  std::deque<CommId> proposed_;  // with a proposal to take, oldest first
  std::deque<PaceOrder> paced_;  // to take; one per communicator
  std::deque<PaceOrder> early_;  // the same, for communicators that are not known yet
  std::optional<std::vector<TenantEntry>> tenants_;  // to take
  std::deque<uint64_t> questions_;                   // to take
  std::deque<agent::FromAgent> answers_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_AGENT_TABLE_H_

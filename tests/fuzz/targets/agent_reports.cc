// Messages of daemons to the controller (proto/agent.proto FromAgent), in any order, from two
// agents. The controller handles each, or ends its stream with an error message; its answers are
// for agents that it knows.
//
// FUZZES: controller/coordinator/*.cc controller/state/registry.cc
// FUZZES: controller/state/topology_mismatch.cc controller/measurement/*.cc
// FUZZES: controller/planning/planner.cc proto/report_progress.cc
#include <algorithm>
#include <memory>

#include "base/check.h"
#include "controller/api/operator_view.h"
#include "controller/coordinator/coordinator.h"
#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/controller/manual_clock.h"

namespace mccs {
namespace agent_reports_fuzz {

constexpr int kMostSteps = 64;
constexpr uint32_t kAgents = 2;
constexpr uint64_t kCommId = 1;
constexpr uint64_t kRendezvous = 7;  // h0 opens it, h1 seeks it

// Hosts h0 and h1 at one switch, two policies and a Tenant.
constexpr char kObjects[] =
    "apiVersion: mccs/v1\nkind: Topology\nmetadata: {name: t}\nspec:\n"
    "  racks: [{name: r0}]\n  switches: [{name: leaf0}]\n"
    "  hosts: [{name: \"h[0-1]\", rack: r0, gpus: 2,"
    " nics: [{name: nic0, switch: leaf0, capacity: 50Gbit/s}]}]\n"
    "---\napiVersion: mccs/v1\nkind: Tenant\nmetadata: {name: a}\nspec:\n"
    "  selector: {uids: [1000]}\n"
    "---\napiVersion: mccs/v1\nkind: Policy\nmetadata: {name: p}\nspec:\n"
    "  type: locality_ring\n  parameters: {order: [h1, h0]}\n";

std::shared_ptr<const ObjectSet> Objects() {
  const auto read = ReadObjects({{"a.yaml", kObjects}});
  MCCS_CHECK(read.ok());
  auto plan = PlanApply({}, *read);
  MCCS_CHECK(plan.ok());
  ForgetOrigins(&plan->next);
  return std::make_shared<ObjectSet>(std::move(plan->next));
}

// A message that the controller accepts.
agent::v1::FromAgent Valid(uint32_t kind, const std::string& host) {
  agent::v1::FromAgent message;
  switch (kind) {
    case 0:
      return Registration(MakeHost(host), {MakeRunning(kCommId, {"h0", "h1"})});
    case 1:
      return Registration(MakeHost(host));
    case 2:
      return Announcement(MakeAnnounce(kCommId, {"h0", "h1"}));
    case 3:
      return Announcement(MakeRunning(kCommId + 1, {"h1", "h0"}));
    case 4:
      return Reporting(kCommId, 1);
    case 5:
      return Reporting(kCommId + 1, 2);
    case 6:
      message.mutable_heartbeat()->set_sent_ns(1);
      break;
    case 7:
      message.mutable_ended()->set_comm_id(kCommId);
      break;
    case 8:
      message.mutable_reports()->add_progress()->set_comm_id(kCommId);
      break;
    case 9:
      message.mutable_dumped()->set_request_id(1);
      break;
    case 10:
      message.mutable_traced()->set_request_id(1);
      break;
    case 11:
      message.mutable_probed()->set_request_id(1);
      break;
    case 12:
      (host == "h0" ? message.mutable_named_rendezvous()->mutable_open()
                    : message.mutable_named_rendezvous()->mutable_sought())
          ->Add(kRendezvous);
      break;
    default:
      break;
  }
  return message;
}

class Controller {
 public:
  void Step(FuzzInput& input) {
    switch (input.Below(8)) {
      case 0:
        clock_.now += input.Byte() * kNsPerSec / 8;
        return coordinator_.Tick();
      case 1:
        return coordinator_.SetObjects(input.Below(2) == 0 ? objects() : none_);
      case 2:
        return Ask(input);
      case 3:
        return coordinator_.OnStreamClosed(AgentKey(1 + input.Below(kAgents)), "it ended");
      default:
        break;
    }
    const uint32_t agent = input.Below(kAgents);
    agent::v1::FromAgent message = Valid(input.Below(13), agent == 0 ? "h0" : "h1");
    const std::span<const uint8_t> more = input.Bytes(input.Byte());
    agent::v1::FromAgent changes;
    if (changes.ParseFromArray(more.data(), static_cast<int>(more.size()))) {
      message.MergeFrom(changes);
    }
    coordinator_.Handle(AgentKey(1 + agent), std::move(message));
  }

  void CheckAnswers() {
    for (const Outgoing& out : coordinator_.TakeOutbox()) {
      MCCS_CHECK(out.to.value() >= 1 && out.to.value() <= kAgents);
      if (out.message.has_value()) {
        MCCS_CHECK(out.message->kind_case() != agent::v1::ToAgent::KIND_NOT_SET);
      } else {
        MCCS_CHECK(out.end.ok() || !out.end.message().empty());
      }
    }
    for (StateAnswer& answer : coordinator_.TakeAnswers()) answer.callback(answer.state);
    for (TraceAnswer& answer : coordinator_.TakeTraceAnswers()) answer.callback(answer.reply);
    coordinator_.TakeEvents();
  }
  // The views of operators.
  void View() {
    ListHosts(coordinator_.state(), clock_.now);
    for (const auto& [id, record] : coordinator_.registry().communicators()) {
      const auto detail = DescribeCommunicator(coordinator_.state(), FormatCommId(id), clock_.now);
      MCCS_CHECK(detail.ok());
    }
  }

 private:
  static std::shared_ptr<const ObjectSet> objects() {
    static const std::shared_ptr<const ObjectSet> all = Objects();
    return all;
  }
  void Ask(FuzzInput& input) {
    if (input.Below(2) == 0) {
      const absl::Status asked = coordinator_.RequestState("h0", [](const auto&) {});
      MCCS_CHECK(asked.ok() || !asked.message().empty());
    } else if (coordinator_.registry().communicators().contains(CommId(kCommId))) {
      const auto asked = coordinator_.RequestTrace(CommId(kCommId), 4, [](const auto&) {});
      MCCS_CHECK(asked.ok() || !asked.status().message().empty());
    }
  }

  ManualClock clock_;
  ManualWallClock wall_clock_;
  const std::unique_ptr<Log> log_ = MakeNullLog();
  const std::shared_ptr<const ObjectSet> none_ = std::make_shared<ObjectSet>();
  Coordinator coordinator_{
      {.heartbeat_timeout_ns = 3 * kNsPerSec, .version = "test", .wall_clock = &wall_clock_},
      &clock_,
      log_.get()};
};

void Run(FuzzInput input) {
  Controller controller;
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    controller.Step(input);
    controller.CheckAnswers();
  }
  controller.View();
}

const FuzzTarget kTarget("agent_reports", Run);

}  // namespace agent_reports_fuzz
}  // namespace mccs

// Measures the processor time that a controller spends on the reports of its daemons: a real
// controller in this process, and the agents of all hosts in another one, each with a connection of
// its own. Prints one JSON line.
//
//   report_load [--hosts 1000] [--communicators 25] [--span 1000] [--channels 2] [--seconds 10]
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "controller/api/server.h"
#include "controller/coordinator/coordinator.h"
#include "controller/coordinator/registration.h"
#include "controller/state/catalog.h"
#include "controller/store/memory_store.h"
#include "proto/agent.grpc.pb.h"
#include "service/agent/agent_table.h"
#include "service/agent/order_proto.h"
#include "service/communicator/reporter.h"

namespace mccs {
namespace {

constexpr int64_t kHeartbeatTimeoutNs = 60 * kNsPerSec;
constexpr int64_t kTickEveryNs = 500 * kNsPerMs;
// Spans of activity in a report.
constexpr int kSpansReported = 16;

struct Load {
  int hosts = 1000;
  int communicators = 25;  // of each host
  int span = 1000;         // hosts of a communicator
  int channels = 2;
  int seconds = 10;
};

// Messages of all agents in the measured time.
struct Sent {
  int64_t report_every_ns = 0;
  uint64_t reports = 0;
  uint64_t messages = 0;
  uint64_t bytes = 0;
};

double ProcessSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string HostName(int host) { return absl::StrCat("host-", host); }

// The agent of one host, with its connection.
class HostAgent {
 public:
  HostAgent(const Load& load, int host, const std::string& controller)
      : load_(load), host_(host), group_(host / load.span) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    channel_ = grpc::CreateCustomChannel(controller, grpc::InsecureChannelCredentials(), arguments);
    stub_ = agent::v1::AgentHub::NewStub(channel_);
    stream_ = stub_->Attach(&context_);
    agent::v1::FromAgent message;
    agent::v1::Register* registration = message.mutable_registration();
    registration->set_protocol(kAgentProtocol);
    registration->mutable_host()->set_name(HostName(host));
    registration->mutable_host()->set_peer_endpoint(absl::StrCat("10.0.0.1:", host + 1));
    if (host % load.span == 0) {
      for (int c = 0; c < load.communicators; ++c)
        *registration->add_communicators() = AnnounceOf(c);
    }
    MCCS_CHECK(stream_->Write(message));
    agent::v1::ToAgent answer;
    MCCS_CHECK(stream_->Read(&answer) && answer.has_registered());
    report_every_ns_ = *ReportIntervalFromProto(answer);
  }

  int64_t report_every_ns() const { return report_every_ns_; }
  // Waits for messages until one sets another interval. False: the stream has ended.
  bool AwaitReportInterval() {
    agent::v1::ToAgent message;
    while (stream_->Read(&message)) {
      const std::optional<int64_t> interval = ReportIntervalFromProto(message);
      if (!interval) continue;
      report_every_ns_ = *interval;
      return true;
    }
    return false;
  }
  void Cancel() { context_.TryCancel(); }

  ~HostAgent() { context_.TryCancel(); }

  // A communicator has progressed since its last report.
  void Report(int communicator, MonotonicNs now, Sent* sent) {
    if (communicator == 0) ++rounds_;
    table_.Report(ReportOf(communicator, now));
    ++sent->reports;
    SendDue(now, sent);
  }
  void SendDue(MonotonicNs now, Sent* sent) {
    for (const agent::v1::FromAgent& message : table_.TakeUnsent(now)) {
      ++sent->messages;
      sent->bytes += message.ByteSizeLong();
      MCCS_CHECK(stream_->Write(message));
    }
  }

 private:
  uint64_t IdOf(int communicator) const {
    return static_cast<uint64_t>(group_ * load_.communicators + communicator) + 1;
  }

  agent::v1::Announce AnnounceOf(int communicator) const {
    agent::v1::Announce announce;
    announce.set_comm_id(IdOf(communicator));
    announce.set_tenant("uid 1000");
    announce.set_running(true);
    for (int h = 0; h < load_.span; ++h) {
      announce.add_hosts(HostName(group_ * load_.span + h));
      cluster::Member* member = announce.add_members();
      member->set_rank(h);
      member->set_host(announce.hosts(h));
    }
    strategy::Strategy* strategy = announce.mutable_strategy();
    strategy->set_epoch(1);
    strategy->set_origin("daemon default");
    for (int c = 0; c < load_.channels; ++c) {
      strategy::ChannelStrategy* channel = strategy->add_channels();
      for (int h = 0; h < load_.span; ++h) channel->add_ring(h);
    }
    return announce;
  }

  agent::v1::Report ReportOf(int communicator, MonotonicNs now) const {
    agent::v1::Report report;
    report.set_comm_id(IdOf(communicator));
    report.set_epoch(1);
    report.set_operations(100 * rounds_);
    report.set_bytes(rounds_ << 30);
    report.set_state("active");
    for (const char* kind : {"all_reduce", "all_gather"}) {
      agent::v1::KindWork* work = report.add_work();
      work->set_kind(kind);
      work->set_operations(50 * rounds_);
      work->set_bytes(rounds_ << 29);
    }
    const int self = host_ % load_.span;
    for (int c = 0; c < load_.channels; ++c) {
      agent::v1::Lane* lane = report.add_lanes();
      lane->set_channel(c);
      lane->set_from(self);
      lane->set_to((self + 1) % load_.span);
      lane->set_local(absl::StrCat("10.1.2.3:", 50'000 + c));
      lane->set_remote("10.1.2.4:7400");
      lane->set_state("up");
      lane->set_payload_bytes(rounds_ << 29);
      lane->set_waited_for_credit_ns(static_cast<int64_t>(rounds_) * 1'000'000);
      lane->set_waited_for_connection_ns(static_cast<int64_t>(rounds_) * 2'000'000);
      lane->set_round_trip_ns(50'000);
    }
    report.set_measured_ns(now);
    agent::v1::Activity* activity = report.mutable_activity();
    activity->set_begin_ns(now - kNsPerSec);
    for (int i = 0; i < 2 * kSpansReported - 1; ++i)
      activity->add_span_ns(static_cast<uint64_t>(30 * kNsPerMs + i));
    report.set_sent_bps(40'000'000'000);
    report.set_memory_bps(80'000'000'000);
    return report;
  }

  const Load& load_;
  const int host_;
  const int group_;  // of the hosts that share their communicators
  uint64_t rounds_ = 0;
  std::atomic<int64_t> report_every_ns_ = 0;
  AgentTable table_;
  grpc::ClientContext context_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<agent::v1::AgentHub::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<agent::v1::FromAgent, agent::v1::ToAgent>> stream_;
};

// One report of each communicator, or the message that has them, at a time of each interval.
struct Event {
  int64_t offset_ns = 0;
  int host = 0;
  int communicator = -1;  // -1: the message
};

// As the daemons' reporters and agents: each communicator reports once per interval, those of one
// host within a part of it, and a while later they are sent. Hosts have different clocks, so
// theirs are spread evenly over the interval.
std::vector<Event> EventsOf(const Load& load, int64_t report_every_ns) {
  std::vector<Event> events;
  const auto add = [&](int host, int communicator, int64_t ns) {
    const int64_t offset = (report_every_ns * host / load.hosts + ns) % report_every_ns;
    events.push_back({.offset_ns = offset, .host = host, .communicator = communicator});
  };
  for (int h = 0; h < load.hosts; ++h) {
    for (int c = 0; c < load.communicators; ++c)
      add(h, c, Reporter::kSpreadNs * c / load.communicators);
    add(h, -1, AgentTable::kCollectNs + kNsPerMs);
  }
  std::ranges::stable_sort(events, {}, &Event::offset_ns);
  return events;
}

// Reports of all communicators for `ns`, at the interval of the last registered agent. A controller
// that is too slow makes the intervals longer.
Sent RunAgents(const Load& load, std::vector<std::unique_ptr<HostAgent>>& agents, int64_t ns) {
  const SystemClock clock;
  const int64_t report_every_ns = agents.back()->report_every_ns();
  const std::vector<Event> events = EventsOf(load, report_every_ns);
  const MonotonicNs begin = clock.Now();
  Sent sent = {.report_every_ns = report_every_ns};
  for (size_t n = 0; clock.Now() - begin < ns || n % events.size() != 0; ++n) {
    const Event& event = events[n % events.size()];
    const MonotonicNs due =
        begin + static_cast<int64_t>(n / events.size()) * report_every_ns + event.offset_ns;
    if (const int64_t early = due - clock.Now(); early > kNsPerMs)
      std::this_thread::sleep_for(std::chrono::nanoseconds(early));
    HostAgent& agent = *agents[static_cast<size_t>(event.host)];
    if (event.communicator < 0) {
      agent.SendDue(clock.Now(), &sent);
    } else {
      agent.Report(event.communicator, clock.Now(), &sent);
    }
  }
  return sent;
}

template <typename T>
void Put(int pipe, const T& value) {
  MCCS_CHECK(write(pipe, &value, sizeof(value)) == static_cast<ssize_t>(sizeof(value)));
}

template <typename T>
T Take(int pipe) {
  T value{};
  if (read(pipe, &value, sizeof(value)) != static_cast<ssize_t>(sizeof(value))) {
    std::cerr << "report_load: the other process has ended\n";
    std::exit(1);
  }
  return value;
}

// The agents' process. Marks the begin of the measured interval with a byte, its end with a Sent.
int RunAgentsProcess(const Load& load, int from_controller, int to_controller) {
  const std::string controller = absl::StrCat("127.0.0.1:", Take<int>(from_controller));
  std::vector<std::unique_ptr<HostAgent>> agents;
  for (int h = 0; h < load.hosts; ++h)
    agents.push_back(std::make_unique<HostAgent>(load, h, controller));
  // All agents are sent the same interval, and the controller's ticks change it.
  std::thread listener([&] {
    while (agents.back()->AwaitReportInterval()) {
    }
  });
  // The first reports are complete, and several ticks pass.
  RunAgents(load, agents, 4 * kTickEveryNs);
  Put(to_controller, char{});
  const Sent sent = RunAgents(load, agents, load.seconds * kNsPerSec);
  if (sent.report_every_ns != agents.back()->report_every_ns())
    std::cerr << "report_load: the interval has changed during the measurement\n";
  Put(to_controller, sent);
  Take<char>(from_controller);
  agents.back()->Cancel();
  listener.join();
  return 0;
}

int RunController(const Load& load, int from_agents, int to_agents) {
  const SystemClock clock;
  const SystemWallClock wall_clock;
  const std::unique_ptr<Log> log = MakeStderrLog("report_load", LogLevel::kError);
  MemoryStore store;
  auto catalog = Catalog::Open(&store, &wall_clock, log.get());
  MCCS_CHECK(catalog.ok());
  SharedCoordinator coordinator({.heartbeat_timeout_ns = kHeartbeatTimeoutNs, .version = "bench"},
                                &clock, log.get());
  const Access access(Access::Clients::kAnyone);
  auto server =
      ControllerServer::Start("127.0.0.1:0", {}, &access, &coordinator, catalog->get(), log.get());
  MCCS_CHECK(server.ok());
  std::atomic<bool> stop = false;
  std::thread ticks([&] {
    while (!stop) {
      (*server)->Tick();
      std::this_thread::sleep_for(std::chrono::nanoseconds(kTickEveryNs));
    }
  });
  Put(to_agents, (*server)->port());
  Take<char>(from_agents);
  const MonotonicNs begin = clock.Now();
  const double before = ProcessSeconds();
  const Sent sent = Take<Sent>(from_agents);
  const double used = ProcessSeconds() - before;
  const double seconds = static_cast<double>(clock.Now() - begin) / kNsPerSec;
  const auto known = static_cast<size_t>(load.hosts / load.span * load.communicators);
  const bool all = coordinator.With([&](Coordinator& c) {
    const auto& records = c.registry().communicators();
    return records.size() == known &&
           std::all_of(records.begin(), records.end(), [&](const auto& entry) {
             return entry.second.reports.size() == static_cast<size_t>(load.span);
           });
  });
  stop = true;
  ticks.join();
  Put(to_agents, char{});
  if (!all) {
    std::cerr << "report_load: the controller has not got all reports\n";
    return 1;
  }
  const double wanted = static_cast<double>(load.hosts) * load.communicators /
                        (static_cast<double>(sent.report_every_ns) / kNsPerSec);
  const auto reports = static_cast<double>(sent.reports);
  std::printf(
      "{\"hosts\": %d, \"communicators_per_host\": %d, \"hosts_per_communicator\": %d, "
      "\"report_every_ms\": %.0f, \"reports_per_s\": %.0f, \"messages_per_s\": %.0f, "
      "\"bytes_per_report\": %.1f, "
      "\"us_per_report\": %.3f, \"cores\": %.3f}\n",
      load.hosts, load.communicators, load.span,
      static_cast<double>(sent.report_every_ns) / kNsPerMs, reports / seconds,
      static_cast<double>(sent.messages) / seconds, static_cast<double>(sent.bytes) / reports,
      used / reports * 1e6, used / reports * wanted);
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  mccs::Load load;
  CLI::App app{
      "Measures the controller's processor time for its daemons' reports. Prints a JSON line; "
      "`cores`: processors in use if each communicator of each host reports as often as the "
      "controller asks (`report_every_ms`)."};
  app.add_option("--hosts", load.hosts, "number of hosts")->capture_default_str();
  app.add_option("--communicators", load.communicators, "communicators of each host")
      ->capture_default_str();
  app.add_option("--span", load.span, "hosts of each communicator; divides --hosts")
      ->capture_default_str();
  app.add_option("--channels", load.channels, "channels of each communicator")
      ->capture_default_str();
  app.add_option("--seconds", load.seconds, "duration of the measurement")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (load.span < 1 || load.hosts < load.span || load.hosts % load.span != 0) {
    std::cerr << "report_load: invalid --span " << load.span << ": it must divide --hosts\n";
    return 2;
  }
  // A connection takes a descriptor of each process.
  const rlimit descriptors = {static_cast<rlim_t>(load.hosts) + 1000,
                              static_cast<rlim_t>(load.hosts) + 1000};
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  if (now.rlim_cur < descriptors.rlim_cur) setrlimit(RLIMIT_NOFILE, &descriptors);
  int to_agents[2], to_controller[2];
  if (pipe(to_agents) != 0 || pipe(to_controller) != 0) return 1;
  const pid_t agents = fork();  // before gRPC starts its threads
  if (agents < 0) return 1;
  if (agents == 0) {
    close(to_agents[1]);
    close(to_controller[0]);
    std::exit(mccs::RunAgentsProcess(load, to_agents[0], to_controller[1]));
  }
  close(to_agents[0]);
  close(to_controller[1]);
  const int result = mccs::RunController(load, to_controller[0], to_agents[1]);
  close(to_agents[1]);
  int status = 0;
  waitpid(agents, &status, 0);
  return result;
}

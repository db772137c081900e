// A controller that sends the messages of a file to daemons and prints the daemons' reports.
//
//   scripted_controller ADDRESS:PORT ORDERS CERTIFICATE
//
// ORDERS: ToAgent messages (proto/agent.proto) in text format, separated by lines "---", for every
// communicator. The leader gets the first proposal when it announces the communicator, and each
// further one when the previous one is enforced. Each host gets the rates when it first reports the
// communicator, and each Probe once, with a heartbeat. The file is read again each time.
// CERTIFICATE: the directory of the controller's (trust/certificate_directory.h).
// Output: "listening"; "HOST registered" for each host; "HOST probed JSON" for each answer to a
// Probe; "HOST JSON" for each report.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "proto/agent.grpc.pb.h"
#include "proto/report_progress.h"
#include "trust/certificate_directory.h"
#include "trust/grpc/credentials.h"

namespace mccs {
namespace {

constexpr int kTries = 400;

std::vector<agent::v1::ToAgent> ReadOrders(const std::string& path) {
  std::ifstream file(path);
  std::vector<agent::v1::ToAgent> orders;
  std::string text;
  const auto take = [&] {
    if (!google::protobuf::TextFormat::ParseFromString(text, &orders.emplace_back())) {
      std::cerr << path << ": invalid ToAgent message:\n" << text;
      std::exit(1);
    }
    text.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line == "---") {
      take();
    } else {
      text += line + "\n";
    }
  }
  if (!text.empty()) take();
  return orders;
}

class Hub final : public agent::v1::AgentHub::Service {
 public:
  explicit Hub(std::string path) : path_(std::move(path)) {}

  grpc::Status Attach(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<agent::v1::ToAgent, agent::v1::FromAgent>* stream) override {
    std::string host;
    std::set<uint64_t> sent_rate_limits, probed;
    Epochs proposed;
    std::map<uint64_t, agent::v1::Report> reports;  // by communicator
    agent::v1::FromAgent message;
    while (stream->Read(&message)) {
      agent::v1::ToAgent answer;
      if (message.has_registration()) {
        host = message.registration().host().name();
        answer.mutable_registered()->set_heartbeat_every_ns(500'000'000);
        answer.mutable_registered()->set_heartbeat_timeout_ns(10'000'000'000);
        stream->Write(answer);
        Say(host, "registered");
      } else if (message.has_heartbeat()) {
        answer.mutable_heartbeat();
        stream->Write(answer);
        SendProbes(stream, probed);
      } else if (message.has_probed()) {
        Say(host, "probed " + ToJson(message.probed()));
      } else if (message.has_announce() && !message.announce().running()) {
        proposed[message.announce().comm_id()] = 0;
        ProposeNext(stream, message.announce().comm_id(), proposed);
      } else if (message.has_reports()) {
        for (const agent::v1::Report& report : message.reports().complete()) {
          reports[report.comm_id()] = report;
          Say(host, ToJson(report));
          // The leader has switched to the last proposal.
          const auto leads = proposed.find(report.comm_id());
          if (leads != proposed.end() && leads->second == report.epoch()) {
            ProposeNext(stream, report.comm_id(), proposed);
          }
          if (sent_rate_limits.insert(report.comm_id()).second)
            SendRateLimits(stream, report.comm_id());
        }
        for (const agent::v1::Progress& progress : message.reports().progress()) {
          agent::v1::Report& report = reports[progress.comm_id()];
          if (ApplyProgress(progress, &report)) Say(host, ToJson(report));
        }
      }
    }
    return grpc::Status::OK;
  }

 private:
  using Stream = grpc::ServerReaderWriter<agent::v1::ToAgent, agent::v1::FromAgent>;
  // By communicator that the stream's host leads: the epoch of the last proposal.
  using Epochs = std::map<uint64_t, uint64_t>;

  void ProposeNext(Stream* stream, uint64_t comm_id, Epochs& proposed) {
    for (agent::v1::ToAgent order : ReadOrders(path_)) {
      if (!order.has_propose()) continue;
      if (order.propose().strategy().epoch() <= proposed[comm_id]) continue;
      proposed[comm_id] = order.propose().strategy().epoch();
      order.mutable_propose()->set_comm_id(comm_id);
      stream->Write(order);
      return;
    }
  }
  void SendRateLimits(Stream* stream, uint64_t comm_id) {
    for (agent::v1::ToAgent order : ReadOrders(path_)) {
      if (!order.has_rate_limits()) continue;
      order.mutable_rate_limits()->set_comm_id(comm_id);
      stream->Write(order);
    }
  }
  // `asked`: the numbers of the Probes already sent.
  void SendProbes(Stream* stream, std::set<uint64_t>& asked) {
    for (const agent::v1::ToAgent& order : ReadOrders(path_)) {
      if (order.has_probe() && asked.insert(order.probe().request_id()).second)
        stream->Write(order);
    }
  }
  static std::string ToJson(const google::protobuf::Message& message) {
    std::string json;
    (void)google::protobuf::util::MessageToJsonString(message, &json);
    return json;
  }
  void Say(const std::string& host, const std::string& what) {
    const std::lock_guard lock(mutex_);
    std::cout << host << " " << what << std::endl;
  }

  const std::string path_;
  std::mutex mutex_;  // guards std::cout
};

int Main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: scripted_controller ADDRESS:PORT ORDERS CERTIFICATE\n";
    return 2;
  }
  ReadOrders(argv[2]);
  Hub hub(argv[2]);
  const SystemWallClock clock;
  std::unique_ptr<grpc::Server> server;
  // Retry: the previous listener may still be exiting.
  for (int i = 0; i < kTries && server == nullptr; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    grpc::ServerBuilder builder;
    builder.AddListeningPort(
        argv[1], *TlsServerCredentials({.files = TlsFilesIn(argv[3]), .clock = &clock}));
    builder.RegisterService(&hub);
    server = builder.BuildAndStart();
  }
  if (server == nullptr) {
    std::cerr << "cannot listen at " << argv[1] << "\n";
    return 1;
  }
  std::cout << "listening" << std::endl;
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }

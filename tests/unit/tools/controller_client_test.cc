// ControllerClient against a fake controller over gRPC on loopback.
#include "tools/mccsctl/controller_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "proto/operator.grpc.pb.h"

namespace mccs {
namespace controller_client_test {

// gRPC's default limit for received messages.
constexpr size_t kGrpcsLimit = 4 << 20;

class FakeController final : public control::v1::Operator::Service {
 public:
  FakeController() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  // Sets the status of all calls.
  void Answer(grpc::Status status) { status_ = std::move(status); }
  ~FakeController() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status ListAudit(grpc::ServerContext* /*context*/,
                         const control::v1::ListAuditRequest* /*request*/,
                         control::v1::ListAuditReply* reply) override {
    for (int i = 0; i < 10'000; ++i) reply->add_entries()->set_outcome(std::string(500, 'x'));
    return status_;
  }
  grpc::Status Delete(grpc::ServerContext* /*context*/,
                      const control::v1::DeleteRequest* /*request*/,
                      control::v1::ChangeReply* /*reply*/) override {
    return status_;
  }
  grpc::Status Drain(grpc::ServerContext* /*context*/, const control::v1::DrainRequest* /*request*/,
                     control::v1::DrainReply* /*reply*/) override {
    return status_;
  }
  grpc::Status Apply(grpc::ServerContext* /*context*/, const control::v1::ApplyRequest* /*request*/,
                     control::v1::ChangeReply* reply) override {
    reply->add_objects()->set_after(std::string(kGrpcsLimit + 1, 'x'));
    return status_;
  }

 private:
  grpc::Status status_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(ControllerClient, ReceivesRepliesLargerThanGrpcsDefaultLimit) {
  const FakeController controller;
  ControllerClient client({.address = controller.address()});
  const auto audit = client.ListAudit(10'000);
  ASSERT_TRUE(audit.ok()) << audit.status();
  EXPECT_EQ(audit->entries_size(), 10'000);
  const auto change = client.Apply({});
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->objects(0).after().size(), kGrpcsLimit + 1);
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(ControllerClient, TimeoutOfAChangeSaysThatItMayHaveBeenMade) {
  FakeController controller;
  controller.Answer({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"});
  ControllerClient client({.address = controller.address()});
  const std::string text =
      absl::StrCat("no reply from mccs-controller at ", controller.address(),
                   " within 30 s; the change may have been made: check with mccsctl get");
  EXPECT_EQ(Text(client.Apply({}).status()), text);
  EXPECT_EQ(Text(client.Delete({}).status()), text);
  EXPECT_EQ(Text(client.Drain({}).status()), text);
  EXPECT_EQ(client.Drain({}).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(ControllerClient, TimeoutOfAReadDoesNotMentionChanges) {
  FakeController controller;
  controller.Answer({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"});
  ControllerClient client({.address = controller.address()});
  EXPECT_EQ(Text(client.ListAudit(1).status()),
            absl::StrCat("no reply from mccs-controller at ", controller.address(),
                         " within 10 s: it is busy (see --timeout), or the address is wrong"));
  control::v1::ApplyRequest apply;
  apply.set_dry_run(true);
  EXPECT_EQ(Text(client.Apply(apply).status()),
            absl::StrCat("no reply from mccs-controller at ", controller.address(),
                         " within 30 s: it is busy (see --timeout), or the address is wrong"));
}

TEST(ControllerClient, OwnTimeoutReplacesTheLimitOfEveryCall) {
  FakeController controller;
  controller.Answer({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"});
  ControllerClient client({.address = controller.address(), .timeout_s = 45});
  for (const absl::Status& status : {client.ListAudit(1).status(), client.Drain({}).status()})
    EXPECT_THAT(Text(status), testing::HasSubstr(" within 45 s"));
}

TEST(ControllerClient, EndsACallToASilentServer) {
  const UniqueFd silent(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(silent.get(), generic, length), 0);
  ASSERT_EQ(listen(silent.get(), 1), 0);
  ASSERT_EQ(getsockname(silent.get(), generic, &length), 0);
  ControllerClient client(
      {.address = absl::StrCat("127.0.0.1:", ntohs(address.sin_port)), .timeout_s = 0.2});
  EXPECT_EQ(client.Version().status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace controller_client_test
}  // namespace mccs

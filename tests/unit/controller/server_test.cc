// The controller's server over gRPC on loopback: operators' calls and health.
#include "controller/api/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "controller/store/memory_store.h"
#include "proto/agent.grpc.pb.h"
#include "proto/operator.grpc.pb.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/eventually.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace server_test {

using Stub = control::v1::Operator::Stub;
using testing::HasSubstr;

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    catalog_ = *Catalog::Open(&store_, &wall_clock_, log_.get());
    auto server = ControllerServer::Start("127.0.0.1:0", {}, &access_, &coordinator_,
                                          catalog_.get(), log_.get());
    MCCS_CHECK(server.ok());
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = control::v1::Operator::NewStub(channel_);
  }

  grpc::Status Apply(const std::string& text, control::v1::ChangeReply* reply,
                     bool dry_run = false) {
    control::v1::ApplyRequest request;
    request.mutable_caller()->set_user("ann@login1");
    request.set_dry_run(dry_run);
    request.add_files()->set_name("a.yaml");
    request.mutable_files(0)->set_text(text);
    return Call(&Stub::Apply, request, reply);
  }
  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const std::type_identity_t<Request>& request, Reply* reply) {
    grpc::ClientContext context;
    return (stub_.get()->*method)(&context, request, reply);
  }
  // Communicator 7 of h0 and h1, which h0 announces.
  void StartCommunicator() {
    coordinator_.With([](Coordinator& c) {
      c.Handle(AgentKey(1), Registration(MakeHost("h0")));
      c.Handle(AgentKey(2), Registration(MakeHost("h1")));
      c.Handle(AgentKey(1), Announcement(MakeAnnounce(7, {"h0", "h1"})));
    });
  }

  // The raw reply of `method`, for services without generated code.
  std::string Raw(const std::string& method, const std::string& request) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    void* tag = nullptr;
    bool ok = false;
    auto stream = stub.PrepareCall(&context, method, &queue);
    const auto step = [&](auto start) {
      start();
      return queue.Next(&tag, &ok) && ok;
    };
    grpc::Slice slice(request);
    grpc::ByteBuffer out(&slice, 1), in;
    if (!step([&] { stream->StartCall(&tag); })) return "";
    if (!step([&] { stream->Write(out, &tag); })) return "";
    if (!step([&] { stream->WritesDone(&tag); })) return "";
    if (!step([&] { stream->Read(&in, &tag); })) return "";
    std::vector<grpc::Slice> slices;
    if (!in.Dump(&slices).ok()) return "";
    std::string bytes;
    for (const grpc::Slice& each : slices) bytes.append(each.begin(), each.end());
    grpc::Status status;
    step([&] { stream->Finish(&status, &tag); });
    return bytes;
  }

  SystemClock clock_;
  SystemWallClock wall_clock_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  MemoryStore store_;
  std::unique_ptr<Catalog> catalog_;
  const Access access_{Access::Clients::kAnyone};
  SharedCoordinator coordinator_{{5 * kNsPerSec, "test"}, &clock_, log_.get()};
  std::unique_ptr<ControllerServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(ServerTest, ObjectsAreAppliedListedDeletedAndAudited) {
  control::v1::ChangeReply change;
  ASSERT_TRUE(Apply(TenantDocument("a", 1), &change, /*dry_run=*/true).ok());
  EXPECT_TRUE(change.dry_run());
  EXPECT_EQ(change.objects(0).version(), 0u);
  const std::string tenant = TenantDocument("a", 1, "  quotas: {communicators: 1}\n");
  ASSERT_TRUE(Apply(tenant, &change).ok());
  EXPECT_EQ(change.objects(0).kind(), control::v1::CREATED);
  EXPECT_EQ(change.objects(0).version(), 1u);
  EXPECT_EQ(change.notes_size(), 0) << "all of it is acted on";

  control::v1::ListObjectsRequest list;
  control::v1::ListObjectsReply objects;
  list.set_kind("Tenant");
  ASSERT_TRUE(Call(&Stub::ListObjects, list, &objects).ok());
  ASSERT_EQ(objects.objects_size(), 1);
  EXPECT_THAT(objects.objects(0).document(), HasSubstr("resourceVersion: 1"));

  control::v1::DeleteRequest remove;
  remove.add_objects()->set_kind("Tenant");
  remove.mutable_objects(0)->set_name("a");
  ASSERT_TRUE(Call(&Stub::Delete, remove, &change).ok());
  EXPECT_EQ(change.objects(0).kind(), control::v1::DELETED);

  control::v1::ListAuditReply audit;
  ASSERT_TRUE(Call(&Stub::ListAudit, {}, &audit).ok());
  ASSERT_EQ(audit.entries_size(), 2);
  EXPECT_THAT(audit.entries(1).peer(), HasSubstr("127.0.0.1:"));
  EXPECT_EQ(audit.entries(1).user(), "ann@login1");
  EXPECT_EQ(audit.entries(0).user(), "");
}

TEST_F(ServerTest, ErrorsHaveTheirStatusCodes) {
  control::v1::ChangeReply change;
  EXPECT_EQ(Apply("nonsense", &change).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(
      Apply(TenantDocument("a", 1, "  guarantee: 2Gbit/s\n  cap: 1Gbit/s\n"), &change).error_code(),
      grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Apply(Document("Tenant", "a", "  selector: {uids: [1]}\n", 4), &change).error_code(),
            grpc::StatusCode::ABORTED);
  control::v1::ListObjectsRequest list;
  control::v1::ListObjectsReply objects;
  list.set_kind("Pod");
  EXPECT_EQ(Call(&Stub::ListObjects, list, &objects).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  list.set_kind("Tenant");
  list.add_names("x");
  EXPECT_EQ(Call(&Stub::ListObjects, list, &objects).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, DrainsAreKeptUndoneAndAudited) {
  const auto drain = [&](const std::string& what, const std::string& name, bool undo,
                         control::v1::DrainReply* reply) {
    control::v1::DrainRequest request;
    request.mutable_caller()->set_user("ann@login1");
    request.set_kind(what);
    request.set_name(name);
    request.set_undo(undo);
    return Call(&Stub::Drain, request, reply).error_code();
  };
  control::v1::DrainReply reply;
  EXPECT_EQ(drain("host", "h1", false, &reply), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(drain("rack", "r1", false, &reply), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(drain("host", "h1", true, &reply), grpc::StatusCode::FAILED_PRECONDITION);
  coordinator_.With([](Coordinator& c) {
    c.Handle(AgentKey(1), Registration(MakeHost("h1")));
    c.Handle(AgentKey(1), Announcement(MakeAnnounce(7, {"h1"})));
  });
  ASSERT_EQ(drain("host", "h1", false, &reply), grpc::StatusCode::OK);
  EXPECT_TRUE(reply.changed());
  EXPECT_THAT(reply.communicators(), testing::ElementsAre(FormatCommId(CommId(7))));
  ASSERT_EQ(drain("host", "h1", false, &reply), grpc::StatusCode::OK);
  EXPECT_FALSE(reply.changed()) << "it was so already";
  EXPECT_NE(catalog_->objects()->Find({ObjectKind::kDrain, "host.h1"}), nullptr);
  ASSERT_EQ(drain("host", "h1", true, &reply), grpc::StatusCode::OK);
  EXPECT_EQ(catalog_->objects()->Find({ObjectKind::kDrain, "host.h1"}), nullptr);
  const auto audit = catalog_->Audit(10);
  ASSERT_EQ(audit->size(), 5u) << "what was rejected, too";
  EXPECT_EQ(audit->at(0).action, "undrain");
  EXPECT_EQ(audit->at(1).action, "drain");
  for (size_t i = 2; i < 5; ++i)
    EXPECT_THAT(audit->at(i).outcome, testing::StartsWith("rejected: "));
  EXPECT_EQ(audit->at(1).objects, "created Drain 'host.h1'");
  EXPECT_EQ(audit->at(1).user, "ann@login1");
}

TEST_F(ServerTest, ApplyReportsTheSameChangesAsItsDryRun) {
  catalog_->Watch([&](Catalog::Objects objects) {
    coordinator_.With([&](Coordinator& c) { c.SetObjects(std::move(objects)); });
  });
  StartCommunicator();
  const std::string policy =
      PolicyDocument("reverse", "  type: locality_ring\n  parameters: {order: [h1, h0]}\n");
  const std::string objects = Together({TopologyDocument("t"), policy});
  control::v1::ChangeReply dry, applied, again;
  ASSERT_TRUE(Apply(objects, &dry, /*dry_run=*/true).ok());
  ASSERT_EQ(dry.communicators_size(), 1);
  EXPECT_EQ(dry.communicators(0).change(), "channel 0: h1 → h0 → h1 instead of h0 → h1 → h0");
  EXPECT_EQ(dry.communicators(0).policy_before(), "");
  EXPECT_EQ(dry.communicators(0).policy_after(), "reverse");
  ASSERT_TRUE(Apply(objects, &applied).ok());
  ASSERT_EQ(applied.communicators_size(), 1);
  EXPECT_EQ(applied.communicators(0).SerializeAsString(), dry.communicators(0).SerializeAsString());
  ASSERT_TRUE(Apply(objects, &again).ok());
  EXPECT_EQ(again.communicators_size(), 0) << "it was proposed already";
}

// A pending proposal belongs to the change that caused it, not to an empty change.
TEST_F(ServerTest, EmptyApplyReportsNoCommunicators) {
  StartCommunicator();
  const std::string objects =
      Together({TopologyDocument("t"), PolicyDocument("reverse",
                                                      "  type: locality_ring\n"
                                                      "  parameters: {order: [h1, h0]}\n")});
  control::v1::ChangeReply first, again, dry;
  ASSERT_TRUE(Apply(objects, &first).ok());
  EXPECT_EQ(first.communicators_size(), 1);
  ASSERT_TRUE(Apply(objects, &again).ok());
  EXPECT_EQ(again.objects_size(), 2);
  EXPECT_EQ(again.communicators_size(), 0);
  ASSERT_TRUE(Apply(objects, &dry, /*dry_run=*/true).ok());
  EXPECT_EQ(dry.communicators_size(), 1) << "it is asked what would be";
}

TEST_F(ServerTest, DrainedLinkListsCommunicatorsThatUseIt) {
  control::v1::ChangeReply change;
  ASSERT_TRUE(Apply(Together({TwoSpinesDocument("h0", "h1"),
                              Document("Drain", "a", "  link: leaf0-spine0\n"),
                              Document("Drain", "b", "  link: leaf0-spine1\n")}),
                    &change)
                  .ok());
  StartCommunicator();
  coordinator_.With([](Coordinator& c) {
    c.Handle(AgentKey(1), ReportingLane(7, 0, 1, 61050));  // over spine0
  });
  control::v1::ListObjectsRequest list;
  control::v1::ListObjectsReply drains;
  list.set_kind("Drain");
  ASSERT_TRUE(Call(&Stub::ListObjects, list, &drains).ok());
  ASSERT_EQ(drains.objects_size(), 2);
  EXPECT_THAT(drains.objects(0).communicators(), testing::ElementsAre(FormatCommId(CommId(7))));
  EXPECT_THAT(drains.objects(1).communicators(), testing::IsEmpty());
}

// A daemon may lead dozens of communicators with a thousand ranks.
TEST_F(ServerTest, ARegistrationMayBeLargerThanGrpcsOwnLimit) {
  constexpr size_t kGrpcsLimit = 4 << 20;
  std::vector<std::string> hosts;
  for (int i = 0; i < 1000; ++i) hosts.push_back(absl::StrCat("h", i));
  agent::v1::FromAgent registration = Registration(MakeHost("h0"));
  uint64_t led = 0;
  while (registration.ByteSizeLong() <= kGrpcsLimit)
    *registration.mutable_registration()->add_communicators() = MakeAnnounce(++led, hosts, 32);
  const auto hub = agent::v1::AgentHub::NewStub(channel_);
  grpc::ClientContext context;
  const auto stream = hub->Attach(&context);
  ASSERT_TRUE(stream->Write(registration));
  agent::v1::ToAgent answer;
  ASSERT_TRUE(stream->Read(&answer)) << stream->Finish().error_message();
  EXPECT_TRUE(answer.has_registered());
  EXPECT_EQ(coordinator_.With([](Coordinator& c) { return c.registry().communicators().size(); }),
            led);
  context.TryCancel();
}

TEST_F(ServerTest, AnAgentThatDoesNotRegisterIsDisconnected) {
  ManualClock clock;
  SharedCoordinator coordinator({5 * kNsPerSec, "test"}, &clock, log_.get());
  const auto server = *ControllerServer::Start("127.0.0.1:0", {}, &access_, &coordinator,
                                               catalog_.get(), log_.get());
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server->port()),
                                           grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kEventuallyTimeout);
  const auto stream = agent::v1::AgentHub::NewStub(channel)->Attach(&context);
  std::future<grpc::Status> end = std::async(std::launch::async, [&] { return stream->Finish(); });
  EXPECT_TRUE(Eventually([&] {
    coordinator.With([&](Coordinator&) { clock.now += Coordinator::kRegistrationTimeoutNs + 1; });
    server->Tick();
    return end.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
  EXPECT_THAT(end.get().error_message(), HasSubstr("no registration within"));
}

TEST_F(ServerTest, HealthIsServed) {
  // HealthCheckRequest without a service; HealthCheckResponse { status: SERVING = 1 }.
  EXPECT_EQ(Raw("/grpc.health.v1.Health/Check", ""), std::string("\x08\x01"));
}

}  // namespace server_test
}  // namespace mccs

#include "controller/api/operator_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "controller/api/explanation.h"
#include "controller/api/object_view.h"
#include "controller/api/operator_view.h"
#include "controller/api/work_view.h"
#include "controller/rates/rate_changes.h"
#include "controller/state/drains.h"

namespace mccs {
namespace {

constexpr uint32_t kAuditEntries = 50;
constexpr uint32_t kMaxAuditEntries = 10'000;

std::vector<ObjectFile> FilesOf(
    const google::protobuf::RepeatedPtrField<control::v1::ObjectFile>& files) {
  std::vector<ObjectFile> read;
  for (const control::v1::ObjectFile& file : files) read.push_back({file.name(), file.text()});
  return read;
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// One call of TraceCommunicator. gRPC calls OnCancel and OnDone only after Start has returned, and
// OnDone after everything else.
class TraceCall final : public grpc::ServerUnaryReactor {
 public:
  explicit TraceCall(AgentHub* agents) : agents_(agents) {}

  void Start(const control::v1::TraceRequest& request, control::v1::TraceReply* reply) {
    request_id_ =
        agents_->RequestTrace(request.id(), request.operations(),
                              [this, reply](const absl::StatusOr<control::v1::TraceReply>& traced) {
                                if (traced.ok()) *reply = *traced;
                                Finish(ToGrpc(traced.status()));
                              });
  }
  void OnCancel() override { agents_->CancelTrace(request_id_); }
  void OnDone() override { delete this; }

 private:
  AgentHub* const agents_;
  uint64_t request_id_ = 0;
};

template <typename Reply>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, absl::StatusOr<Reply> answer,
                                 Reply* reply) {
  if (answer.ok()) *reply = *std::move(answer);
  return Answer(context, answer.status());
}

}  // namespace

OperatorService::Reactor* OperatorService::RejectStranger(Context* context) const {
  const absl::StatusOr<Caller> caller = access_->CallerOf(*context, /*user=*/"");
  return caller.ok() ? nullptr : Answer(context, caller.status());
}

OperatorService::Reactor* OperatorService::ListHosts(
    Context* context, const control::v1::ListHostsRequest* /*request*/,
    control::v1::ListHostsReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  *reply = coordinator_->With(
      [](Coordinator& c) { return mccs::ListHosts(c.state(), c.Now(), c.UnixSeconds()); });
  return Answer(context, absl::OkStatus());
}

OperatorService::Reactor* OperatorService::ListCommunicators(
    Context* context, const control::v1::ListCommunicatorsRequest* /*request*/,
    control::v1::ListCommunicatorsReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  *reply = coordinator_->With(
      [](Coordinator& c) { return mccs::ListCommunicators(c.state(), c.Now()); });
  return Answer(context, absl::OkStatus());
}

OperatorService::Reactor* OperatorService::DescribeCommunicator(
    Context* context, const control::v1::DescribeCommunicatorRequest* request,
    control::v1::CommunicatorDetail* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  auto detail = coordinator_->With([&](Coordinator& c) {
    auto found = mccs::DescribeCommunicator(c.state(), request->id(), c.Now());
    if (found.ok()) found->set_send_windows(c.windows().Describe(found->summary().id()));
    return found;
  });
  return Answer(context, std::move(detail), reply);
}

OperatorService::Reactor* OperatorService::ExplainCommunicator(
    Context* context, const control::v1::DescribeCommunicatorRequest* request,
    control::v1::Explanation* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  const absl::StatusOr<ExplanationInput> input = coordinator_->With([&](Coordinator& c) {
    auto gathered = GatherExplanation(c.state(), request->id(), c.Now());
    if (gathered.ok()) gathered->view.probed = c.probed();
    return gathered;
  });
  if (input.ok()) *reply = Explain(*input, *catalog_->objects());
  return Answer(context, input.status());
}

OperatorService::Reactor* OperatorService::ListWork(Context* context,
                                                    const control::v1::ListWorkRequest* /*request*/,
                                                    control::v1::ListWorkReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  *reply = Work(*catalog_->objects());
  return Answer(context, absl::OkStatus());
}

OperatorService::Reactor* OperatorService::Dump(Context* context,
                                                const control::v1::DumpRequest* request,
                                                control::v1::DumpReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // gRPC keeps reply and reactor until Finish, even if the caller has disconnected.
  agents_->RequestState(request->host(),
                        [reactor, reply](const absl::StatusOr<state::Daemon>& state) {
                          if (state.ok()) *reply->mutable_daemon() = *state;
                          reactor->Finish(ToGrpc(state.status()));
                        });
  return reactor;
}

OperatorService::Reactor* OperatorService::TraceCommunicator(
    Context* context, const control::v1::TraceRequest* request, control::v1::TraceReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  auto* const call = new TraceCall(agents_);  // OnDone deletes it.
  call->Start(*request, reply);
  return call;
}

OperatorService::Reactor* OperatorService::Version(Context* context,
                                                   const control::v1::VersionRequest* /*request*/,
                                                   control::v1::VersionReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  reply->set_version(coordinator_->With([](Coordinator& c) { return c.version(); }));
  return Answer(context, absl::OkStatus());
}

ClusterView OperatorService::View() {
  return coordinator_->With([](Coordinator& c) { return c.View(); });
}

control::v1::ListWorkReply OperatorService::Work(const ObjectSet& objects) {
  return ShowWork(
      coordinator_->With([](Coordinator& c) { return GatherWork(c.state(), c.probed()); }),
      objects);
}

control::v1::ChangeReply OperatorService::Show(const Catalog::Outcome& outcome,
                                               const ClusterView& before, bool dry_run) {
  // An empty change has no effect; other pending changes are not part of it.
  if (!dry_run && outcome.plan.IsNothing()) return ShowChange(outcome, before, {}, {}, dry_run);
  std::optional<Decisions> decided;
  ClusterView after = before;
  if (!dry_run) {
    agents_->Flush();
    const uint64_t revision = outcome.plan.next.revision;
    decided = coordinator_->With([&](Coordinator& c) { return c.DecisionsFor(revision); });
  }
  if (decided) {
    after = View();  // with the new proposals
  } else {
    decided = Decide(outcome.plan.next, before);
    PutStrategies(*decided, &after);
  }
  const auto rates = RateChanges({*outcome.before, before}, {outcome.plan.next, after});
  return ShowChange(outcome, before, *decided, rates, dry_run);
}

OperatorService::Reactor* OperatorService::Queue(Context* context, const Caller& caller,
                                                 const char* action, bool dry_run,
                                                 std::function<absl::Status()> change) {
  Reactor* const reactor = context->DefaultReactor();
  // gRPC keeps request, reply and reactor until Finish, even if the caller has disconnected.
  const absl::Status queued = changes_.Add(caller.user, [=, change = std::move(change)](bool runs) {
    const absl::Status ended =
        absl::UnavailableError("the controller stops; the change was not made");
    reactor->Finish(ToGrpc(runs ? change() : ended));
  });
  if (!queued.ok()) {
    if (!dry_run) catalog_->AuditRejection(action, caller, queued);
    reactor->Finish(ToGrpc(queued));
  }
  return reactor;
}

OperatorService::Reactor* OperatorService::Apply(Context* context,
                                                 const control::v1::ApplyRequest* request,
                                                 control::v1::ChangeReply* reply) {
  const absl::StatusOr<Caller> caller = access_->CallerOf(*context, request->caller().user());
  if (!caller.ok()) return Answer(context, caller.status());
  const bool dry_run = request->dry_run();
  return Queue(context, *caller, kAuditApply, dry_run,
               [=, this, caller = *caller]() -> absl::Status {
                 const ClusterView before = View();
                 MCCS_ASSIGN_OR_RETURN(const Catalog::Outcome outcome,
                                       catalog_->Apply(FilesOf(request->files()), caller, dry_run));
                 *reply = Show(outcome, before, dry_run);
                 return absl::OkStatus();
               });
}

OperatorService::Reactor* OperatorService::Delete(Context* context,
                                                  const control::v1::DeleteRequest* request,
                                                  control::v1::ChangeReply* reply) {
  const absl::StatusOr<Caller> caller = access_->CallerOf(*context, request->caller().user());
  if (!caller.ok()) return Answer(context, caller.status());
  const bool dry_run = request->dry_run();
  const absl::StatusOr<std::vector<ObjectKey>> keys = ReadKeys(*request);
  if (!keys.ok()) {
    if (!dry_run) catalog_->AuditRejection(kAuditDelete, *caller, keys.status());
    return Answer(context, keys.status());
  }
  return Queue(
      context, *caller, kAuditDelete, dry_run, [=, this, caller = *caller]() -> absl::Status {
        const ClusterView before = View();
        MCCS_ASSIGN_OR_RETURN(const Catalog::Outcome outcome,
                              catalog_->Delete(*keys, FilesOf(request->files()), caller, dry_run));
        *reply = Show(outcome, before, dry_run);
        return absl::OkStatus();
      });
}

absl::StatusOr<control::v1::DrainReply> OperatorService::SetDrain(
    const control::v1::DrainRequest& request, const Caller& caller) {
  const char* const action = request.undo() ? kAuditUndrain : kAuditDrain;
  const auto reject = [&](absl::Status why) {
    catalog_->AuditRejection(action, caller, why);
    return why;
  };
  if (absl::Status role = CheckIsAdmin(caller.role, "drain hosts and links"); !role.ok())
    return reject(std::move(role));
  const absl::StatusOr<DrainSpec> read = ReadDrain(request);
  if (!read.ok()) return reject(read.status());
  const DrainSpec& spec = *read;
  const Catalog::Objects objects = catalog_->objects();
  const Object* known =
      spec.host.empty() ? FindLinkDrain(*objects, spec.link) : FindHostDrain(*objects, spec.host);
  control::v1::DrainReply reply;
  if (request.undo() && known == nullptr) {
    return reject(absl::FailedPreconditionError(absl::StrCat(
        "cannot undrain ", TargetText(spec), ": it is not drained; see mccsctl get drains")));
  }
  if (request.undo()) {
    MCCS_RETURN_IF_ERROR(
        catalog_->Delete({known->key}, {}, caller, /*dry_run=*/false, action).status());
    reply.set_changed(true);
  } else if (known == nullptr || DrainOf(*known).reason != spec.reason) {
    const absl::Status is_there = coordinator_->With(
        [&](Coordinator& c) { return CheckExists(spec, *objects, c.registry()); });
    if (!is_there.ok()) return reject(is_there);
    Object object;
    if (known != nullptr) {
      object.key = known->key;
    } else {
      absl::StatusOr<std::string> name = NameOfNewDrain(*objects, spec);
      if (!name.ok()) return reject(name.status());
      object.key = {ObjectKind::kDrain, *std::move(name)};
    }
    object.spec = spec;
    MCCS_ASSIGN_OR_RETURN(
        const Catalog::Outcome outcome,
        catalog_->Apply({{"drain", DocumentOf(object, /*with_version=*/false)}}, caller,
                        /*dry_run=*/false, action));
    reply.set_changed(!outcome.plan.IsNothing());
  }
  agents_->Flush();  // proposals that follow from it
  coordinator_->With([&](Coordinator& c) {
    for (CommId id : UsersOfHost(c.registry(), spec.host)) {
      reply.add_communicators(FormatCommId(id));
    }
    for (const auto& [id, recovered] : c.state().strategies.recovered()) {
      const auto& hosts = recovered.hosts;
      const bool may =
          spec.host.empty() || std::find(hosts.begin(), hosts.end(), spec.host) != hosts.end();
      if (may) reply.add_reconnecting(FormatCommId(id));
    }
  });
  if (!spec.link.empty()) {
    for (const std::string& id : UsersOfLink(Work(*objects), spec.link))
      reply.add_communicators(id);
  }
  return reply;
}

OperatorService::Reactor* OperatorService::Drain(Context* context,
                                                 const control::v1::DrainRequest* request,
                                                 control::v1::DrainReply* reply) {
  const absl::StatusOr<Caller> caller = access_->CallerOf(*context, request->caller().user());
  if (!caller.ok()) return Answer(context, caller.status());
  return Answer(context, SetDrain(*request, *caller), reply);
}

OperatorService::Reactor* OperatorService::ListObjects(
    Context* context, const control::v1::ListObjectsRequest* request,
    control::v1::ListObjectsReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  const Catalog::Objects objects = catalog_->objects();
  const bool drains = ParseKind(request->kind()) == ObjectKind::kDrain;
  const auto work = drains ? Work(*objects) : control::v1::ListWorkReply();
  return Answer(context, mccs::ListObjects(*objects, View(), work, *request), reply);
}

OperatorService::Reactor* OperatorService::ListAudit(Context* context,
                                                     const control::v1::ListAuditRequest* request,
                                                     control::v1::ListAuditReply* reply) {
  if (Reactor* const rejection = RejectStranger(context)) return rejection;
  const uint32_t limit = request->limit() > 0 ? request->limit() : kAuditEntries;
  const absl::StatusOr<std::vector<AuditEntry>> entries =
      catalog_->Audit(std::min(limit, kMaxAuditEntries));
  if (entries.ok()) *reply = ShowAudit(*entries);
  return Answer(context, entries.status());
}

}  // namespace mccs

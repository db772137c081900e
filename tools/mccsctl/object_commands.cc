#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/mccsctl/answer.h"
#include "tools/mccsctl/commands.h"
#include "tools/mccsctl/controller_client.h"
#include "tools/mccsctl/read_files.h"
#include "tools/mccsctl/render.h"

namespace mccs {
namespace {

struct Kind {
  const char* name;  // in the controller's API
  const char* one;   // on the command line
  const char* many;
  const char* about;
};
constexpr Kind kKinds[] = {
    {"Tenant", "tenant", "tenants", "Tenants: selector, weight, guarantee, cap and quotas"},
    {"Policy", "policy", "policies", "Policies: type, selected tenants and parameters"},
    {"Topology", "topology", "topologies",
     "Topologies: racks, switches, hosts and links of a cluster"},
    {"Drain", "drain", "drains", "Drains: hosts and links that should receive no new work"},
};

void AddFiles(CLI::App* command, Options* options, bool required) {
  CLI::Option* files = command->add_option("-f,--filename", options->files,
                                           "A YAML or JSON file, a directory of such files, or - "
                                           "for standard input; may be given several times");
  files->type_name("FILE")->allow_extra_args(false);
  if (required) files->required();
}

absl::StatusOr<control::v1::ApplyRequest> MakeApply(const Options& options, bool dry_run) {
  absl::StatusOr<std::vector<control::v1::ObjectFile>> files = ReadFiles(options.files);
  if (!files.ok()) return files.status();
  control::v1::ApplyRequest request;
  request.mutable_caller()->set_user(options.user);
  request.set_dry_run(dry_run);
  for (control::v1::ObjectFile& file : *files) *request.add_files() = std::move(file);
  return request;
}

int Apply(const Options& options) {
  const absl::StatusOr<control::v1::ApplyRequest> request = MakeApply(options, options.dry_run);
  if (!request.ok()) return Fail(request.status());
  return Show<control::v1::ChangeReply>(
      options, ControllerClient(options.controller).Apply(*request), RenderChange);
}

int Diff(const Options& options) {
  const absl::StatusOr<control::v1::ApplyRequest> request = MakeApply(options, /*dry_run=*/true);
  if (!request.ok()) return Fail(request.status(), kExitDiffFailed);
  const absl::StatusOr<control::v1::ChangeReply> reply =
      ControllerClient(options.controller).Apply(*request);
  if (!reply.ok()) return Fail(reply.status(), kExitDiffFailed);
  const std::string differences = RenderDifferences(*reply);
  if (Print(differences) != 0) return kExitDiffFailed;
  return differences.empty() ? 0 : kExitDifferences;
}

int Delete(const Options& options, const char* kind) {
  absl::StatusOr<std::vector<control::v1::ObjectFile>> files = ReadFiles(options.files);
  if (!files.ok()) return Fail(files.status());
  control::v1::DeleteRequest request;
  request.mutable_caller()->set_user(options.user);
  request.set_dry_run(options.dry_run);
  for (control::v1::ObjectFile& file : *files) *request.add_files() = std::move(file);
  for (const std::string& name : options.names) {
    control::v1::ObjectKey* key = request.add_objects();
    key->set_kind(kind);
    key->set_name(name);
  }
  return Show<control::v1::ChangeReply>(
      options, ControllerClient(options.controller).Delete(request), RenderChange);
}

int Get(const Options& options, const Kind& kind) {
  const absl::StatusOr<control::v1::ListObjectsReply> reply =
      ControllerClient(options.controller).ListObjects(kind.name, options.names);
  if (!reply.ok()) return Fail(reply.status());
  switch (options.output) {
    case Output::kYaml:
      return Print(RenderDocuments(*reply));
    case Output::kJson:
      return Print(RenderDocumentsAsJson(*reply));
    case Output::kTable:
    case Output::kWide:
      break;
  }
  return Print(RenderObjects(*reply, kind.many, options.output == Output::kWide));
}

int Describe(const Options& options, const Kind& kind) {
  const absl::StatusOr<control::v1::ListObjectsReply> reply =
      ControllerClient(options.controller).ListObjects(kind.name, {options.id});
  if (!reply.ok()) return Fail(reply.status());
  return Show<control::v1::Object>(options, reply->objects(0), RenderObject);
}

int Drain(const Options& options, const char* what, bool undo) {
  control::v1::DrainRequest request;
  request.mutable_caller()->set_user(options.user);
  request.set_kind(what);
  request.set_name(options.id);
  request.set_reason(options.reason);
  request.set_undo(undo);
  return Show<control::v1::DrainReply>(options, ControllerClient(options.controller).Drain(request),
                                       [&](const control::v1::DrainReply& reply) {
                                         return RenderDrain(reply, what, options.id, undo);
                                       });
}

void DeclareDrains(CLI::App* app, Options* options, bool undo) {
  CLI::App* verb =
      app->add_subcommand(undo ? "undrain" : "drain", undo ? "Return a host or link to service"
                                                           : "Take a host or link out of service");
  verb->require_subcommand(1);
  verb->footer(undo ? "Examples:\n  mccsctl undrain host h1"
                    : "Examples:\n  mccsctl drain host h1 --reason 'new memory'\n"
                      "  mccsctl drain link leaf0-spine1\n  mccsctl get drains");
  for (const char* what : {"host", "link"}) {
    CLI::App* one =
        verb->add_subcommand(what, absl::StrCat(undo ? "Undrain a " : "Drain a ", what));
    one->add_option(absl::AsciiStrToUpper(what), options->id, "Name")->required();
    if (!undo) one->add_option("--reason", options->reason, "Reason, shown to other operators");
    Select(one, options, [=] { return Drain(*options, what, undo); });
  }
}

void AddDryRun(CLI::App* command, Options* options) {
  command->add_flag("--dry-run", options->dry_run, "Print the changes without making them");
}

}  // namespace

void DeclareApply(CLI::App* app, Options* options) {
  CLI::App* apply = app->add_subcommand("apply", "Create or change objects, atomically");
  AddFiles(apply, options, /*required=*/true);
  AddDryRun(apply, options);
  apply->footer(
      "Examples:\n  mccsctl apply -f policy.yaml --dry-run\n  mccsctl apply -f objects/\n"
      "  mccsctl get tenants team-a -o yaml | sed 's/weight: 1/weight: 2/' | mccsctl apply -f -");
  Select(apply, options, [=] { return Apply(*options); });
}

void DeclareDiff(CLI::App* app, Options* options) {
  CLI::App* diff = app->add_subcommand("diff", "Show the changes that apply would make");
  AddFiles(diff, options, /*required=*/true);
  diff->footer(
      "Exit status: 0 no differences; 1 differences; 2 wrong usage; 3 failed.\n"
      "Examples:\n  mccsctl diff -f policy.yaml");
  Select(diff, options, [=] { return Diff(*options); });
}

void DeclareDelete(CLI::App* app, Options* options) {
  CLI::App* remove = app->add_subcommand("delete", "Delete objects, atomically");
  AddFiles(remove, options, /*required=*/false);
  AddDryRun(remove, options);
  remove->require_subcommand(0, 1);
  remove->footer(
      "Examples:\n  mccsctl delete policy gold\n  mccsctl delete tenant team-a team-b --dry-run\n"
      "  mccsctl delete -f objects/");
  for (const Kind& kind : kKinds) {
    CLI::App* one = remove->add_subcommand(kind.one, absl::StrCat("Delete ", kind.many));
    one->alias(kind.many);
    one->add_option("NAME", options->names, "Names of the objects")->required();
    one->footer(absl::StrCat("Examples:\n  mccsctl delete ", kind.one, " NAME"));
    Select(one, options, [=, &kind] { return Delete(*options, kind.name); });
  }
  remove->callback([=] {
    const bool named = !remove->get_subcommands().empty();
    if (named && !options->files.empty()) {
      throw CLI::ValidationError("delete", "names and --filename are mutually exclusive");
    }
    if (!named && options->files.empty()) {
      throw CLI::ValidationError("delete", "expected a kind and names, or --filename FILE");
    }
    if (!named) options->run = [=] { return Delete(*options, ""); };
  });
}

void DeclareDrain(CLI::App* app, Options* options) {
  DeclareDrains(app, options, /*undo=*/false);
  DeclareDrains(app, options, /*undo=*/true);
}

void DeclareAudit(CLI::App* app, Options* options) {
  CLI::App* audit = app->add_subcommand(
      "audit",
      "List changes by operators and by the controller, with user, time and outcome; newest first");
  audit->add_option("--limit", options->limit, "Number of entries")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  audit->footer(
      "ADDRESS is the address of the connection. USER is the operator that the certificate or "
      "token "
      "proves. \"(unverified)\": the controller has no certificates, so USER is only what mccsctl "
      "reports.\n"
      "Examples:\n  mccsctl audit\n  mccsctl audit --limit 1000 -o json");
  Select(audit, options, [=] {
    return Show<control::v1::ListAuditReply>(
        *options, ControllerClient(options->controller).ListAudit(options->limit), RenderAudit);
  });
}

void DeclareGetObjects(CLI::App* get, Options* options) {
  for (const Kind& kind : kKinds) {
    CLI::App* many = get->add_subcommand(kind.many, kind.about);
    many->alias(kind.one);
    many->add_option("NAME", options->names, "Names of the objects (default: all)");
    many->footer(absl::StrCat("'mccsctl apply' accepts the output of -o yaml.\nExamples:\n",
                              "  mccsctl get ", kind.many, "\n  mccsctl get ", kind.many,
                              " -o wide\n  mccsctl get ", kind.many, " NAME -o yaml"));
    Select(many, options, [=, &kind] { return Get(*options, kind); });
  }
}

void DeclareDescribeObjects(CLI::App* describe, Options* options) {
  for (const Kind& kind : kKinds) {
    CLI::App* one =
        describe->add_subcommand(kind.one, absl::StrCat("Show a ", kind.name,
                                                        ", which parts are enforced, and its "
                                                        "communicators"));
    one->add_option("NAME", options->id, "Name of the object")->required();
    one->footer(absl::StrCat("Examples:\n  mccsctl describe ", kind.one, " NAME"));
    Select(one, options, [=, &kind] { return Describe(*options, kind); });
  }
}

}  // namespace mccs

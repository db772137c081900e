#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <ctime>
#include <dtl/dtl.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/table.h"
#include "tools/mccsctl/render.h"

namespace mccs {
namespace {

constexpr int kJsonIndent = 2;
// Least width of facts' names in `describe`.
constexpr size_t kFactWidth = 15;

// "tenant/team-a".
std::string Path(const control::v1::ObjectKey& key) {
  return absl::StrCat(absl::AsciiStrToLower(key.kind()), "/", key.name());
}

// "2026-11-22 03:04:05 UTC".
std::string UtcTime(int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

const char* Verb(control::v1::ChangeKind kind, bool dry_run) {
  switch (kind) {
    case control::v1::CREATED:
      return dry_run ? "would be created" : "created";
    case control::v1::CHANGED:
      return dry_run ? "would be changed" : "changed";
    case control::v1::DELETED:
      return dry_run ? "would be deleted" : "deleted";
    default:
      return dry_run ? "would be unchanged" : "unchanged";
  }
}

nlohmann::ordered_json ToJson(const YAML::Node& node) {
  if (node.IsMap()) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& entry : node) object[entry.first.Scalar()] = ToJson(entry.second);
    return object;
  }
  if (node.IsSequence()) {
    nlohmann::ordered_json array = nlohmann::ordered_json::array();
    for (const auto& item : node) array.push_back(ToJson(item));
    return array;
  }
  if (!node.IsScalar()) return nullptr;
  // Unquoted numbers and booleans remain numbers and booleans.
  const bool quoted = node.Tag() == "!";
  const auto value = nlohmann::ordered_json::parse(node.Scalar(), nullptr, false);
  if (!quoted && (value.is_number() || value.is_boolean())) return value;
  return node.Scalar();
}

std::vector<std::string> Lines(const std::string& text) {
  if (text.empty()) return {};
  return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
}

// The differences as `diff -u` shows them, without the names of the files.
std::string Hunks(const std::string& before, const std::string& after) {
  dtl::Diff<std::string> diff(Lines(before), Lines(after));
  diff.onHuge();  // less memory for long texts
  diff.compose();
  diff.composeUnifiedHunks();
  std::ostringstream text;
  diff.printUnifiedFormat(text);
  // libdtl numbers the line of an empty side 1, diff and patch number it 0.
  if (before.empty()) return absl::StrReplaceAll(text.str(), {{"@@ -1,0 ", "@@ -0,0 "}});
  if (after.empty()) return absl::StrReplaceAll(text.str(), {{" +1,0 @@", " +0,0 @@"}});
  return text.str();
}

// Removes duplicate notes.
std::string Notes(const std::vector<std::string>& notes) {
  std::vector<std::string> once;
  for (const std::string& note : notes) {
    if (std::find(once.begin(), once.end(), note) == once.end()) once.push_back(note);
  }
  return once.empty() ? "" : absl::StrCat("\nNote: ", absl::StrJoin(once, "\nNote: "), "\n");
}

std::string RenderCommunicators(const control::v1::ChangeReply& reply) {
  if (reply.communicators().empty()) return "";
  Table table({{"ID"}, {"TENANT"}, {"POLICY"}, {"CHANGE"}}, kIndent);
  for (const control::v1::CommunicatorChange& change : reply.communicators()) {
    table.Row({change.id(), OrDash(change.tenant()),
               absl::StrCat(OrDash(change.policy_before()), " → ", OrDash(change.policy_after())),
               change.change()});
  }
  return absl::StrCat(reply.dry_run() ? "\nCommunicators that would change while they run:\n"
                                      : "\nCommunicators that change while they run:\n",
                      table.Text());
}

std::string UserText(const control::v1::AuditEntry& entry) {
  return absl::StrCat(OrDash(entry.user()),
                      entry.user().empty() || entry.user_proven() ? "" : " (unverified)");
}

}  // namespace

std::string RenderObjects(const control::v1::ListObjectsReply& reply, const std::string& what,
                          bool wide) {
  if (reply.objects().empty()) {
    return absl::StrCat("No ", what, ". Create some with 'mccsctl apply -f FILE'.\n");
  }
  std::vector<Column> columns = {{"NAME"}};
  for (const control::v1::Fact& fact : reply.objects(0).facts()) {
    if (wide || !fact.wide()) columns.push_back({fact.name()});
  }
  Table table(std::move(columns));
  std::vector<std::string> notes;
  for (const control::v1::Object& object : reply.objects()) {
    std::vector<std::string> cells = {object.key().name()};
    for (const control::v1::Fact& fact : object.facts()) {
      if (wide || !fact.wide()) cells.push_back(fact.value());
    }
    table.Row(std::move(cells));
    notes.insert(notes.end(), object.notes().begin(), object.notes().end());
  }
  return absl::StrCat(table.Text(), Notes(notes));
}

std::string RenderObject(const control::v1::Object& object) {
  std::string text = absl::StrCat(object.key().kind(), " ", object.key().name(), "\n");
  size_t width = kFactWidth;
  for (const control::v1::Fact& fact : object.facts()) {
    width = std::max(width, fact.name().size() + 1);
  }
  for (const control::v1::Fact& fact : object.facts()) {
    std::string name = absl::AsciiStrToLower(fact.name());
    name[0] = absl::ascii_toupper(static_cast<unsigned char>(name[0]));
    absl::StrAppend(&text, kIndent, name, ":", std::string(width - name.size(), ' '),
                    Printable(fact.value()), "\n");
  }
  absl::StrAppend(&text, "\nCommunicators\n");
  for (const std::string& id : object.communicators()) absl::StrAppend(&text, kIndent, id, "\n");
  if (object.communicators().empty()) absl::StrAppend(&text, kIndent, "none now\n");
  absl::StrAppend(&text, "\nDocument\n");
  for (const auto& line : absl::StrSplit(object.document(), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, kIndent, Printable(std::string(line)), "\n");
  }
  return absl::StrCat(text, Notes({object.notes().begin(), object.notes().end()}));
}

std::string RenderDocuments(const control::v1::ListObjectsReply& reply) {
  std::string text;
  for (const control::v1::Object& object : reply.objects()) {
    absl::StrAppend(&text, text.empty() ? "" : "---\n", object.document());
  }
  return text;
}

std::string RenderDocumentsAsJson(const control::v1::ListObjectsReply& reply) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const control::v1::Object& object : reply.objects())
    items.push_back(ToJson(YAML::Load(object.document())));
  const auto& shown = items.size() == 1 ? items[0] : items;
  return shown.dump(kJsonIndent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string RenderChange(const control::v1::ChangeReply& reply) {
  std::string text;
  for (const control::v1::ObjectChange& change : reply.objects()) {
    absl::StrAppend(&text, Path(change.key()), " ", Verb(change.kind(), reply.dry_run()), "\n");
  }
  if (reply.objects().empty()) text = "The files contain no objects.\n";
  absl::StrAppend(&text, RenderCommunicators(reply));
  if (reply.dry_run() && reply.communicators().empty()) {
    absl::StrAppend(&text, "\nNo communicator would change.\n");
  }
  return absl::StrCat(text, Notes({reply.notes().begin(), reply.notes().end()}));
}

std::string RenderDifferences(const control::v1::ChangeReply& reply) {
  std::string text;
  for (const control::v1::ObjectChange& change : reply.objects()) {
    const std::string path = Path(change.key());
    if (change.before() == change.after()) continue;
    absl::StrAppend(&text, "--- ", path, " (stored)\n+++ ", path, " (file)\n",
                    Hunks(change.before(), change.after()));
  }
  return text;
}

std::string RenderDrain(const control::v1::DrainReply& reply, const std::string& what,
                        const std::string& name, bool undo) {
  const std::string key = absl::StrCat(what, "/", Printable(name));
  if (undo) return absl::StrCat(key, " is no longer drained\n");
  const bool in_use = reply.communicators_size() > 0 || reply.reconnecting_size() > 0;
  const char* state = in_use ? " is draining" : " is drained";
  std::string text = absl::StrCat(key, state, reply.changed() ? "" : " (unchanged)", "\n");
  if (!in_use) return text;
  const auto list = [&](const char* which, const auto& ids) {
    if (ids.empty()) return;
    absl::StrAppend(&text, "\n", which, ":\n");
    for (const std::string& id : ids) absl::StrAppend(&text, "  ", id, "\n");
  };
  list("Communicators that use it", reply.communicators());
  list("Communicators that may use it (their daemons have not reconnected to the controller yet)",
       reply.reconnecting());
  if (what == "host") {
    absl::StrAppend(&text,
                    "\n'mccsctl get hosts' shows \"drained\" when these communicators have ended. "
                    "The job scheduler must not start new jobs on the host.\n");
  }
  return text;
}

std::string RenderAudit(const control::v1::ListAuditReply& reply) {
  if (reply.entries().empty()) return "No changes yet.\n";
  Table table({{"NUMBER", Align::kRight},
               {"TIME"},
               {"ADDRESS"},
               {"USER"},
               {"ACTION"},
               {"REVISION", Align::kRight},
               {"OBJECTS"},
               {"OUTCOME"}});
  for (const control::v1::AuditEntry& entry : reply.entries()) {
    const std::vector<std::string> lines =
        absl::StrSplit(entry.outcome(), absl::MaxSplits('\n', 1));
    table.Row({absl::StrCat(entry.number()), UtcTime(entry.unix_ns()), OrDash(entry.peer()),
               UserText(entry), entry.action(), absl::StrCat(entry.revision()),
               OrDash(entry.objects()), lines[0]});
  }
  return table.Text();
}

}  // namespace mccs

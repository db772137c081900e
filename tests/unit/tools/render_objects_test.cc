#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/mccsctl/render.h"

namespace mccs {
namespace render_objects_test {

using testing::HasSubstr;

control::v1::Object Tenant(const std::string& name) {
  control::v1::Object object;
  object.mutable_key()->set_kind("Tenant");
  object.mutable_key()->set_name(name);
  object.set_document(
      "apiVersion: mccs/v1\nkind: Tenant\nmetadata:\n  name: " + name +
      "\n  resourceVersion: 3\nspec:\n  selector:\n    uids: [7]\n    sockets: ['8', "
      "\"q\\\"uote\"]\n  weight: 0.5\n");
  for (const auto& [fact, value, wide] : {std::tuple{"SELECTOR", "uid 7", false},
                                          {"MAX COMMUNICATORS", "16", true},
                                          {"ENFORCED", "Partial", false}}) {
    control::v1::Fact* added = object.add_facts();
    added->set_name(fact);
    added->set_value(value);
    added->set_wide(wide);
  }
  object.add_notes("Its cap is not acted on yet.");
  return object;
}

TEST(RenderObjects, ATableWithItsNotesOnce) {
  control::v1::ListObjectsReply reply;
  *reply.add_objects() = Tenant("a");
  *reply.add_objects() = Tenant("bb");
  EXPECT_EQ(RenderObjects(reply, "tenants", /*wide=*/false),
            "NAME  SELECTOR  ENFORCED\n"
            "a     uid 7     Partial\n"
            "bb    uid 7     Partial\n"
            "\nNote: Its cap is not acted on yet.\n");
  EXPECT_THAT(RenderObjects(reply, "tenants", /*wide=*/true),
              HasSubstr("NAME  SELECTOR  MAX COMMUNICATORS  ENFORCED\n"));
  EXPECT_EQ(RenderObjects({}, "policies", false),
            "No policies. Create some with 'mccsctl apply -f FILE'.\n");
}

TEST(RenderObjects, OneInFull) {
  control::v1::Object object = Tenant("a");
  object.add_communicators("3f2a90c1d4e5b607");
  EXPECT_EQ(RenderObject(object),
            "Tenant a\n"
            "  Selector:          uid 7\n"
            "  Max communicators: 16\n"
            "  Enforced:          Partial\n"
            "\nCommunicators\n  3f2a90c1d4e5b607\n"
            "\nDocument\n"
            "  apiVersion: mccs/v1\n  kind: Tenant\n  metadata:\n    name: a\n"
            "    resourceVersion: 3\n  spec:\n    selector:\n      uids: [7]\n"
            "      sockets: ['8', \"q\\\"uote\"]\n    weight: 0.5\n"
            "\nNote: Its cap is not acted on yet.\n");
}

TEST(RenderObjects, PrintsDocumentsAsJsonAndYaml) {
  control::v1::ListObjectsReply reply;
  *reply.add_objects() = Tenant("a");
  EXPECT_EQ(RenderDocuments(reply), Tenant("a").document());
  EXPECT_EQ(RenderDocumentsAsJson(reply),
            "{\n"
            "  \"apiVersion\": \"mccs/v1\",\n"
            "  \"kind\": \"Tenant\",\n"
            "  \"metadata\": {\n"
            "    \"name\": \"a\",\n"
            "    \"resourceVersion\": 3\n"
            "  },\n"
            "  \"spec\": {\n"
            "    \"selector\": {\n"
            "      \"uids\": [\n        7\n      ],\n"
            "      \"sockets\": [\n        \"8\",\n        \"q\\\"uote\"\n      ]\n"
            "    },\n"
            "    \"weight\": 0.5\n"
            "  }\n"
            "}\n");
  *reply.add_objects() = Tenant("b");
  EXPECT_EQ(RenderDocuments(reply), Tenant("a").document() + "---\n" + Tenant("b").document());
  EXPECT_EQ(RenderDocumentsAsJson(reply).front(), '[');
}

control::v1::ChangeReply Change(bool dry_run) {
  control::v1::ChangeReply reply;
  reply.set_dry_run(dry_run);
  for (const auto& [name, kind] : {std::pair{"a", control::v1::CREATED},
                                   {"b", control::v1::CHANGED},
                                   {"c", control::v1::UNCHANGED},
                                   {"d", control::v1::DELETED}}) {
    control::v1::ObjectChange* change = reply.add_objects();
    change->mutable_key()->set_kind("Tenant");
    change->mutable_key()->set_name(name);
    change->set_kind(kind);
    if (kind != control::v1::CREATED) change->set_before("weight: 1\n");
    if (kind == control::v1::UNCHANGED) change->set_after("weight: 1\n");
    if (kind == control::v1::CREATED || kind == control::v1::CHANGED)
      change->set_after("weight: 2\n");
  }
  return reply;
}

TEST(RenderObjects, ShowsTheResultOfEachObject) {
  EXPECT_EQ(RenderChange(Change(false)),
            "tenant/a created\ntenant/b changed\ntenant/c unchanged\ntenant/d deleted\n");
  EXPECT_EQ(RenderChange(Change(true)),
            "tenant/a would be created\ntenant/b would be changed\ntenant/c would be unchanged\n"
            "tenant/d would be deleted\n\nNo communicator would change.\n");
  EXPECT_EQ(RenderChange({}), "The files contain no objects.\n");
}

TEST(RenderObjects, CommunicatorsThatWouldChange) {
  control::v1::ChangeReply reply = Change(true);
  control::v1::CommunicatorChange* change = reply.add_communicators();
  change->set_id("3f2a90c1d4e5b607");
  change->set_tenant("uid 7");
  change->set_policy_after("gold");
  change->set_change("channel 0: h1 → h0 → h1 instead of h0 → h1 → h0");
  reply.add_notes("Note one.");
  EXPECT_THAT(
      RenderChange(reply),
      HasSubstr(
          "\nCommunicators that would change while they run:\n"
          "  ID                TENANT  POLICY    CHANGE\n"
          "  3f2a90c1d4e5b607  uid 7   - → gold  channel 0: h1 → h0 → h1 instead of h0 → h1 → "
          "h0\n\nNote: Note one.\n"));
}

TEST(RenderObjects, ShowsDifferencesOfChangedObjects) {
  EXPECT_EQ(RenderDifferences(Change(true)),
            "--- tenant/a (stored)\n+++ tenant/a (file)\n@@ -0,0 +1,1 @@\n+weight: 2\n"
            "--- tenant/b (stored)\n+++ tenant/b (file)\n@@ -1,1 +1,1 @@\n-weight: 1\n+weight: 2\n"
            "--- tenant/d (stored)\n+++ tenant/d (file)\n@@ -1,1 +0,0 @@\n-weight: 1\n");
}

TEST(RenderObjects, DrainListsCommunicatorsThatUseIt) {
  control::v1::DrainReply reply;
  EXPECT_EQ(RenderDrain(reply, "host", "h1", true), "host/h1 is no longer drained\n");
  EXPECT_EQ(RenderDrain(reply, "host", "h1", false), "host/h1 is drained (unchanged)\n");
  reply.set_changed(true);
  EXPECT_EQ(RenderDrain(reply, "link", "leaf0-spine1", false), "link/leaf0-spine1 is drained\n");
  reply.add_communicators("3f2a90c1d4e5b607");
  EXPECT_EQ(RenderDrain(reply, "link", "leaf0-spine1", false),
            "link/leaf0-spine1 is draining\n\nCommunicators that use it:\n  3f2a90c1d4e5b607\n");
  EXPECT_NE(RenderDrain(reply, "host", "h1", false).find("'mccsctl get hosts'"), std::string::npos);
}

TEST(RenderObjects, AuditLogMarksUsersWithoutProof) {
  control::v1::ListAuditReply reply;
  control::v1::AuditEntry* entry = reply.add_entries();
  entry->set_number(4);
  entry->set_unix_ns(1'700'000'000'000'000'000);
  entry->set_peer("ipv4:10.0.0.7:5000");
  entry->set_user("ann@\x1b[2Jlogin1");
  entry->set_action("apply");
  entry->set_revision(9);
  entry->set_outcome("rejected: line one\nline two");
  entry = reply.add_entries();
  *entry = reply.entries(0);
  entry->set_number(3);
  entry->set_user("spiffe://mccs/operator/ann");
  entry->set_user_proven(true);
  entry = reply.add_entries();
  *entry = reply.entries(0);
  entry->set_number(2);
  entry->set_peer("mccs-controller");
  entry->clear_user();
  EXPECT_EQ(
      RenderAudit(reply),
      "NUMBER  TIME                     ADDRESS             USER                         ACTION  "
      "REVISION  OBJECTS  OUTCOME\n"
      "     4  2023-11-14 22:13:20 UTC  ipv4:10.0.0.7:5000  ann@?[2Jlogin1 (unverified)  apply   "
      "       9  -        rejected: line one\n"
      "     3  2023-11-14 22:13:20 UTC  ipv4:10.0.0.7:5000  spiffe://mccs/operator/ann   apply   "
      "       9  -        rejected: line one\n"
      "     2  2023-11-14 22:13:20 UTC  mccs-controller     -                            apply   "
      "       9  -        rejected: line one\n");
  EXPECT_EQ(RenderAudit({}), "No changes yet.\n");
}

}  // namespace render_objects_test
}  // namespace mccs

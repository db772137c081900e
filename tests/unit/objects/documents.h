// Short forms of objects for tests.
#ifndef MCCS_TESTS_UNIT_OBJECTS_DOCUMENTS_H_
#define MCCS_TESTS_UNIT_OBJECTS_DOCUMENTS_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"

namespace mccs {

// A document; `spec` is already indented by two.
inline std::string Document(const std::string& kind, const std::string& name,
                            const std::string& spec, uint64_t version = 0) {
  return absl::StrCat("apiVersion: mccs/v1\nkind: ", kind, "\nmetadata:\n  name: ", name, "\n",
                      version > 0 ? absl::StrCat("  resourceVersion: ", version, "\n") : "",
                      "spec:\n", spec);
}

inline std::string TenantDocument(const std::string& name, uint32_t uid,
                                  const std::string& more = "") {
  return Document("Tenant", name, absl::StrCat("  selector: {uids: [", uid, "]}\n", more));
}

inline std::string PolicyDocument(const std::string& name, const std::string& spec) {
  return Document("Policy", name, spec);
}

// The shortest Policy of a type; Tenant a exists.
inline std::string ShortestPolicy(const std::string& name, const PolicyTraits& type) {
  std::string parameters;
  if (type.required.Contains(PolicyParameter::kFavoured)) parameters = "favoured: [a]";
  if (type.required.Contains(PolicyParameter::kAlgorithm)) parameters = "algorithm: ring";
  return PolicyDocument(
      name, absl::StrCat("  type: ", type.name, "\n  parameters: {", parameters, "}\n"));
}

// Hosts h0 and h1 at one switch, with links h0/nic0-leaf0 and h1/nic0-leaf0.
inline std::string TopologyDocument(const std::string& name, const std::string& hosts = "h[0-1]") {
  return Document("Topology", name,
                  absl::StrCat("  racks: [{name: r0}]\n"
                               "  switches: [{name: leaf0}]\n"
                               "  hosts:\n"
                               "    - name: \"",
                               hosts,
                               "\"\n"
                               "      rack: r0\n"
                               "      gpus: 2\n"
                               "      nics: [{name: nic0, switch: leaf0, capacity: 50Gbit/s}]\n"));
}

// Two racks with a leaf each, two spines, links of 10 Gbit/s. Source ports 61000 to 61099 lead over
// spine0, 61100 to 61199 over spine1. `first` and `second` are patterns of the racks' hosts.
inline std::string TwoSpinesDocument(const std::string& first, const std::string& second) {
  const auto hosts = [](const std::string& names, int rack) {
    return absl::StrCat("    - {name: \"", names, "\", rack: r", rack,
                        ", gpus: 1, nics: [{name: nic0, switch: leaf", rack,
                        ", capacity: 10Gbit/s}]}\n");
  };
  return Document("Topology", "fabric",
                  absl::StrCat("  racks: [{name: \"r[0-1]\"}]\n"
                               "  switches: [{name: \"leaf[0-1],spine[0-1]\"}]\n"
                               "  hosts:\n",
                               hosts(first, 0), hosts(second, 1),
                               "  links: [{ends: [\"leaf[0-1]\", \"spine[0-1]\"], "
                               "capacity: 10Gbit/s}]\n"
                               "  source_ports:\n"
                               "    mapping: rules\n"
                               "    rules: [{ports: 61000-61099, via: spine0}, "
                               "{ports: 61100-61199, via: spine1}]\n"));
}

inline std::string Together(const std::vector<std::string>& documents) {
  std::string text;
  for (const std::string& document : documents) absl::StrAppend(&text, "---\n", document);
  return text;
}

inline std::vector<Object> Read(const std::string& text) {
  if (text.empty()) return {};
  absl::StatusOr<std::vector<Object>> objects = ReadObjects({{"a.yaml", text}});
  EXPECT_TRUE(objects.ok()) << objects.status();
  return objects.ok() ? *std::move(objects) : std::vector<Object>();
}

// The error message for invalid `text`.
inline std::string Rejection(const std::string& text) {
  const auto objects = ReadObjects({{"a.yaml", text}});
  EXPECT_EQ(objects.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(objects.status().message());
}

// The objects after `text` is applied to `stored`.
inline ObjectSet After(const ObjectSet& stored, const std::string& text) {
  absl::StatusOr<PlannedChange> plan = PlanApply(stored, Read(text));
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return stored;
  ForgetOrigins(&plan->next);
  return plan->next;
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_OBJECTS_DOCUMENTS_H_

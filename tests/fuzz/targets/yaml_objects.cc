// Operators' documents (Tenant, Policy, Topology, Drain) as YAML: rejected with the position of
// each error, or read. What was read is written as a document that reads as the same object, and
// the set of objects is consistent or the change is rejected.
//
// FUZZES: controller/objects/*.cc base/yaml_config.cc topology/*_reader.cc topology/named_parts.cc
#include <string>

#include "base/check.h"
#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace mccs {
namespace yaml_objects_fuzz {

void Run(FuzzInput input) {
  const auto objects = ReadObjects({{"a.yaml", input.Rest()}});
  if (!objects.ok()) {
    MCCS_CHECK(absl::IsInvalidArgument(objects.status()));
    MCCS_CHECK(objects.status().message().find("a.yaml") != std::string_view::npos);
    return;
  }
  for (const Object& object : *objects) {
    const bool with_version = object.version > 0;
    const std::string document = DocumentOf(object, with_version);
    const auto again = ReadObjects({{"b.yaml", document}});
    MCCS_CHECK(again.ok() && again->size() == 1);
    MCCS_CHECK(again->front().key == object.key && again->front().spec == object.spec);
    MCCS_CHECK(DocumentOf(again->front(), with_version) == document);
  }
  auto plan = PlanApply({}, *objects);
  if (!plan.ok()) {
    MCCS_CHECK(!plan.status().message().empty());
    return;
  }
  MCCS_CHECK(plan->next.objects.size() == objects->size());
  ForgetOrigins(&plan->next);
}

const FuzzTarget kTarget("yaml_objects", Run);

}  // namespace yaml_objects_fuzz
}  // namespace mccs

// The equal-cost paths that a flow may take under its policy. Cached for all flows between the
// same ends.
//
// OWNER: FlowPlanner. THREAD: one.
#ifndef MCCS_CONTROLLER_VIEW_ALLOWED_PATHS_H_
#define MCCS_CONTROLLER_VIEW_ALLOWED_PATHS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/view/fabric.h"
#include "controller/view/flow.h"

namespace mccs {

class AllowedPaths {
 public:
  struct Limits {
    std::vector<std::string> avoid_links;  // ascending
    SourcePortRange ports;
  };
  struct Allowed {
    std::unique_ptr<const std::vector<PathIndex>> paths;  // null: all
    bool any_port = true;  // some port is known to lead over one of them
  };

  // The number of `limits`, for Get; equal limits have equal numbers.
  int NumberOf(const Limits& limits);
  // LIFETIME: the result lives as long as this.
  const Allowed& Get(Fabric* fabric, const Flow& flow, int limits);

 private:
  using LimitsKey = std::tuple<std::vector<std::string>, uint16_t, uint16_t>;
  // Ends are switches, or NICs where these differ in the ports that are known (`probe`).
  using AllowedKey = std::tuple<Fabric*, int32_t, int32_t, int>;

  std::map<LimitsKey, int> numbers_;
  std::vector<Limits> limits_;  // by number
  absl::flat_hash_map<AllowedKey, std::unique_ptr<Allowed>> allowed_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_ALLOWED_PATHS_H_

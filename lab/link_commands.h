// Commands of mccs-lab that show and change links, in a lab with a network.
#ifndef MCCS_LAB_LINK_COMMANDS_H_
#define MCCS_LAB_LINK_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lab/caller.h"

namespace mccs::lab {

// Prints one line for each link and direction.
absl::Status ShowLinks(const Caller& caller, const std::string& name, bool as_json);

// `words`: see FindLinkByWords.
absl::Status SetLinkUp(const Caller& caller, const std::string& name,
                       const std::vector<std::string>& words, bool up);
// The last word is the rate: 50Mbit/s.
absl::Status SetLinkRate(const Caller& caller, const std::string& name,
                         std::vector<std::string> words);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LINK_COMMANDS_H_

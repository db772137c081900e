// Every environment variable that this library knows, and what becomes of it: the one table behind
// the texts in the log, ncclParam* and docs/compatibility.md (a test compares them).
#ifndef MCCS_SHIM_VARIABLES_H_
#define MCCS_SHIM_VARIABLES_H_

#include <span>
#include <string>
#include <string_view>

namespace mccs::shim {

enum class Treatment {
  kHonoured,  // does what NCCL's users expect
  kHint,      // is told to the daemon, which may act on it within the operator's policy
  kIgnored,   // speaks of what the daemon decides: named once in the log under INFO
  kWarned,    // asks for what cannot be had: named once under WARN
};

// "honoured", "hint", "ignored", "warned".
std::string_view NameOf(Treatment treatment);

enum class ValueType { kText, kInteger };

struct Variable {
  const char* name;  // "NCCL_P2P_*": all that begin so and are not named by an entry of their own
  Treatment treatment;
  ValueType type;
  const char* fallback;  // what holds where it is unset
  const char* note;      // what it does here, or why it does nothing

  bool is_family() const { return std::string_view(name).back() == '*'; }
};

// Sorted by name.
std::span<const Variable> Variables();

// The entry of its own, else of the family with the longest prefix; null where there is none.
const Variable* FindVariable(std::string_view name);

// Says, once per process, what becomes of each NCCL_* variable that is set: honoured ones and hints
// under INFO (ENV), ignored ones likewise, those that ask for what cannot be had and unknown ones
// under WARN.
void ReportVariablesOnce();
// Says it now.
void ReportVariables();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_VARIABLES_H_

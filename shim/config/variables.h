// Every environment variable that this library knows, and what the library does with it. The log
// messages, ncclParam* and docs/reference/compatibility.md (checked by a test) all use this table.
#ifndef MCCS_SHIM_CONFIG_VARIABLES_H_
#define MCCS_SHIM_CONFIG_VARIABLES_H_

#include <span>
#include <string>
#include <string_view>

namespace mccs::shim {

enum class Treatment {
  kHonoured,  // works as in NCCL
  kHint,      // sent to the daemon, which may use it within the operator's policy
  kIgnored,   // no effect; logged once under INFO
  kWarned,    // requests what is not available; logged once under WARN
};

// "honoured", "hint", "ignored", "warned".
std::string_view NameOf(Treatment treatment);

enum class ValueType { kText, kInteger };

struct Variable {
  const char* name;  // "NCCL_P2P_*": all names with this prefix that have no entry of their own
  Treatment treatment;
  ValueType type;
  const char* fallback;  // the default value
  const char* note;      // its effect, or why it has none

  bool is_family() const { return std::string_view(name).back() == '*'; }
};

// Sorted by name.
std::span<const Variable> Variables();

// The variable's own entry, else the family with the longest matching prefix; null if none matches.
const Variable* FindVariable(std::string_view name);

// Logs, once per process, how the library treats each NCCL_* variable that is set: honoured, hints
// and ignored under INFO (ENV), unavailable and unknown ones under WARN.
void ReportVariablesOnce();
// Logs it at every call.
void ReportVariables();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_VARIABLES_H_

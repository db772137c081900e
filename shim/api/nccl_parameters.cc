// ncclParam* (since 2.30): this library's variables as parameters with keys. Declared here, because
// the header of this build is older.
//
// A handle is the address of an entry of the table of variables. It is compared with the table's
// bounds and not dereferenced before that. Values are read at each call.
#include <nccl.h>

#include <climits>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/api/exported.h"
#include "shim/config/diagnostics.h"
#include "shim/config/settings.h"
#include "shim/config/variables.h"
#include "shim/process/last_error.h"

struct ncclParamHandle;
using ncclParamHandle_t = const ncclParamHandle*;

namespace mccs::shim {
namespace {

template <typename... Parts>
absl::Status ArgumentError(const char* function, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(function, ": ", parts...));
}

// Parameters that have an effect in this library.
bool IsPublished(const Variable& variable) {
  return variable.treatment == Treatment::kHonoured || variable.treatment == Treatment::kHint;
}

bool ListsEverything() {
  const auto text = ValueOf("NCCL_PARAM_DUMP_ALL");
  return text == "1" || text == "true" || text == "TRUE" || text == "True";
}

// A family is not a parameter.
std::vector<const Variable*> Parameters() {
  const bool everything = ListsEverything();
  std::vector<const Variable*> listed;
  for (const Variable& variable : Variables()) {
    if (!variable.is_family() && (everything || IsPublished(variable))) listed.push_back(&variable);
  }
  return listed;
}

absl::StatusOr<const Variable*> ByKey(const char* function, const char* key) {
  if (key == nullptr) return ArgumentError(function, "key is NULL");
  for (const Variable& variable : Variables()) {
    if (!variable.is_family() && std::strcmp(variable.name, key) == 0) return &variable;
  }
  return ArgumentError(function, "unknown parameter '", key,
                       "'; ncclParamGetAllParameterKeys lists all");
}

absl::StatusOr<const Variable*> ByHandle(const char* function, ncclParamHandle_t handle) {
  const auto address = reinterpret_cast<uintptr_t>(handle);
  const auto first = reinterpret_cast<uintptr_t>(Variables().data());
  const uintptr_t offset = address - first;
  if (address < first || offset >= Variables().size_bytes() || offset % sizeof(Variable) != 0) {
    return ArgumentError(function, "the handle is not from ncclParamBind");
  }
  return &Variables()[offset / sizeof(Variable)];
}

std::string TextOf(const Variable& variable) {
  return ValueOf(variable.name).value_or(variable.fallback);
}

absl::StatusOr<int64_t> IntegerOf(const char* function, const Variable& variable) {
  if (variable.type != ValueType::kInteger) {
    return ArgumentError(function, variable.name, " is a string; read it with ncclParamGetStr");
  }
  const std::string text = TextOf(variable);
  int64_t value = 0;
  if (text.empty()) return ArgumentError(function, variable.name, " is not set and has no default");
  if (!absl::SimpleAtoi(text, &value)) {
    return ArgumentError(function, variable.name, " is '", text, "'; expected an integer");
  }
  return value;
}

template <typename Integer>
absl::Status ReadInteger(const char* function, ncclParamHandle_t handle, Integer* out) {
  if (out == nullptr) return ArgumentError(function, "out is NULL");
  MCCS_ASSIGN_OR_RETURN(const Variable* variable, ByHandle(function, handle));
  MCCS_ASSIGN_OR_RETURN(const int64_t value, IntegerOf(function, *variable));
  if (!std::in_range<Integer>(value)) {
    return ArgumentError(function, variable->name, " is ", value,
                         ", which exceeds the requested type");
  }
  *out = static_cast<Integer>(value);
  return absl::OkStatus();
}

absl::Status Bind(ncclParamHandle_t* out, const char* key) {
  if (out == nullptr) return ArgumentError("ncclParamBind", "out is NULL");
  MCCS_ASSIGN_OR_RETURN(const Variable* variable, ByKey("ncclParamBind", key));
  *out = reinterpret_cast<ncclParamHandle_t>(variable);
  return absl::OkStatus();
}

absl::Status ReadText(ncclParamHandle_t handle, const char** out) {
  constexpr char kFunction[] = "ncclParamGetStr";
  if (out == nullptr) return ArgumentError(kFunction, "out is NULL");
  MCCS_ASSIGN_OR_RETURN(const Variable* variable, ByHandle(kFunction, handle));
  if (variable->type != ValueType::kText) {
    return ArgumentError(kFunction, variable->name, " is an integer; read it with ncclParamGetI64");
  }
  thread_local std::string text;
  text = TextOf(*variable);
  *out = text.c_str();
  return absl::OkStatus();
}

// The buffer for a raw value, its capacity and the value's length.
struct RawBuffer {
  void* out;
  int max_length;
  int* length;
};
absl::Status ReadRaw(ncclParamHandle_t handle, const RawBuffer& place) {
  constexpr char kFunction[] = "ncclParamGet";
  if (place.length == nullptr) return ArgumentError(kFunction, "len is NULL");
  *place.length = 0;
  if (place.out == nullptr) return ArgumentError(kFunction, "out is NULL");
  MCCS_ASSIGN_OR_RETURN(const Variable* variable, ByHandle(kFunction, handle));
  std::string bytes;
  if (variable->type == ValueType::kInteger) {
    MCCS_ASSIGN_OR_RETURN(const int64_t value, IntegerOf(kFunction, *variable));
    bytes.assign(reinterpret_cast<const char*>(&value), sizeof(value));
  } else {
    bytes = TextOf(*variable);
    bytes.push_back('\0');
  }
  if (place.max_length < 0 || bytes.size() > static_cast<size_t>(place.max_length)) {
    return ArgumentError(kFunction, variable->name, " needs ", bytes.size(),
                         " bytes, but maxLen is ", place.max_length);
  }
  std::memcpy(place.out, bytes.data(), bytes.size());
  *place.length = static_cast<int>(bytes.size());
  return absl::OkStatus();
}

absl::Status ReadByKey(const char* key, const char** value, int* length) {
  constexpr char kFunction[] = "ncclParamGetParameter";
  if (value == nullptr || length == nullptr) {
    return ArgumentError(kFunction, value == nullptr ? "value" : "valueLen", " is NULL");
  }
  MCCS_ASSIGN_OR_RETURN(const Variable* variable, ByKey(kFunction, key));
  thread_local std::string text;
  text = TextOf(*variable);
  *value = text.c_str();
  *length = static_cast<int>(text.size());
  return absl::OkStatus();
}

absl::Status ListKeys(const char*** table, int* length) {
  if (table == nullptr || length == nullptr) {
    return ArgumentError("ncclParamGetAllParameterKeys", table == nullptr ? "table" : "tableLen",
                         " is NULL");
  }
  thread_local std::vector<const char*> keys;
  keys.clear();
  for (const Variable* variable : Parameters()) keys.push_back(variable->name);
  *table = keys.data();
  *length = static_cast<int>(keys.size());
  return absl::OkStatus();
}

// The program requests this output, so it is printed regardless of NCCL_DEBUG.
void DumpAll() {
  for (const Variable* variable : Parameters()) {
    const std::optional<Setting> setting = FindSetting(variable->name);
    const std::string_view treatment = NameOf(variable->treatment);
    LogLineTo(DebugStream(), Verbosity::kInfo,
              absl::StrCat(variable->name, "=", TextOf(*variable), " (",
                           setting ? setting->source : "default", "; ",
                           absl::string_view(treatment.data(), treatment.size()), ": ",
                           variable->note, ")"));
  }
}

}  // namespace
}  // namespace mccs::shim

namespace shim = mccs::shim;

MCCS_EXPORT(ncclResult_t, ncclParamBind)(ncclParamHandle_t* out, const char* key) {
  return shim::Report(shim::Bind(out, key));
}

#define MCCS_PARAMETER_OF(name, type)                                     \
  MCCS_EXPORT(ncclResult_t, name)(ncclParamHandle_t handle, type * out) { \
    return shim::Report(shim::ReadInteger(#name, handle, out));           \
  }

MCCS_PARAMETER_OF(ncclParamGetI8, int8_t);
MCCS_PARAMETER_OF(ncclParamGetI16, int16_t);
MCCS_PARAMETER_OF(ncclParamGetI32, int32_t);
MCCS_PARAMETER_OF(ncclParamGetI64, int64_t);
MCCS_PARAMETER_OF(ncclParamGetU8, uint8_t);
MCCS_PARAMETER_OF(ncclParamGetU16, uint16_t);
MCCS_PARAMETER_OF(ncclParamGetU32, uint32_t);
MCCS_PARAMETER_OF(ncclParamGetU64, uint64_t);

MCCS_EXPORT(ncclResult_t, ncclParamGetStr)(ncclParamHandle_t handle, const char** out) {
  return shim::Report(shim::ReadText(handle, out));
}

MCCS_EXPORT(ncclResult_t, ncclParamGet)
(ncclParamHandle_t handle, void* out, int max_length, int* length) {
  return shim::Report(shim::ReadRaw(handle, {out, max_length, length}));
}

MCCS_EXPORT(ncclResult_t, ncclParamGetParameter)(const char* key, const char** value, int* length) {
  return shim::Report(shim::ReadByKey(key, value, length));
}

MCCS_EXPORT(ncclResult_t, ncclParamGetAllParameterKeys)(const char*** table, int* length) {
  return shim::Report(shim::ListKeys(table, length));
}

MCCS_EXPORT(void, ncclParamDumpAll)() { shim::DumpAll(); }

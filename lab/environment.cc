#include "lab/environment.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace mccs::lab {
namespace {

// The AddressSanitizer runtime of this program; empty: none.
std::string SanitizerRuntime() {
  std::string found;
  auto look = [](dl_phdr_info* object, size_t, void* result) {
    if (std::strstr(object->dlpi_name, "/libasan.so") == nullptr) return 0;
    *static_cast<std::string*>(result) = object->dlpi_name;
    return 1;
  };
  dl_iterate_phdr(look, &found);
  return found;
}

}  // namespace

absl::StatusOr<Products> FindProducts() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return absl::NotFoundError(absl::StrCat("cannot read /proc/self/exe: ", error.message()));
  std::filesystem::path bin = self.parent_path();
  std::filesystem::path lib = bin.parent_path() / "lib";
  Products products{.lab = self,
                    .mccsd = bin / "mccsd",
                    .controller = bin / "mccs-controller",
                    .mccsctl = bin / "mccsctl",
                    .vm_preparation = bin.parent_path() / "share/rdma_vms/prepare.py",
                    .emulation = lib / "emulation",
                    .preload = {lib / "libmccs-free-hooks.so", lib / "emulation/libcudart.so.13",
                                lib / "emulation/libcuda.so.1", lib / "emulation/libnvidia-ml.so.1",
                                lib / "libnccl.so.2"}};
  std::vector<std::string> needed = products.preload;
  needed.insert(needed.end(),
                {products.mccsd, products.controller, products.mccsctl, products.vm_preparation});
  for (const std::string& file : needed) {
    if (std::filesystem::exists(file, error)) continue;
    return absl::NotFoundError(
        absl::StrCat("the lab requires ", file, ", which is not built; run scripts/build"));
  }
  if (std::string runtime = SanitizerRuntime(); !runtime.empty()) {
    products.preload.insert(products.preload.begin(), runtime);
  }
  return products;
}

namespace {

bool IsFor(const std::string& entry, std::string_view name) {
  return entry.size() > name.size() && entry[name.size()] == '=' &&
         entry.compare(0, name.size(), name) == 0;
}

// Adds a variable unless the caller has set it.
void AddDefault(const Environment& callers, const char* name, const char* value,
                Variables* variables) {
  if (Get(callers, name).empty()) variables->emplace_back(name, value);
}

}  // namespace

std::string Get(const Environment& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (IsFor(entry, name)) return entry.substr(name.size() + 1);
  }
  return "";
}

Environment With(Environment environment, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    std::erase_if(environment, [&](const std::string& entry) { return IsFor(entry, name); });
    environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

Variables HostVariables(const HostFacts& facts, const std::vector<std::string>& preload,
                        const Environment& callers) {
  std::string all = absl::StrJoin(preload, ":");
  if (std::string existing = Get(callers, "LD_PRELOAD"); !existing.empty()) {
    absl::StrAppend(&all, ":", existing);
  }
  Variables variables = {{"LD_PRELOAD", all},
                         {"MCCS_SOCKET", facts.socket},
                         {"MCCS_CONTROLLER", facts.controller_endpoint},
                         {"MCCS_TLS", facts.operator_certificate},
                         {"MCCS_EMULATED_GPUS", absl::StrCat(facts.gpus)},
                         {"MCCS_EMULATED_HOST", facts.host}};
  if (!facts.has_network) AddDefault(callers, "GLOO_SOCKET_IFNAME", "lo", &variables);
  return variables;
}

Variables RankVariables(const RankPlace& place, const Environment& callers) {
  Variables variables = {{"RANK", absl::StrCat(place.rank)},
                         {"WORLD_SIZE", absl::StrCat(place.world_size)},
                         {"GROUP_RANK", absl::StrCat(place.host_index)},
                         {"LOCAL_RANK", absl::StrCat(place.local_rank)},
                         {"LOCAL_WORLD_SIZE", absl::StrCat(place.local_world_size)},
                         {"MASTER_ADDR", place.master_address},
                         {"MASTER_PORT", absl::StrCat(place.master_port)}};
  if (place.world_size > 1) AddDefault(callers, "OMP_NUM_THREADS", "1", &variables);
  return variables;
}

std::string ExportLines(const Variables& variables) {
  std::string lines;
  for (const auto& [name, value] : variables) {
    absl::StrAppend(&lines, "export ", name, "='", absl::StrReplaceAll(value, {{"'", "'\\''"}}),
                    "'\n");
  }
  return lines;
}

}  // namespace mccs::lab

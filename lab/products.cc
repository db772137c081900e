#include "lab/products.h"

#include <link.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

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
                    .preload = {lib / "libmccs-free-hooks.so", lib / "emulation/libcudart.so.13",
                                lib / "emulation/libcuda.so.1", lib / "emulation/libnvidia-ml.so.1",
                                lib / "libnccl.so.2"}};
  std::vector<std::string> needed = products.preload;
  needed.insert(needed.end(), {products.mccsd, products.controller, products.mccsctl});
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

}  // namespace mccs::lab

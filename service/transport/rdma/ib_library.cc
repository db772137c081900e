#include "service/transport/rdma/ib_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

absl::StatusOr<IbLibrary> Load() {
  void* const handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("cannot load libibverbs: ", dlerror(),
                     "; install it (Debian: libibverbs1 and ibverbs-providers)"));
  }
  IbLibrary library;
  const char* missing = nullptr;
#define MCCS_IB_LOAD(name)                                                              \
  library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, "ibv_" #name)); \
  if (library.name == nullptr) missing = "ibv_" #name;
  MCCS_IB_FUNCTIONS(MCCS_IB_LOAD)
#undef MCCS_IB_LOAD
  library.modify_qp_rate_limit = reinterpret_cast<decltype(library.modify_qp_rate_limit)>(
      dlsym(handle, "ibv_modify_qp_rate_limit"));
  library.reg_dmabuf_mr =
      reinterpret_cast<decltype(library.reg_dmabuf_mr)>(dlsym(handle, "ibv_reg_dmabuf_mr"));
  if (missing != nullptr) {
    return absl::NotFoundError(
        absl::StrCat("libibverbs.so.1 has no function ", missing, "; install a newer one"));
  }
  return library;
}

}  // namespace

absl::StatusOr<const IbLibrary*> IbLibrary::Get() {
  static const absl::StatusOr<IbLibrary>& library = *new absl::StatusOr<IbLibrary>(Load());
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace mccs

// An allocation like the CUDA emulation's, of which tests can corrupt every detail.
#ifndef MCCS_TESTS_UNIT_DEVICE_EMULATED_ALLOCATION_H_
#define MCCS_TESTS_UNIT_DEVICE_EMULATED_ALLOCATION_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/unique_fd.h"
#include "emulation/include/mccs_emulation_ipc.h"
#include "proto/shim_control.h"

namespace mccs {

class EmulatedAllocation {
 public:
  static constexpr uint64_t kSecret = 0x0123456789abcdef;

  explicit EmulatedAllocation(size_t bytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW,
                              const std::string& prefix = MCCS_EMULATION_MEMFD_PREFIX,
                              bool sparse = false)
      : fd_(memfd_create(absl::StrFormat("%s%016x", prefix, kSecret).c_str(),
                         MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    MCCS_CHECK(fd_.valid() && ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0);
    if (!sparse && bytes > 0)
      MCCS_CHECK(fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) == 0);
    MCCS_CHECK(fcntl(fd_.get(), F_ADD_SEALS, seals) == 0);
    struct stat st;
    MCCS_CHECK(fstat(fd_.get(), &st) == 0);
    handle = {.magic = MCCS_EMULATION_IPC_MAGIC,
              .version = MCCS_EMULATION_IPC_VERSION,
              .pid = getpid(),
              .fd = fd_.get(),
              .device = st.st_dev,
              .inode = st.st_ino,
              .bytes = bytes,
              .secret = kSecret,
              .gpu = 0,
              .zero = {}};
  }

  int fd() const { return fd_.get(); }
  UniqueFd TakeFd() { return std::move(fd_); }
  std::array<uint8_t, wire::kIpcHandleBytes> HandleBytes() const {
    std::array<uint8_t, wire::kIpcHandleBytes> bytes;
    std::memcpy(bytes.data(), &handle, sizeof(handle));
    return bytes;
  }

  MccsEmulationIpcHandle handle;

 private:
  UniqueFd fd_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_DEVICE_EMULATED_ALLOCATION_H_

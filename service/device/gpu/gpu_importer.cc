#include "service/device/gpu/gpu_importer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/device/mapped_memory.h"

namespace mccs {
namespace {

// Of NVIDIA's character devices, in Linux's list of assigned numbers (admin-guide/devices.txt).
constexpr unsigned kNvidiaMajor = 195;

class GpuMemory final : public Region {
 public:
  // `file_bytes`: of the largest file that the region keeps.
  GpuMemory(uint64_t bytes, uint64_t file_bytes)
      : Region(RegionKind::kTenant, nullptr, bytes), file_bytes_(file_bytes) {}
  uint64_t LargestFile() const override { return file_bytes_; }

 private:
  const uint64_t file_bytes_;
};

// The region's own descriptor: the offer's belongs to the message.
absl::StatusOr<UniqueFd> Duplicate(int fd) {
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (own.valid()) return own;
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot keep a descriptor of a buffer: ", std::strerror(errno),
                   "; raise mccsd's limit of open files"));
}

// The kernel checks the rest when a NIC registers it.
absl::Status CheckDmaBuf(const BufferExport& offer) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (offer.address % page != offer.dma_buf_offset % page) {
    return ImportRejected(offer.owner, "its position in its dma-buf does not match its address");
  }
  if (offer.bytes > UINT64_MAX - offer.address || offer.bytes > UINT64_MAX - offer.dma_buf_offset) {
    return ImportRejected(offer.owner, "it exceeds the address space");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsGpuFile(int fd) { return IsCharacterDevice(fd, kNvidiaMajor); }

bool DescribesDmaBuf(std::string_view fdinfo) {
  // Only dma-bufs have this line, and names that a process chooses follow it.
  return fdinfo.find("\nexp_name:\t") != std::string_view::npos;
}

bool IsNameOfDmaBuf(std::string_view link) { return link.starts_with("/dmabuf:"); }

bool IsDmaBuf(int fd) {
  std::array<char, 64> link;
  const ssize_t length =
      readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), link.data(), link.size());
  if (length <= 0 || !IsNameOfDmaBuf({link.data(), static_cast<size_t>(length)})) return false;
  const UniqueFd info(
      open(absl::StrCat("/proc/self/fdinfo/", fd).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!info.valid()) return false;
  std::array<char, 1024> text;
  const ssize_t got = read(info.get(), text.data(), text.size());
  return got > 0 && DescribesDmaBuf({text.data(), static_cast<size_t>(got)});
}

absl::StatusOr<std::unique_ptr<Region>> GpuImporter::Import(const BufferExport& offer) {
  const bool descriptor = offer.kind != wire::ExportKind::kCudaIpc;
  if (offer.bytes == 0) return ImportRejected(offer.owner, "it has no bytes");
  if (offer.address == 0) return ImportRejected(offer.owner, "the message has no address");
  if (descriptor && !offer.fd.valid())
    return ImportRejected(offer.owner, "the message has no descriptor");
  std::unique_ptr<Region> memory;
  if (offer.kind == wire::ExportKind::kHostMemory) {
    if (offer.dma_buf.valid()) return ImportRejected(offer.owner, "host memory has no dma-buf");
    MCCS_ASSIGN_OR_RETURN(memory, MappedMemory::OfSealedFile(offer.fd.get(), offer));
  } else if (offer.kind == wire::ExportKind::kCudaIpc ||
             offer.kind == wire::ExportKind::kFileDescriptor) {
    const uint64_t file = descriptor ? CachedSize(offer.fd.get()) : 0;
    const uint64_t dma_buf = offer.dma_buf.valid() ? CachedSize(offer.dma_buf.get()) : 0;
    memory = std::make_unique<GpuMemory>(offer.bytes, std::max(file, dma_buf));
  } else {
    return ImportRejected(offer.owner, absl::StrCat("its export kind is unknown: ",
                                                    static_cast<uint32_t>(offer.kind)));
  }
  UniqueFd own;
  if (descriptor) {
    MCCS_ASSIGN_OR_RETURN(own, Duplicate(offer.fd.get()));
  }
  memory->SetKernelAccess(KernelAccessOf(offer), std::move(own));
  if (memory->is_mapped()) return memory;
  memory->SetNoDmaBuf(offer.no_dma_buf);
  if (!offer.dma_buf.valid()) return memory;
  MCCS_RETURN_IF_ERROR(CheckDmaBuf(offer));
  MCCS_ASSIGN_OR_RETURN(UniqueFd dma_buf, Duplicate(offer.dma_buf.get()));
  // NICs name the memory by the tenant's address: it is as well aligned as CUDA's large pages.
  memory->SetDmaBuf({.offset = offer.dma_buf_offset, .address = offer.address}, std::move(dma_buf));
  return memory;
}

// The shim then stages such buffers.
absl::StatusOr<std::unique_ptr<DeviceRange>> GpuImporter::Reserve(uint64_t /*bytes*/) {
  return absl::UnimplementedError(
      "kernels cannot use a range of several allocations yet; use memory of one allocation");
}

}  // namespace mccs

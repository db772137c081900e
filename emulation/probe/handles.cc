// Handles of GPU memory for others than CUDA processes of this host: dma-buf descriptors for NICs,
// fabric handles for other hosts.

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "emulation/probe/figures.h"
#include "emulation/probe/shared_memory.h"

namespace mccs::probe {
namespace {

constexpr size_t kExportBytes = 4 << 20;

Outcome Has(CUdevice_attribute attribute, bool* has) {
  int value = 0;
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaFree(nullptr));
  PROBE_CALL(cuDeviceGetAttribute(&value, attribute, 0));
  *has = value != 0;
  return Pass();
}

// Exports the range and checks the size that the descriptor reports.
Outcome ExportDmaBuf(CUdeviceptr address, size_t bytes, const char* kind) {
  int fd = -1;
  const CUresult result =
      cuMemGetHandleForAddressRange(&fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (const auto problem = Problem(kind, result)) return Fail(*problem);
  const off_t end = lseek(fd, 0, SEEK_END);
  close(fd);
  PROBE_EXPECT(fd >= 0, std::string(kind) + ": no descriptor");
  PROBE_EXPECT(end < 0 || static_cast<size_t>(end) >= bytes,
               Text("%s: the dma-buf has %lld bytes", kind, static_cast<long long>(end)));
  return Pass();
}

// Skips the check, if the driver rejects the export, too.
Outcome SkipWithoutDmaBuf(CUdeviceptr address) {
  int fd = -1;
  const CUresult result = cuMemGetHandleForAddressRange(&fd, address, kExportBytes,
                                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  PROBE_EXPECT(result != CUDA_SUCCESS,
               "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0, but the export succeeded");
  return Skip("CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0, and " +
              *Problem("cuMemGetHandleForAddressRange", result));
}

// Whether the descriptor can also be mapped through the PCIe BAR, which some platforms need.
std::string PcieText(CUdeviceptr address) {
  int fd = -1;
  const CUresult result =
      cuMemGetHandleForAddressRange(&fd, address, kExportBytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                    CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
  if (result == CUDA_SUCCESS) close(fd);
  return std::string("a mapping through PCIe is ") + (result == CUDA_SUCCESS ? "" : "not ") +
         "supported";
}

PROBE_CHECK(dma_buf_of_allocation,
            "cuMemAlloc's memory, and parts of it, have dma-buf descriptors") {
  bool has = false;
  PROBE_PASSES(Has(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &has));
  CUdeviceptr address = 0;
  PROBE_CALL(cuMemAlloc(&address, kExportBytes));
  if (!has) return SkipWithoutDmaBuf(address);
  PROBE_PASSES(ExportDmaBuf(address, kExportBytes, "the whole allocation"));
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  PROBE_PASSES(ExportDmaBuf(address + page, page, "one page of the allocation"));
  return Pass(PcieText(address));
}

// libnccl.so.2 rounds an allocation to pages, and mccsd closes only descriptors that it knows.
PROBE_CHECK(dma_buf_of_part_of_a_page,
            "so has an allocation of less than a page, and /proc/self/fdinfo says what it is") {
  bool has = false;
  PROBE_PASSES(Has(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &has));
  if (!has) return Skip("CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0");
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  CUdeviceptr address = 0;
  PROBE_CALL(cuMemAlloc(&address, 1000));
  const CUdeviceptr begin = address / page * page;
  int fd = -1;
  PROBE_CALL(cuMemGetHandleForAddressRange(&fd, begin,
                                           (address + 1000 - begin + page - 1) / page * page,
                                           CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  struct stat file {};
  PROBE_EXPECT(fstat(fd, &file) == 0, "fstat failed");
  std::ifstream info(Text("/proc/self/fdinfo/%d", fd));
  const std::string text((std::istreambuf_iterator<char>(info)), std::istreambuf_iterator<char>());
  close(fd);
  if (S_ISREG(file.st_mode) && text.find("exp_name") == std::string::npos) {
    return Pass("memory file of the emulation");
  }
  PROBE_EXPECT(text.find("\nexp_name:\t") != std::string::npos, text);
  return Pass();
}

PROBE_CHECK(dma_buf_of_virtual_memory, "mapped virtual memory has dma-buf descriptors") {
  bool has = false;
  bool capable = false;
  PROBE_PASSES(Has(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &has));
  PROBE_PASSES(Has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, &capable));
  CUmemAllocationProp properties = DeviceMemory(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  properties.allocFlags.gpuDirectRDMACapable = capable ? 1 : 0;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  PROBE_CALL(cuMemCreate(&handle, kExportBytes, &properties, 0));
  PROBE_PASSES(MapForDevice(handle, kExportBytes, 0, &address));
  if (!has) return SkipWithoutDmaBuf(address);
  PROBE_PASSES(ExportDmaBuf(address, kExportBytes, "the mapping"));
  return Pass(Text("gpuDirectRDMACapable %d; ", capable ? 1 : 0) + PcieText(address));
}

// PyTorch's expandable segments and other allocators do not set gpuDirectRDMACapable.
PROBE_CHECK(dma_buf_without_rdma_flag, "so has virtual memory that was created without the flag") {
  bool has = false;
  PROBE_PASSES(Has(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &has));
  SharedAllocation memory;
  PROBE_PASSES(memory.Make(SharingMethod::kDescriptor, kExportBytes));
  if (!has) return SkipWithoutDmaBuf(memory.address());
  return ExportDmaBuf(memory.address(), memory.bytes(), "the mapping");
}

// The daemon receives descriptors from processes that it does not trust, and closes only files
// whose close cannot take as long as a process likes.
PROBE_CHECK(descriptors_are_files_of_the_driver,
            "descriptors of virtual memory are NVIDIA's character devices (major 195)") {
  constexpr unsigned kNvidiaMajor = 195;
  const CUmemAllocationProp properties = DeviceMemory(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle handle = 0;
  int fd = -1;
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaFree(nullptr));
  PROBE_CALL(cuMemCreate(&handle, kExportBytes, &properties, 0));
  PROBE_CALL(
      cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  struct stat file {};
  PROBE_EXPECT(fstat(fd, &file) == 0, "fstat failed");
  char name[128] = {};
  const std::string link = Text("/proc/self/fd/%d", fd);
  PROBE_EXPECT(readlink(link.c_str(), name, sizeof(name) - 1) > 0, "readlink failed");
  const std::string what = Text("%s, mode %o, device %u:%u", name, file.st_mode,
                                major(file.st_rdev), minor(file.st_rdev));
  if (S_ISREG(file.st_mode)) return Pass("memory file of the emulation: " + what);
  PROBE_EXPECT(S_ISCHR(file.st_mode) && major(file.st_rdev) == kNvidiaMajor, what);
  return Pass(what);
}

// The second process: reads and overwrites the memory of a fabric handle.
Outcome UseFabricHandle(Peer& self) {
  CUmemFabricHandle fabric{};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  unsigned char seen = 0;
  PROBE_EXPECT(self.Receive(&fabric, sizeof(fabric)), "no handle received");
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaFree(nullptr));
  PROBE_CALL(cuMemImportFromShareableHandle(&handle, &fabric, CU_MEM_HANDLE_TYPE_FABRIC));
  PROBE_PASSES(MapForDevice(handle, kExportBytes, 0, &address));
  PROBE_CALL(cuMemcpyDtoH(&seen, address + kExportBytes - 1, 1));
  PROBE_EXPECT(seen == 5, "the other process's bytes are not visible");
  PROBE_CALL(cuMemsetD8(address, 6, kExportBytes));
  PROBE_CALL(cuCtxSynchronize());
  return Pass();
}

PROBE_CHECK(fabric_handles, "memory is shared with another process by a fabric handle") {
  Peer peer(UseFabricHandle);
  bool has = false;
  PROBE_PASSES(Has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &has));
  if (!has) return Skip("CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED is 0");
  const CUmemAllocationProp properties = DeviceMemory(0, CU_MEM_HANDLE_TYPE_FABRIC);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  CUmemFabricHandle fabric{};
  const CUresult created = cuMemCreate(&handle, kExportBytes, &properties, 0);
  if (created == CUDA_ERROR_NOT_PERMITTED || created == CUDA_ERROR_NOT_SUPPORTED) {
    return Skip(*Problem("cuMemCreate with a fabric handle (needs an IMEX channel)", created));
  }
  if (const auto problem = Problem("cuMemCreate with a fabric handle", created)) {
    return Fail(*problem);
  }
  PROBE_PASSES(MapForDevice(handle, kExportBytes, 0, &address));
  PROBE_CALL(cuMemsetD8(address, 5, kExportBytes));
  PROBE_CALL(cuCtxSynchronize());
  PROBE_CALL(cuMemExportToShareableHandle(&fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  PROBE_EXPECT(peer.Send(&fabric, sizeof(fabric)), "the second process does not respond");
  PROBE_PASSES(peer.Join());
  unsigned char seen = 0;
  PROBE_CALL(cuMemcpyDtoH(&seen, address, 1));
  PROBE_EXPECT(seen == 6, "the other process's write is not visible");
  return Pass();
}

}  // namespace
}  // namespace mccs::probe

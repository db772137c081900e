// Two processes on one GPU: shared fence pages and exported memory.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "emulation/probe/probe.h"
#include "proto/fence_page.h"

namespace mccs::probe {
namespace {

constexpr size_t kPage = 4096;

// A sealed page as the daemon creates it: header, then fence lines. Null if the system rejects.
wire::FenceLine* MakeFencePage() {
  const int fd = memfd_create("probe-fences", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, kPage) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return nullptr;
  }
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return nullptr;
  *static_cast<wire::FencePageHeader*>(page) = {wire::kFencePageMagic, kPage};
  return static_cast<wire::FenceLine*>(page);
}

Outcome RegisterPage(wire::FenceLine* page) {
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cuMemHostRegister(page, kPage, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr device = 0;
  PROBE_CALL(cuMemHostGetDevicePointer(&device, page, 0));
  PROBE_EXPECT(device == Pointer(page), "the GPU has another address for the page");
  return Pass();
}

// One of two alternating sides: for `rounds` rounds, its stream writes word `mine` and waits for
// word `theirs`.
Outcome Alternate(wire::FenceLine* page, int mine, int theirs, uint64_t rounds) {
  PROBE_PASSES(RegisterPage(page));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  for (uint64_t i = 1; i <= rounds; ++i) {
    PROBE_CALL(cuStreamWriteValue64(stream, Pointer(&page[mine].value), i, 0));
    PROBE_CALL(cuStreamWaitValue64(stream, Pointer(&page[theirs].value), i, kGeq));
  }
  PROBE_CALL(cudaStreamSynchronize(stream));
  PROBE_EXPECT(page[theirs].value.load() == rounds, "the other stream's last word is missing");
  return Pass();
}

PROBE_CHECK(fences_across_processes,
            "streams of two processes synchronize by words of a shared sealed page") {
  constexpr uint64_t kRounds = 200;
  wire::FenceLine* page = MakeFencePage();
  PROBE_EXPECT(page != nullptr, "cannot create a shared page");
  Peer peer([page](Peer&) { return Alternate(page, 2, 1, kRounds); });
  PROBE_PASSES(Alternate(page, 1, 2, kRounds));
  return peer.Join();
}

// The daemon's side is a CPU thread: it polls the ready word and stores the done word.
PROBE_CHECK(fences_with_processor, "a stream and a CPU thread of another process do so, too") {
  constexpr uint64_t kRounds = 1000;
  wire::FenceLine* page = MakeFencePage();
  PROBE_EXPECT(page != nullptr, "cannot create a shared page");
  Peer peer([page](Peer&) {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      while (page[1].value.load() < i) usleep(1);
      wire::SignalFence(page[2], i);
    }
    return Pass();
  });
  PROBE_PASSES(Alternate(page, 1, 2, kRounds));
  return peer.Join();
}

// A stream that has waited for a long time, as in a job whose other ranks are late.
PROBE_CHECK(late_signal, "a poison value releases a stream that has waited for a long time") {
  wire::FenceLine* page = MakeFencePage();
  PROBE_EXPECT(page != nullptr, "cannot create a shared page");
  Peer peer([page](Peer& self) {
    char go = 0;
    if (!self.Receive(&go, 1)) return Fail("no message from the first process");
    wire::SignalFence(page[2], wire::kFencePoison);
    return Pass();
  });
  PROBE_PASSES(RegisterPage(page));
  PROBE_STREAM(stream, cudaStreamNonBlocking);
  PROBE_CALL(cuStreamWaitValue64(stream, Pointer(&page[2].value), 1, kGeq));
  usleep(200'000);
  const char go = 1;
  PROBE_EXPECT(peer.Send(&go, 1), "the second process does not respond");
  PROBE_CALL(cudaStreamSynchronize(stream));
  return peer.Join();
}

// A process whose communicator failed: its stream waits for a word that no process will write.
PROBE_CHECK(exit_with_waiting_stream,
            "a process can exit while its stream waits, and the stream does not continue") {
  wire::FenceLine* page = MakeFencePage();
  PROBE_EXPECT(page != nullptr, "cannot create a shared page");
  Peer peer([page](Peer&) {
    PROBE_PASSES(RegisterPage(page));
    PROBE_STREAM(stream, cudaStreamNonBlocking);
    PROBE_CALL(cuStreamWaitValue64(stream, Pointer(&page[2].value), 1, kGeq));
    PROBE_CALL(cuStreamWriteValue64(stream, Pointer(&page[3].value), 1, 0));
    std::exit(static_cast<int>(Verdict::kPass));
  });
  const Outcome ended = peer.Join();
  PROBE_EXPECT(page[3].value.load() == 0, "the stream continued when its process exited");
  return ended;
}

constexpr size_t kExported = 4 << 20;
constexpr size_t kOffset = (1 << 20) + 512;

// The description of a buffer that the daemon receives: the handle of its allocation, and the
// buffer's offset.
struct Export {
  cudaIpcMemHandle_t handle;
  size_t offset;
};

Outcome MakeExport(char** buffer, Export* exported) {
  char* device = nullptr;
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaMalloc(reinterpret_cast<void**>(&device), kExported));
  *buffer = device + kOffset;
  PROBE_CALL(cudaMemset(device, 0, kExported));
  PROBE_CALL(cudaMemset(*buffer, 0x11, 4096));
  PROBE_CALL(cudaDeviceSynchronize());
  CUdeviceptr base = 0;
  PROBE_CALL(cuMemGetAddressRange(&base, nullptr, Pointer(*buffer)));
  PROBE_CALL(cudaIpcGetMemHandle(&exported->handle, reinterpret_cast<void*>(base)));
  exported->offset = Pointer(*buffer) - base;
  return Pass();
}

// Reads what the owner wrote and overwrites it; opens the handle twice.
Outcome UseExport(const Export& exported) {
  void* base = nullptr;
  void* again = nullptr;
  unsigned char seen = 0;
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaIpcOpenMemHandle(&base, exported.handle, cudaIpcMemLazyEnablePeerAccess));
  char* buffer = static_cast<char*>(base) + exported.offset;
  PROBE_CALL(cudaMemcpy(&seen, buffer + 4095, 1, cudaMemcpyDeviceToHost));
  PROBE_EXPECT(seen == 0x11, "the other process's bytes are not visible");
  PROBE_CALL(cudaIpcOpenMemHandle(&again, exported.handle, cudaIpcMemLazyEnablePeerAccess));
  PROBE_EXPECT(again == base, "a handle opened twice has two addresses");
  PROBE_CALL(cudaIpcCloseMemHandle(again));
  PROBE_CALL(cudaMemset(buffer, 0x22, 4096));
  PROBE_CALL(cudaDeviceSynchronize());
  PROBE_CALL(cudaIpcCloseMemHandle(base));
  return Pass();
}

PROBE_CHECK(export_base_and_offset, "another process maps an allocation; handles open twice") {
  Peer peer([](Peer& self) {
    Export exported;
    if (!self.Receive(&exported, sizeof(exported))) return Fail("no handle received");
    return UseExport(exported);
  });
  char* buffer = nullptr;
  Export exported;
  PROBE_PASSES(MakeExport(&buffer, &exported));
  PROBE_EXPECT(exported.offset == kOffset, "the offset within the allocation is wrong");
  PROBE_EXPECT(peer.Send(&exported, sizeof(exported)), "the second process does not respond");
  PROBE_PASSES(peer.Join());
  unsigned char seen = 0;
  PROBE_CALL(cudaMemcpy(&seen, buffer, 1, cudaMemcpyDeviceToHost));
  PROBE_EXPECT(seen == 0x22, "the other process's write is not visible");
  return Pass();
}

constexpr char kWord = 1;

Outcome FreeBytes(size_t* bytes) {
  size_t total = 0;
  PROBE_CALL(cudaMemGetInfo(bytes, &total));
  return Pass();
}

// Opens what the other process exported, and closes it on request.
Outcome HoldExport(Peer& self) {
  cudaIpcMemHandle_t handle;
  void* base = nullptr;
  char word = 0;
  if (!self.Receive(&handle, sizeof(handle))) return Fail("no handle received");
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess));
  if (!self.Send(&kWord, 1) || !self.Receive(&word, 1)) return Fail("no request to close received");
  PROBE_CALL(cudaIpcCloseMemHandle(base));
  return self.Send(&kWord, 1) ? Pass() : Fail("cannot report that it is closed");
}

// CUDA leaves this case undefined, so MCCS avoids it.
PROBE_CHECK(freed_while_open_elsewhere,
            "freed memory stays allocated while another process has it open") {
  constexpr size_t kBytes = 64 << 20;
  Peer peer(HoldExport);
  void* device = nullptr;
  cudaIpcMemHandle_t handle;
  char word = 0;
  size_t held = 0;
  size_t freed = 0;
  size_t closed = 0;
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaMalloc(&device, kBytes));
  PROBE_CALL(cudaIpcGetMemHandle(&handle, device));
  PROBE_EXPECT(peer.Send(&handle, sizeof(handle)) && peer.Receive(&word, 1),
               "the second process does not respond");
  PROBE_PASSES(FreeBytes(&held));
  PROBE_CALL(cudaFree(device));
  PROBE_PASSES(FreeBytes(&freed));
  PROBE_EXPECT(freed < held + kBytes / 2, "memory is free although another process has it open");
  PROBE_EXPECT(peer.Send(&kWord, 1) && peer.Receive(&word, 1),
               "the second process did not close the memory");
  PROBE_PASSES(FreeBytes(&closed));
  PROBE_EXPECT(closed >= held + kBytes / 2, "memory is not free although it is closed everywhere");
  return peer.Join();
}

PROBE_CHECK(import_by_the_owner, "the owner cannot open its own handle") {
  char* buffer = nullptr;
  Export exported;
  PROBE_PASSES(MakeExport(&buffer, &exported));
  void* base = nullptr;
  const cudaError_t error =
      cudaIpcOpenMemHandle(&base, exported.handle, cudaIpcMemLazyEnablePeerAccess);
  PROBE_EXPECT(error != cudaSuccess, "a process opened its own handle");
  return Pass();
}

struct Names {
  int count;
  cudaUUID_t uuids[8];
  char pci[8][32];
};

Outcome ReadNames(Names* names) {
  memset(names, 0, sizeof(*names));
  PROBE_CALL(cudaGetDeviceCount(&names->count));
  names->count = names->count > 8 ? 8 : names->count;
  for (int i = 0; i < names->count; ++i) {
    cudaDeviceProp properties;
    PROBE_CALL(cudaGetDeviceProperties(&properties, i));
    names->uuids[i] = properties.uuid;
    PROBE_CALL(cudaDeviceGetPCIBusId(names->pci[i], sizeof(names->pci[i]), i));
    int found = -1;
    PROBE_CALL(cudaDeviceGetByPCIBusId(&found, names->pci[i]));
    PROBE_EXPECT(found == i, "a PCI address refers to another device");
    for (int j = 0; j < i; ++j) {
      PROBE_EXPECT(memcmp(&names->uuids[i], &names->uuids[j], sizeof(cudaUUID_t)) != 0,
                   "two devices have the same UUID");
    }
  }
  return Pass();
}

PROBE_CHECK(stable_names, "every process sees the same UUIDs and PCI addresses") {
  Peer peer([](Peer& self) {
    Names names;
    PROBE_PASSES(ReadNames(&names));
    return self.Send(&names, sizeof(names)) ? Pass() : Fail("cannot send the names");
  });
  Names mine;
  Names theirs;
  PROBE_PASSES(ReadNames(&mine));
  PROBE_EXPECT(peer.Receive(&theirs, sizeof(theirs)), "the second process sent no names");
  PROBE_EXPECT(memcmp(&mine, &theirs, sizeof(mine)) == 0, "two processes see different devices");
  return peer.Join();
}

PROBE_CHECK(forked_child_is_rejected, "a child forked after the first use cannot use CUDA") {
  PROBE_CALL(cudaSetDevice(0));
  PROBE_CALL(cudaDeviceSynchronize());
  Peer peer([](Peer&) {
    void* device = nullptr;
    const cudaError_t error = cudaMalloc(&device, 4096);
    PROBE_EXPECT(error != cudaSuccess, "CUDA works in a forked child");
    return Pass();
  });
  return peer.Join();
}

}  // namespace
}  // namespace mccs::probe

#include "service/device/emulation_importer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/device/emulated_allocation.h"

namespace mccs {
namespace emulation_importer_test {

using ::testing::HasSubstr;

constexpr size_t kBytes = 16384;
constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;

absl::StatusOr<std::unique_ptr<Region>> Import(const EmulatedAllocation& allocation,
                                               uint64_t bytes = kBytes, pid_t owner = getpid()) {
  const auto handle = allocation.HandleBytes();
  return EmulationImporter().Import(
      {.handle = handle, .fd = UniqueFd(), .bytes = bytes, .owner = owner});
}

void ExpectRejected(const absl::StatusOr<std::unique_ptr<Region>>& imported,
                    const std::string& why) {
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument) << imported.status();
  EXPECT_THAT(imported.status().message(), HasSubstr(why));
}

TEST(EmulationImporter, MapsTheSameMemory) {
  const EmulatedAllocation allocation(kBytes);
  const auto imported = Import(allocation);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ((*imported)->bytes(), kBytes);
  std::memcpy((*imported)->address() + 5000, "here", 4);
  char seen[4];
  ASSERT_EQ(pread(allocation.fd(), seen, 4, 5000), 4);
  EXPECT_EQ(std::string(seen, 4), "here");
}

TEST(EmulationImporter, AMappingOutlivesTheTenantsDescriptor) {
  EmulatedAllocation allocation(kBytes);
  const auto imported = Import(allocation);
  allocation.TakeFd().Reset();
  ASSERT_TRUE(imported.ok());
  (*imported)->address()[kBytes - 1] = std::byte{1};
}

TEST(EmulationImporter, RejectsMemoryThatCouldShrink) {
  ExpectRejected(Import(EmulatedAllocation(kBytes, F_SEAL_GROW)), "F_SEAL_SHRINK");
}

TEST(EmulationImporter, RejectsAFileThatIsShorterThanOffered) {
  ExpectRejected(Import(EmulatedAllocation(kBytes), kBytes + 1), "16385 offered");
}

// Its size is in the host's budget before it is mapped.
TEST(EmulationImporter, RejectsAFileThatHasGrownSinceItWasOffered) {
  const EmulatedAllocation allocation(kBytes);
  BufferExport offer{
      .handle = allocation.HandleBytes(), .fd = UniqueFd(), .bytes = 4096, .owner = getpid()};
  offer.most_bytes = kBytes - 1;
  ExpectRejected(EmulationImporter().Import(offer), "had 16383 when it was offered");
  offer.most_bytes = kBytes;
  EXPECT_TRUE(EmulationImporter().Import(offer).ok());
}

// The daemon's first access would allocate the missing pages for the daemon.
TEST(EmulationImporter, RejectsMemoryWithoutAllItsPages) {
  constexpr size_t kPage = 4096;
  const EmulatedAllocation sparse(kBytes, kFixedSize, MCCS_EMULATION_MEMFD_PREFIX,
                                  /*sparse=*/true);
  ExpectRejected(Import(sparse), "has pages for 0 of its 16384 bytes");
  ASSERT_EQ(fallocate(sparse.fd(), 0, kPage, kBytes - kPage), 0);
  ExpectRejected(Import(sparse), "has pages for 12288 of its 16384 bytes");
  ASSERT_EQ(fallocate(sparse.fd(), 0, 0, kPage), 0);
  EXPECT_TRUE(Import(sparse).ok());
}

TEST(EmulationImporter, RejectsAnotherProcessesMemory) {
  const EmulatedAllocation allocation(kBytes);
  ExpectRejected(Import(allocation, kBytes, getpid() + 1), "only memory that it allocated itself");
}

TEST(EmulationImporter, RejectsAForeignMemfd) {
  ExpectRejected(Import(EmulatedAllocation(kBytes, kFixedSize, "someone-else-")),
                 "not an allocation of the CUDA emulation");
}

// Each field of the handle is wrong in turn.
TEST(EmulationImporter, RejectsAHandleWithAnyWrongField) {
  using Spoil = std::function<void(MccsEmulationIpcHandle&)>;
  const std::pair<Spoil, std::string> cases[] = {
      {[](auto& h) { ++h.magic; }, "not made by the CUDA emulation"},
      {[](auto& h) { ++h.version; }, "version 2"},
      {[](auto& h) { h.fd = -1; }, "descriptor -1"},
      {[](auto& h) { ++h.device; }, "another file"},
      {[](auto& h) { ++h.inode; }, "another file"},
      {[](auto& h) { h.bytes += 4096; }, "the handle has 20480"},
      {[](auto& h) { ++h.secret; }, "secret is wrong"},
  };
  for (const auto& [spoil, why] : cases) {
    EmulatedAllocation allocation(kBytes);
    spoil(allocation.handle);
    ExpectRejected(Import(allocation), why);
  }
}

TEST(EmulationImporter, AFreedBufferIsNotFound) {
  EmulatedAllocation allocation(kBytes);
  allocation.TakeFd().Reset();
  const auto imported = Import(allocation);
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kNotFound) << imported.status();
}

// The descriptor's number now refers to another allocation, or to a file that must not be opened.
TEST(EmulationImporter, RejectsAReusedDescriptor) {
  const EmulatedAllocation old(kBytes), now(kBytes);
  ASSERT_EQ(dup2(now.fd(), old.fd()), old.fd());
  ExpectRejected(Import(old), "another file");
}

TEST(EmulationImporter, NeitherBlocksOnAPipeNorOpensADevice) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const UniqueFd device(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {reader.get(), device.get()}) {
    EmulatedAllocation allocation(kBytes);
    allocation.handle.fd = fd;
    ExpectRejected(Import(allocation), "not a memory file");
  }
}

absl::StatusOr<std::unique_ptr<Region>> ImportDescriptor(UniqueFd fd) {
  const std::array<uint8_t, wire::kIpcHandleBytes> nothing{};
  return EmulationImporter().Import({.kind = wire::ExportKind::kFileDescriptor,
                                     .handle = nothing,
                                     .fd = std::move(fd),
                                     .bytes = kBytes,
                                     .owner = getpid()});
}

UniqueFd OpenAgain(const EmulatedAllocation& allocation, int flags) {
  return UniqueFd(
      open(("/proc/self/fd/" + std::to_string(allocation.fd())).c_str(), flags | O_CLOEXEC));
}

// A named file of kBytes, deleted when the descriptor is closed.
UniqueFd NamedFile(const std::string& directory) {
  std::string path = directory + "/mccs-importer-XXXXXX";
  UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  EXPECT_TRUE(fd.valid()) << path;
  unlink(path.c_str());
  EXPECT_EQ(ftruncate(fd.get(), kBytes), 0);
  return fd;
}

TEST(ImportedDescriptor, TakesASealedMemfd) {
  EXPECT_TRUE(ImportDescriptor(EmulatedAllocation(kBytes).TakeFd()).ok());
  EXPECT_TRUE(
      ImportDescriptor(EmulatedAllocation(kBytes, kFixedSize, "a-tenants-own-").TakeFd()).ok());
}

TEST(ImportedDescriptor, RejectsAMemfdThatCouldShrinkOrIsTooShort) {
  ExpectRejected(ImportDescriptor(EmulatedAllocation(kBytes, F_SEAL_GROW).TakeFd()),
                 "F_SEAL_SHRINK");
  ExpectRejected(ImportDescriptor(EmulatedAllocation(kBytes, F_SEAL_SHRINK).TakeFd()),
                 "F_SEAL_GROW");
  ExpectRejected(ImportDescriptor(EmulatedAllocation(kBytes, 0).TakeFd()), "F_SEAL_SHRINK");
  ExpectRejected(ImportDescriptor(EmulatedAllocation(kBytes / 2).TakeFd()), "16384 offered");
  ExpectRejected(ImportDescriptor(EmulatedAllocation(0).TakeFd()), "0 bytes");
}

// Only memfds are accepted: a file server (FUSE, NFS) could block the daemon.
TEST(ImportedDescriptor, RejectsOtherFiles) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  ExpectRejected(ImportDescriptor(std::move(reader)), "not a memory file");
  ExpectRejected(ImportDescriptor(std::move(writer)), "not a memory file");
  ExpectRejected(ImportDescriptor(UniqueFd(open("/proc/self/status", O_RDONLY | O_CLOEXEC))),
                 "not a memory file");
  ExpectRejected(ImportDescriptor(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC))),
                 "not a memory file");
  ExpectRejected(ImportDescriptor(UniqueFd(open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC))),
                 "not a memory file");
  ExpectRejected(ImportDescriptor(NamedFile("/tmp")), "not a memory file");
  if (access("/dev/shm", W_OK) == 0)
    ExpectRejected(ImportDescriptor(NamedFile("/dev/shm")), "not a memory file");
  ExpectRejected(ImportDescriptor(UniqueFd()), "no descriptor");
}

// Huge pages are from a pool that may run out while the daemon uses them.
TEST(ImportedDescriptor, RejectsHugePages) {
  UniqueFd fd(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd.valid()) GTEST_SKIP() << "this kernel has no huge pages";
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  ExpectRejected(ImportDescriptor(std::move(fd)), "not a memory file");
}

TEST(ImportedDescriptor, RejectsReadOnlyFiles) {
  const EmulatedAllocation allocation(kBytes);
  EXPECT_FALSE(ImportDescriptor(OpenAgain(allocation, O_RDONLY)).ok());
  EXPECT_FALSE(ImportDescriptor(OpenAgain(allocation, O_PATH)).ok());
  EXPECT_FALSE(
      ImportDescriptor(EmulatedAllocation(kBytes, kFixedSize | F_SEAL_WRITE).TakeFd()).ok());
  EXPECT_FALSE(
      ImportDescriptor(EmulatedAllocation(kBytes, kFixedSize | F_SEAL_FUTURE_WRITE).TakeFd()).ok());
  EXPECT_TRUE(ImportDescriptor(OpenAgain(allocation, O_RDWR)).ok());
}

}  // namespace emulation_importer_test
}  // namespace mccs

// Memory on GPUs stays unmapped, and host memory is mapped.
#include "service/device/gpu/gpu_importer.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/shared_region.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace gpu_importer_test {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = 16384;
constexpr uint64_t kAddress = 0x7f0000000000;
constexpr pid_t kOwner = 7;

BufferExport Offer(wire::ExportKind kind, UniqueFd fd = {}) {
  BufferExport offer{
      .kind = kind, .fd = std::move(fd), .bytes = kBytes, .owner = kOwner, .address = kAddress};
  offer.handle[0] = 42;
  return offer;
}

void ExpectRejected(const BufferExport& offer, const std::string& why) {
  const auto imported = GpuImporter().Import(offer);
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument) << imported.status();
  EXPECT_THAT(imported.status().message(), HasSubstr(why));
}

TEST(GpuImporter, AnAllocationHasNoAddressInTheDaemon) {
  const auto imported = GpuImporter().Import(Offer(wire::ExportKind::kCudaIpc));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ((*imported)->address(), nullptr);
  EXPECT_EQ((*imported)->bytes(), kBytes);
  const Region::KernelAccess* const access = (*imported)->kernel_access();
  ASSERT_NE(access, nullptr);
  EXPECT_EQ(access->owner, kOwner);
  EXPECT_EQ(access->owner_address, kAddress);
  EXPECT_EQ(access->handle[0], 42);
  EXPECT_EQ(access->descriptor, -1);
}

TEST(GpuImporter, ADescriptorIsKeptAsLongAsTheRegion) {
  SharedRegion memory = *SharedRegion::Create("test", kBytes);
  auto imported = GpuImporter().Import(Offer(wire::ExportKind::kFileDescriptor, memory.TakeFd()));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ((*imported)->address(), nullptr);
  const int kept = (*imported)->kernel_access()->descriptor;
  EXPECT_EQ(lseek(kept, 0, SEEK_END), static_cast<off_t>(kBytes));
  imported->reset();
  EXPECT_EQ(lseek(kept, 0, SEEK_END), -1);
}

TEST(GpuImporter, MemoryOfTheHostIsMapped) {
  SharedRegion memory = *SharedRegion::Create("test", kBytes);
  std::memset(memory.data(), 0, kBytes);  // as cuMemHostRegister, allocates the pages
  const auto imported = GpuImporter().Import(Offer(wire::ExportKind::kHostMemory, memory.TakeFd()));
  ASSERT_TRUE(imported.ok()) << imported.status();
  (*imported)->address()[5000] = std::byte{3};
  EXPECT_EQ(memory.data()[5000], std::byte{3});
  EXPECT_GE((*imported)->kernel_access()->descriptor, 0) << "for kernels of other processes";
}

TEST(GpuImporter, RejectsWhatNoKernelCouldUse) {
  BufferExport empty = Offer(wire::ExportKind::kCudaIpc);
  empty.bytes = 0;
  ExpectRejected(empty, "no bytes");
  BufferExport nowhere = Offer(wire::ExportKind::kCudaIpc);
  nowhere.address = 0;
  ExpectRejected(nowhere, "no address");
  ExpectRejected(Offer(wire::ExportKind::kFileDescriptor), "no descriptor");
  ExpectRejected(Offer(wire::ExportKind::kHostMemory), "no descriptor");
  SharedRegion memory = *SharedRegion::Create("test", kBytes);
  ExpectRejected(Offer(static_cast<wire::ExportKind>(9), memory.TakeFd()), "export kind");
}

TEST(GpuImporter, RejectsMemoryOfTheHostThatIsShorterThanOffered) {
  SharedRegion memory = *SharedRegion::Create("test", kBytes / 4);
  ExpectRejected(Offer(wire::ExportKind::kHostMemory, memory.TakeFd()), "bytes");
}

// Opened with O_PATH, because no driver serves the device here.
TEST(GpuImporter, KnowsTheFilesOfTheDriver) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("nvidiactl");
  if (mknod(path.c_str(), S_IFCHR | 0600, makedev(195, 255)) != 0)
    GTEST_SKIP() << "cannot make a device file: " << std::strerror(errno);
  EXPECT_TRUE(IsGpuFile(UniqueFd(open(path.c_str(), O_PATH | O_CLOEXEC)).get()));
  EXPECT_FALSE(IsGpuFile(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)).get()));
  EXPECT_FALSE(IsGpuFile(SharedRegion::Create("test", kBytes)->fd()));
  EXPECT_FALSE(IsGpuFile(-1));
}

TEST(GpuImporter, NicsNameMemoryWithADmaBufByTheTenantsAddress) {
  SharedRegion memory = *SharedRegion::Create("test", kBytes);
  BufferExport offer = Offer(wire::ExportKind::kCudaIpc);
  offer.address = kAddress + 512;
  offer.dma_buf = memory.TakeFd();
  offer.dma_buf_offset = 512;
  auto imported = GpuImporter().Import(offer);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_FALSE((*imported)->is_mapped());
  EXPECT_EQ((*imported)->nic_address(), kAddress + 512);
  const Region::DmaBuf* const dma_buf = (*imported)->dma_buf();
  ASSERT_NE(dma_buf, nullptr);
  EXPECT_EQ(dma_buf->offset, 512u);
  EXPECT_NE(dma_buf->descriptor, offer.dma_buf.get()) << "the offer's is closed";
  const int kept = dma_buf->descriptor;
  EXPECT_EQ(lseek(kept, 0, SEEK_END), static_cast<off_t>(kBytes));
  imported->reset();
  EXPECT_EQ(lseek(kept, 0, SEEK_END), -1);
}

TEST(GpuImporter, MemoryWithoutADmaBufKeepsTheReason) {
  BufferExport offer = Offer(wire::ExportKind::kCudaIpc);
  offer.no_dma_buf = "the GPU has none";
  const auto imported = GpuImporter().Import(offer);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ((*imported)->dma_buf(), nullptr);
  EXPECT_EQ((*imported)->nic_address(), 0u);
  EXPECT_EQ((*imported)->no_dma_buf(), "the GPU has none");
}

// The kernel demands it of NICs; an overflow could let a NIC reach other addresses of its domain.
TEST(GpuImporter, RejectsADmaBufThatDoesNotFitTheAddress) {
  SharedRegion memory = *SharedRegion::Create("test", kBytes);
  BufferExport offer = Offer(wire::ExportKind::kCudaIpc);
  offer.dma_buf = memory.TakeFd();
  offer.dma_buf_offset = 1;
  ExpectRejected(offer, "position in its dma-buf");
  offer.dma_buf_offset = 0;
  offer.address = UINT64_MAX - kBytes / 4 * 3 + 1;
  ExpectRejected(offer, "address space");
}

// The last close of it may free the memory.
TEST(GpuImporter, TheLargestFileMayBeTheDmaBuf) {
  SharedRegion small = *SharedRegion::Create("test", kBytes);
  SharedRegion large = *SharedRegion::Create("test", 3 * kBytes);
  BufferExport offer = Offer(wire::ExportKind::kFileDescriptor, small.TakeFd());
  offer.dma_buf = large.TakeFd();
  const auto imported = GpuImporter().Import(offer);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ((*imported)->LargestFile(), 3 * kBytes);
}

TEST(GpuImporter, RejectsADmaBufOfHostMemory) {
  SharedRegion memory = *SharedRegion::Create("test", kBytes);
  SharedRegion other = *SharedRegion::Create("test", kBytes);
  BufferExport offer = Offer(wire::ExportKind::kHostMemory, memory.TakeFd());
  offer.dma_buf = other.TakeFd();
  ExpectRejected(offer, "no dma-buf");
}

// No driver exports one here.
TEST(GpuImporter, KnowsDmaBufsByTheirDescriptionInProc) {
  EXPECT_TRUE(DescribesDmaBuf("pos:\t0\nflags:\t02\nsize:\t4096\ncount:\t1\nexp_name:\tnvidia\n"));
  EXPECT_FALSE(DescribesDmaBuf("pos:\t0\nflags:\t02\nname:\texp_name:\n"));
  EXPECT_FALSE(IsDmaBuf(SharedRegion::Create("test", kBytes)->fd()));
  EXPECT_FALSE(IsDmaBuf(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)).get()));
  EXPECT_FALSE(IsDmaBuf(-1));
}

TEST(GpuImporter, DmaBufsAreKnownByTheirNames) {
  EXPECT_TRUE(IsNameOfDmaBuf("/dmabuf:"));
  EXPECT_TRUE(IsNameOfDmaBuf("/dmabuf:name"));
  EXPECT_FALSE(IsNameOfDmaBuf("/home/dmabuf:"));
  EXPECT_FALSE(IsNameOfDmaBuf("anon_inode:inotify"));
  EXPECT_FALSE(IsNameOfDmaBuf(""));
}

// The kernel prints a line for each watch.
TEST(GpuImporter, ADescriptorWithALongDescriptionIsNoDmaBufAtOnce) {
  const TemporaryDirectory directory;
  const UniqueFd watches(inotify_init1(IN_CLOEXEC));
  ASSERT_TRUE(watches.valid());
  for (int i = 0; i < 2000; ++i) {
    const std::string path = directory.File(std::to_string(i));
    UniqueFd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    if (inotify_add_watch(watches.get(), path.c_str(), IN_MODIFY) < 0)
      GTEST_SKIP() << "cannot watch " << i << " files: " << std::strerror(errno);
  }
  const auto shortest = [](const auto& action) {
    auto least = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 10; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      action();
      least = std::min(least, std::chrono::steady_clock::now() - begin);
    }
    return least;
  };
  const auto description = shortest([&] {
    std::ifstream text("/proc/self/fdinfo/" + std::to_string(watches.get()));
    EXPECT_TRUE(text.get() != std::ifstream::traits_type::eof());
  });
  EXPECT_LT(shortest([&] { EXPECT_FALSE(IsDmaBuf(watches.get())); }), description / 4);
}

TEST(GpuImporter, RangesOfSeveralAllocationsAreLeftToStaging) {
  EXPECT_EQ(GpuImporter().Reserve(kBytes).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace gpu_importer_test
}  // namespace mccs

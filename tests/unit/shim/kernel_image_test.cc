// The kernel that runs collectives: its image comes with the daemon's greeting.
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

#include "base/sealed_file.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace kernel_image_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kImage[] = "an image of the fake daemon";
constexpr char kArchitectures[] = "sm_90, PTX 10.0 of CUDA 13.0";

class KernelImageTest : public ShimTest {
 protected:
  // The other kernel would be loaded before.
  KernelImageTest() { setenv("MCCS_STREAM_WAIT", "memop", 1); }
  ~KernelImageTest() override { unsetenv("MCCS_STREAM_WAIT"); }

  static UniqueFd Sealed() { return *MakeSealedFile("test", std::as_bytes(std::span(kImage))); }
  void Give(UniqueFd file, uint64_t bytes = sizeof(kImage)) {
    daemon_.GiveKernelImage(std::move(file), bytes, kArchitectures);
  }
  // The error of an init that must fail with `expected`.
  static std::string InitError(ncclResult_t expected) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), expected);
    return LastError();
  }
};

TEST_F(KernelImageTest, LoadsTheDaemonsImageOncePerSession) {
  Give(Sealed());
  const int before = test_cuda::kernels_prepared();
  MakeRanks(2);
  ASSERT_EQ(test_cuda::images_loaded().size(), 1u);
  EXPECT_EQ(test_cuda::images_loaded()[0], std::string(kImage, test_cuda::kImageStart));
  EXPECT_EQ(test_cuda::kernels_prepared(), before + 2) << "each GPU has it before the first launch";
}

TEST_F(KernelImageTest, LoadsNothingIfCallsNeedNoKernels) {
  MakeRanks(2);
  EXPECT_THAT(test_cuda::images_loaded(), IsEmpty());
}

TEST_F(KernelImageTest, ReportsAGpuThatTheImageDoesNotSupport) {
  Give(Sealed());
  test_cuda::SetAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 7);
  test_cuda::SetAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 5);
  test_cuda::Fail("cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(InitError(ncclUnhandledCudaError),
              AllOf(HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"), HasSubstr("GPU 0000:"),
                    HasSubstr("compute capability 7.5"), HasSubstr("compiled for sm_90, PTX 10.0"),
                    HasSubstr("driver supports CUDA 13.0"), HasSubstr("use a GPU")));
}

// Drivers that load lazily report it only when the kernel is loaded onto the GPU.
TEST_F(KernelImageTest, ReportsADriverThatIsTooOldForTheImage) {
  Give(Sealed());
  test_cuda::Fail("cuKernelGetFunction", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_THAT(InitError(ncclUnhandledCudaError),
              AllOf(HasSubstr("cuKernelGetFunction: CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
                    HasSubstr("compiled for sm_90, PTX 10.0 of CUDA 13.0"),
                    HasSubstr("update NVIDIA's driver")));
}

TEST_F(KernelImageTest, ReportsADriverWithoutACompilerForPtx) {
  Give(Sealed());
  test_cuda::Fail("cuKernelGetFunction", CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  EXPECT_THAT(InitError(ncclUnhandledCudaError), HasSubstr("libnvidia-ptxjitcompiler.so.1"));
}

TEST_F(KernelImageTest, RejectsAGreetingWithoutTheImagesFile) {
  Give(UniqueFd());
  EXPECT_THAT(InitError(ncclInternalError),
              AllOf(HasSubstr("sent no file"), HasSubstr("same release")));
}

TEST_F(KernelImageTest, RejectsAGreetingWithoutAnImage) {
  Give(UniqueFd(), 0);
  EXPECT_THAT(InitError(ncclInternalError), HasSubstr("sent no image"));
}

TEST_F(KernelImageTest, RejectsAnImageOfAnotherSize) {
  Give(Sealed(), sizeof(kImage) + 1);
  EXPECT_THAT(InitError(ncclInternalError), HasSubstr("bytes instead of"));
  EXPECT_THAT(test_cuda::images_loaded(), IsEmpty());
}

// As the creator could still change it.
TEST_F(KernelImageTest, RejectsAnImageThatIsNotSealed) {
  SharedRegion writable = *SharedRegion::Create("test", sizeof(kImage));
  const uint64_t bytes = writable.bytes();
  Give(writable.TakeFd(), bytes);
  EXPECT_THAT(InitError(ncclInternalError), HasSubstr("not sealed"));
  EXPECT_THAT(test_cuda::images_loaded(), IsEmpty());
}

TEST_F(KernelImageTest, ReportsADriverThatIsTooOldForTheWaitingKernelToo) {
  unsetenv("MCCS_STREAM_WAIT");
  test_cuda::Fail("cuKernelGetFunction", CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(InitError(ncclUnhandledCudaError),
              AllOf(HasSubstr("with which streams wait"), HasSubstr("compute capability"),
                    HasSubstr("MCCS_STREAM_WAIT=memop")));
}

}  // namespace kernel_image_test
}  // namespace mccs

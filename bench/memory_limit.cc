// The lower limit of a collective on one host: the time in which all processors read a number of
// buffers once and write a number of buffers once. Prints microseconds.
//
// Independent of mccsd's kernels, so that it limits them, too: each input is copied to an output
// with non-temporal stores; what remains of either kind is only read, or only written. Nothing is
// added up.
#include <emmintrin.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kBlockBytes = 64 << 10;  // of one buffer, before the next one
constexpr int kWarmup = 2;

struct Load {
  int reads = 0;
  int writes = 0;
  size_t bytes = 0;  // of each buffer
  int iterations = 0;
  int threads = 0;
};

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, Free>;

std::vector<Buffer> Allocate(int count, size_t bytes) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    buffers.emplace_back(static_cast<std::byte*>(std::aligned_alloc(2 << 20, bytes)));
    std::fill_n(buffers.back().get(), bytes, std::byte{1});
  }
  return buffers;
}

void Copy(const std::byte* from, std::byte* to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLineBytes) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(target + k, _mm_load_si128(source + k));
  }
}

void Read(const std::byte* from, size_t bytes) {
  __m128i all = _mm_setzero_si128();
  for (size_t i = 0; i < bytes; i += kLineBytes) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    for (int k = 0; k < 4; ++k) all = _mm_or_si128(all, _mm_load_si128(source + k));
  }
  volatile int used = _mm_cvtsi128_si32(all);
  static_cast<void>(used);
}

void Write(std::byte* to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLineBytes) {
    auto* target = reinterpret_cast<__m128i*>(to + i);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(target + k, _mm_set1_epi8(1));
  }
}

// One thread's part of one pass.
void Pass(const std::vector<Buffer>& in, const std::vector<Buffer>& out, size_t begin, size_t end) {
  for (size_t at = begin; at < end; at += kBlockBytes) {
    const size_t bytes = std::min(kBlockBytes, end - at);
    for (size_t k = 0; k < std::max(in.size(), out.size()); ++k) {
      if (k >= out.size()) {
        Read(in[k].get() + at, bytes);
      } else if (k >= in.size()) {
        Write(out[k].get() + at, bytes);
      } else {
        Copy(in[k].get() + at, out[k].get() + at, bytes);
      }
    }
  }
  _mm_sfence();
}

void Passes(const Load& load, const std::vector<Buffer>& in, const std::vector<Buffer>& out,
            int passes) {
  const size_t blocks = (load.bytes + kBlockBytes - 1) / kBlockBytes;
  const auto bound = [&](int thread) {
    return std::min(load.bytes, blocks * static_cast<size_t>(thread) /
                                    static_cast<size_t>(load.threads) * kBlockBytes);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < load.threads; ++t) {
    threads.emplace_back([&, begin = bound(t), end = bound(t + 1)] {
      for (int i = 0; i < passes; ++i) Pass(in, out, begin, end);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

double Microseconds(const Load& load) {
  const std::vector<Buffer> in = Allocate(load.reads, load.bytes);
  const std::vector<Buffer> out = Allocate(load.writes, load.bytes);
  Passes(load, in, out, kWarmup);
  const auto start = std::chrono::steady_clock::now();
  Passes(load, in, out, load.iterations);
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / load.iterations;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Reads and writes whole buffers once with all processors: prints microseconds per pass");
  Load load;
  load.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  app.add_option("reads", load.reads, "number of buffers that are read")
      ->required()
      ->check(CLI::Range(0, 1024));
  app.add_option("writes", load.writes, "number of buffers that are written")
      ->required()
      ->check(CLI::Range(0, 1024));
  app.add_option("bytes", load.bytes, "size of each buffer, a multiple of 2 MiB")->required();
  app.add_option("iterations", load.iterations)->required()->check(CLI::PositiveNumber);
  app.add_option("--threads", load.threads)->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (load.bytes == 0 || load.bytes % (2 << 20) != 0) {
    std::fprintf(stderr, "memory_limit: invalid size %zu: expected a multiple of 2 MiB\n",
                 load.bytes);
    return 2;
  }
  std::printf("%.3f\n", Microseconds(load));
  return 0;
}

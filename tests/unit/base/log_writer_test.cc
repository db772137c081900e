#include "base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace mccs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLong{10'000};
constexpr milliseconds kShort{50};
constexpr size_t kQueueBytes = 1000;

// A pipe that holds a page and is read only on request.
class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    out_ = UniqueFd(ends[0]);
    in_ = UniqueFd(ends[1]);
    EXPECT_GT(fcntl(in_.get(), F_SETPIPE_SZ, kBytes), 0);
  }

  int in() const { return in_.get(); }
  // The next write waits for ReadTo. REQUIRES: the pipe is empty.
  bool Fill() const {
    const std::string page(kBytes, '.');
    return write(in_.get(), page.data(), page.size()) == kBytes;
  }
  void CloseReader() { out_.Reset(); }
  void CloseWriter() { in_.Reset(); }
  // Reads until `last` has arrived, or until all writers have closed.
  std::string ReadTo(const std::string& last) {
    std::string text;
    std::array<char, 4096> part;
    while (last.empty() || text.find(last) == std::string::npos) {
      const ssize_t bytes = read(out_.get(), part.data(), part.size());
      if (bytes <= 0) break;
      text.append(part.data(), static_cast<size_t>(bytes));
    }
    return text;
  }

 private:
  static constexpr int kBytes = 4096;

  UniqueFd out_, in_;
};

LogWriter::Options OptionsFor(const Pipe& pipe) {
  return {.fd = pipe.in(),
          .max_queued_bytes = kQueueBytes,
          .closing_timeout = kLong,
          .describe_dropped = [](uint64_t lines) { return absl::StrCat(lines, " dropped\n"); }};
}

std::string LineOf(int number) { return absl::StrCat("line ", number, " of a program\n"); }

// Appends until the thread waits for the full pipe, and one line more than the queue then holds.
// Returns the number of the last line that was kept.
int Fill(LogWriter& writer) {
  size_t kept_bytes = 0;
  int last_kept = 0;
  for (int number = 0;; ++number) {
    const std::string line = LineOf(number);
    const uint64_t dropped = writer.dropped();
    writer.Append(line);
    if (writer.dropped() == dropped) {
      kept_bytes += line.size();
      last_kept = number;
    } else if (kept_bytes > kQueueBytes) {  // so the thread has taken lines
      return last_kept;
    } else {
      std::this_thread::yield();
    }
  }
}

TEST(LogWriter, WritesLinesInOrder) {
  Pipe pipe;
  LogWriter writer(OptionsFor(pipe));
  for (int i = 0; i < 20; ++i) writer.Append(LineOf(i));
  EXPECT_TRUE(writer.Flush(kLong));
  const std::string text = pipe.ReadTo(LineOf(19));
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += LineOf(i);
  EXPECT_EQ(text, expected);
  EXPECT_EQ(writer.dropped(), 0u);
}

TEST(LogWriter, DoesNotWaitForAnUnreadPipe) {
  // Stays open: the thread that is left behind may still use its descriptor's number.
  static Pipe pipe;
  ASSERT_TRUE(pipe.Fill());
  LogWriter::Options options = OptionsFor(pipe);
  options.closing_timeout = kShort;
  const auto begun = steady_clock::now();
  {
    LogWriter writer(options);
    Fill(writer);
    for (int i = 0; i < 100'000; ++i) writer.Append(LineOf(i));
    EXPECT_FALSE(writer.Flush(kShort));
    EXPECT_GE(writer.dropped(), 99'000u);  // pipe, queue and thread hold a few hundred lines
  }
  EXPECT_LT(steady_clock::now() - begun, kLong);
  pipe.CloseReader();  // ends the thread that was left behind
}

TEST(LogWriter, ReportsDroppedLinesAfterTheLinesBeforeThem) {
  Pipe pipe;
  ASSERT_TRUE(pipe.Fill());
  auto writer = std::make_unique<LogWriter>(OptionsFor(pipe));
  const int last_kept = Fill(*writer);
  for (int i = 0; i < 41; ++i) writer->Append("x\n");  // even though it would fit
  const std::string notice = "42 dropped\n";
  std::string text = pipe.ReadTo(notice);
  EXPECT_TRUE(text.ends_with(LineOf(last_kept) + notice)) << text;
  writer->Append("later\n");
  writer.reset();
  pipe.CloseWriter();
  EXPECT_EQ(pipe.ReadTo(""), "later\n");
}

TEST(LogWriter, WritesQueuedLinesBeforeItEnds) {
  Pipe pipe;
  std::string text;
  std::thread reader([&] { text = pipe.ReadTo("the end\n"); });
  {
    LogWriter writer(OptionsFor(pipe));
    for (int i = 0; i < 30; ++i) writer.Append(LineOf(i));
    writer.Append("the end\n");
  }
  reader.join();
  EXPECT_TRUE(text.ends_with("the end\n"));
}

TEST(LogWriter, CountsLinesThatAClosedPipeRejects) {
  Pipe pipe;
  LogWriter writer(OptionsFor(pipe));
  pipe.CloseReader();
  writer.Append(LineOf(1));  // SIGPIPE would end this test.
  EXPECT_TRUE(writer.Flush(kLong));
  writer.Append(LineOf(2));
  EXPECT_TRUE(writer.Flush(kLong));
  EXPECT_EQ(writer.dropped(), 2u);
}

// ---- A failed check -----------------------------------------------------------------------------

// REQUIRES: a process that is about to end.
void FailACheck() {
  const std::unique_ptr<Log> log = MakeStderrLog("doomed", LogLevel::kInfo);
  for (int i = 0; i < 100; ++i) log->Info("step ", i);
  MCCS_CHECK(1 + 1 == 3);
}

TEST(LogDeathTest, FailedCheckWritesTheLinesBeforeIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FailACheck(), testing::KilledBySignal(SIGABRT),
              "step 99\n.*violated invariant: 1 \\+ 1 == 3");
}

TEST(LogDeathTest, FailedCheckAbortsBesideAnUnreadPipe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [] {
    const Pipe pipe;
    if (!pipe.Fill()) _exit(1);
    dup2(pipe.in(), STDERR_FILENO);
    FailACheck();
  };
  EXPECT_EXIT(fail(), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace mccs

#include "tools/mccsctl/read_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "proto/message_limits.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace read_files_test {

using testing::HasSubstr;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(ReadFiles, ReadsFilesOfADirectoryByName) {
  const TemporaryDirectory directory;
  Write(directory.File("b.yml"), "b");
  Write(directory.File("a.yaml"), "a");
  Write(directory.File("c.json"), "c");
  Write(directory.File("notes.txt"), "no");
  std::filesystem::create_directory(directory.File("deeper.yaml"));
  const auto files = ReadFiles({directory.File(""), directory.File("notes.txt")});
  ASSERT_TRUE(files.ok()) << files.status();
  std::string texts;
  for (const control::v1::ObjectFile& file : *files) texts += file.text() + " ";
  EXPECT_EQ(texts, "a b c no ");
  EXPECT_THAT((*files)[0].name(), HasSubstr("/a.yaml"));
}

TEST(ReadFiles, ErrorNamesUnreadableFile) {
  const TemporaryDirectory directory;
  EXPECT_THAT(std::string(ReadFiles({"/no/such.yaml"}).status().message()),
              HasSubstr("cannot read /no/such.yaml"));
  EXPECT_THAT(std::string(ReadFiles({directory.File("")}).status().message()),
              HasSubstr("no .yaml, .yml or .json file in"));
  const std::string large = directory.File("large.yaml");
  Write(large, std::string(kMaxObjectTextBytes / 2 + 1, '#'));
  EXPECT_TRUE(ReadFiles({large}).ok());
  EXPECT_EQ(ReadFiles({large, large}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ReadFiles, RejectsInvalidUtf8WithPosition) {
  const TemporaryDirectory directory;
  const std::string file = directory.File("a.yaml");
  for (const char* good : {"# Z\xC3\xBCrich \xE2\x82\xAC \xF0\x9F\x98\x80", "\xED\x9F\xBF"}) {
    Write(file, good);
    EXPECT_TRUE(ReadFiles({file}).ok()) << good;
  }
  Write(file, "a: \xC3\xBC\n# Z\xFCrich\n");
  EXPECT_EQ(ReadFiles({file}).status().message(),
            file + ":2:4: byte 0xfc is not valid UTF-8; save the file as UTF-8");
  for (const char* bad : {"\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80",
                          "\xE2\x82"
                          "a"}) {
    Write(file, bad);
    EXPECT_FALSE(ReadFiles({file}).ok()) << bad;
  }
}

}  // namespace read_files_test
}  // namespace mccs

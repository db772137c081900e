#include "tools/mccsctl/read_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/store/scratch_folder.h"

namespace mccs {
namespace {

using testing::HasSubstr;

void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(ReadFiles, AFolderGivesItsDocumentsByName) {
  const ScratchFolder folder;
  Write(folder.File("b.yml"), "b");
  Write(folder.File("a.yaml"), "a");
  Write(folder.File("c.json"), "c");
  Write(folder.File("notes.txt"), "no");
  std::filesystem::create_directory(folder.File("deeper.yaml"));
  const auto files = ReadFiles({folder.File(""), folder.File("notes.txt")});
  ASSERT_TRUE(files.ok()) << files.status();
  std::string texts;
  for (const control::ObjectFile& file : *files) texts += file.text() + " ";
  EXPECT_EQ(texts, "a b c no ");
  EXPECT_THAT((*files)[0].name(), HasSubstr("/a.yaml"));
}

TEST(ReadFiles, WhatCannotBeReadIsNamed) {
  const ScratchFolder folder;
  EXPECT_THAT(std::string(ReadFiles({"/no/such.yaml"}).status().message()),
              HasSubstr("cannot read /no/such.yaml"));
  EXPECT_THAT(std::string(ReadFiles({folder.File("")}).status().message()),
              HasSubstr("there is no .yaml, .yml or .json file in"));
  const std::string large = folder.File("large.yaml");
  Write(large, std::string(kMaxFileBytes / 2 + 1, '#'));
  EXPECT_TRUE(ReadFiles({large}).ok());
  EXPECT_EQ(ReadFiles({large, large}).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace mccs

#include "base/yaml_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/closest_word.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace yaml_config_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct Settings {
  std::string listen = "default";
  uint16_t port = 1;
  uint64_t slot_bytes = 0;
  bool verbose = false;
  double share = 0;
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::string>> labels;
};

absl::Status Read(const std::string& text, Settings* out) {
  absl::StatusOr<YamlReader> yaml = YamlReader::Parse(text, "x.yaml");
  if (!yaml.ok()) return yaml.status();
  yaml->Field("listen", &out->listen);
  yaml->Field("verbose", &out->verbose);
  yaml->Field("share", &out->share);
  yaml->Field("names", &out->names);
  yaml->Field("labels", &out->labels);
  YamlReader lanes = yaml->Child("lanes");
  lanes.Field("port", &out->port);
  lanes.Bytes("slot_bytes", &out->slot_bytes);
  return yaml->Finish();
}

std::string ErrorOf(const std::string& text) {
  Settings settings;
  const absl::Status status = Read(text, &settings);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

// yaml-cpp's loader does not end on these.
TEST(Yaml, RejectsTextThatBeginsNoValue) {
  for (const char* text : {",", ", a", ",}", "---\n, a"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("malformed YAML")) << text;
  }
  EXPECT_THAT(ErrorOf("\n ,"), HasSubstr("x.yaml:2:2: malformed YAML: unexpected character"));
}

TEST(Yaml, RejectsTextThatIsNotUtf8) {
  EXPECT_THAT(ErrorOf("a: 1\nb: \xff\n"),
              HasSubstr("x.yaml:2:4: byte 0xff is not valid UTF-8; save the file as UTF-8"));
  EXPECT_THAT(ErrorOf("a: 1\n# caf\xe9\n"), HasSubstr("x.yaml:2:6: byte 0xe9 is not"));
}

// yaml-cpp takes the first one for an escape: "9 \0 " would be read as the string "9   ".
TEST(Yaml, RejectsControlCharacters) {
  for (const char control : {'\0', '\4', '\x1b', '\x7f'}) {
    const std::string text = std::string("a: 1\nb: 9") + control + "\n";
    EXPECT_THAT(ErrorOf(text), HasSubstr("x.yaml:2:5: control character 0x")) << int{control};
    EXPECT_THAT(ErrorOf(text), HasSubstr(" is not allowed; remove it")) << int{control};
  }
  Settings settings;
  EXPECT_EQ(Read("listen:\tx\r\n", &settings), absl::OkStatus());
  EXPECT_EQ(settings.listen, "x");
}

TEST(Yaml, FieldsOfEveryTypeAreRead) {
  Settings s;
  const absl::Status status = Read(
      "# comment\n"
      "listen: 0.0.0.0:7500\n"
      "verbose: true\n"
      "share: 0.25\n"
      "names: [a, b]\n"
      "labels: {rack: r1, pod: p2}\n"
      "lanes:\n"
      "  port: 65535\n"
      "  slot_bytes: 1 MiB\n",
      &s);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(s.listen, "0.0.0.0:7500");
  EXPECT_TRUE(s.verbose);
  EXPECT_EQ(s.share, 0.25);
  EXPECT_THAT(s.names, ElementsAre("a", "b"));
  EXPECT_THAT(s.labels, ElementsAre(Pair("rack", "r1"), Pair("pod", "p2")));
  EXPECT_EQ(s.port, 65535);
  EXPECT_EQ(s.slot_bytes, 1u << 20);
}

TEST(Yaml, AnEmptyDocumentKeepsTheDefaults) {
  for (const char* text : {"", "# nothing\n", "---\n", "lanes:\n"}) {
    Settings s;
    EXPECT_TRUE(Read(text, &s).ok()) << text;
    EXPECT_EQ(s.listen, "default");
    EXPECT_EQ(s.port, 1);
  }
}

TEST(Yaml, ReportsAnUnknownKeyWithPositionAndSuggestion) {
  EXPECT_EQ(ErrorOf("listen: a\nverbsoe: true\n"),
            "x.yaml:2:1: unknown key 'verbsoe'; did you mean 'verbose'?");
  EXPECT_THAT(ErrorOf("lanes:\n  port: 1\n  zebra: 2\n"),
              OneLineMentions("x.yaml:3:3", "'zebra'", "port", "slot_bytes"));
}

TEST(Yaml, ReportsAWrongTypeWithPosition) {
  EXPECT_THAT(ErrorOf("lanes:\n  port: many\n"),
              OneLineMentions("x.yaml:2:9", "'port'", "integer", "65535", "'many'"));
  EXPECT_THAT(ErrorOf("lanes: {port: 65536}\n"),
              OneLineMentions("x.yaml:1:15", "'port'", "integer", "65535", "'65536'"));
  EXPECT_THAT(ErrorOf("lanes: {port: \"5\"}\n"),
              OneLineMentions("x.yaml:1:15", "'port'", "integer", "65535", "\"5\""));
  EXPECT_EQ(ErrorOf("verbose: yes\n"),
            "x.yaml:1:10: 'verbose': expected true or false, found 'yes'");
  EXPECT_EQ(ErrorOf("listen: [a]\n"), "x.yaml:1:9: 'listen': expected a string, found a list");
  EXPECT_EQ(ErrorOf("names: a\n"), "x.yaml:1:8: 'names': expected a list, found 'a'");
  EXPECT_EQ(ErrorOf("lanes: 3\n"), "x.yaml:1:8: 'lanes': expected a mapping, found '3'");
  EXPECT_THAT(ErrorOf("lanes:\n  slot_bytes: 1MB\n"),
              OneLineMentions("x.yaml:2:15", "'slot_bytes'", "bytes", "'1MB'"));
}

TEST(Yaml, RejectsDuplicateKeys) {
  EXPECT_EQ(ErrorOf("listen: a\nlisten: b\n"),
            "x.yaml:2:1: duplicate key 'listen'; it is already on line 1");
}

TEST(Yaml, ReportsMalformedYamlWithPosition) {
  EXPECT_THAT(ErrorOf("listen: [a\nverbose: true\n"), HasSubstr("x.yaml:2:"));
  EXPECT_THAT(ErrorOf("listen: a\n  b: c\n"), HasSubstr("x.yaml:2:4: malformed YAML"));
  EXPECT_THAT(ErrorOf("- a\n- b\n"),
              HasSubstr("x.yaml:1:1: expected 'key: value' lines, found a list"));
  EXPECT_THAT(ErrorOf("listen: a\n---\nlisten: b\n"), HasSubstr("x.yaml:3:1: a second document"));
  EXPECT_THAT(ErrorOf(std::string("\0\x01\xff", 3)), HasSubstr("x.yaml:1:"));
}

TEST(Yaml, ReportsAllErrorsInFileOrder) {
  EXPECT_EQ(ErrorOf("zebra: 1\nverbose: 2\nlanes: {port: x}\n"),
            "x.yaml:1:1: unknown key 'zebra'; known keys: listen verbose share names labels lanes\n"
            "x.yaml:2:10: 'verbose': expected true or false, found '2'\n"
            "x.yaml:3:15: 'port': expected an integer from 0 to 65535, found 'x'");
}

TEST(Yaml, ReportsAMissingKeyWithItsPath) {
  absl::StatusOr<YamlReader> yaml = YamlReader::Parse("a:\n  b: 1\n", "x.yaml");
  ASSERT_TRUE(yaml.ok());
  YamlReader a = yaml->Child("a");
  int32_t b = 0, c = 0;
  a.Field("b", &b);
  a.Field("c", &c, Need::kRequired);
  EXPECT_EQ(yaml->Finish().message(), "x.yaml:2:3: the key 'a.c' is missing");
}

TEST(Yaml, ReportsTheCallersErrorWithPosition) {
  absl::StatusOr<YamlReader> yaml = YamlReader::Parse("list:\n  - n: 1\n  - n: -7\n", "x.yaml");
  ASSERT_TRUE(yaml.ok());
  std::vector<YamlReader> items = yaml->Children("list");
  ASSERT_EQ(items.size(), 2u);
  for (YamlReader& item : items) {
    int32_t n = 0;
    item.Field("n", &n);
    if (n < 0) item.Reject("n", "n must not be negative");
  }
  EXPECT_EQ(yaml->Finish().message(), "x.yaml:3:8: n must not be negative");
}

TEST(Yaml, RatesHaveAUnitAndAreAboveZero) {
  absl::StatusOr<YamlReader> yaml =
      YamlReader::Parse("a: 2.5 Gbit/s\nb: 0Mbit/s\nc: 5\n", "x.yaml");
  ASSERT_TRUE(yaml.ok());
  uint64_t a = 0, b = 7, c = 7;
  yaml->BitRate("a", &a);
  EXPECT_FALSE(yaml->Rejected());
  yaml->BitRate("b", &b);
  EXPECT_TRUE(yaml->Rejected());
  yaml->BitRate("c", &c);
  EXPECT_EQ(a, 2'500'000'000u);
  EXPECT_EQ(b, 7u);
  EXPECT_EQ(yaml->Finish().message(),
            "x.yaml:2:4: 'b': expected a rate above zero with its unit, such as 50Gbit/s or "
            "200Mbit/s, found "
            "'0Mbit/s'\n"
            "x.yaml:3:4: 'c': expected a rate above zero with its unit, such as 50Gbit/s or "
            "200Mbit/s, found "
            "'5'");
}

TEST(Yaml, ReportsAnInvalidItemWithPosition) {
  absl::StatusOr<YamlReader> yaml =
      YamlReader::Parse("names: [a,\n        b]\nlines: 1\n", "x.yaml");
  ASSERT_TRUE(yaml.ok());
  std::vector<std::string> names;
  int32_t lines = 0;
  yaml->Field("names", &names);
  yaml->Field("lines", &lines);
  EXPECT_EQ(yaml->Line("lines"), 3);
  EXPECT_EQ(yaml->Line("absent"), 1);
  yaml->RejectItem("names", 1, "no b");
  yaml->RejectItem("names", 2, "too few");
  yaml->RejectItem("lines", 0, "no list");
  EXPECT_EQ(yaml->Finish().message(), "x.yaml:1:8: too few\nx.yaml:2:9: no b\nx.yaml:3:8: no list");
}

TEST(Yaml, NamesAMissingFile) {
  const auto yaml = YamlReader::Open("/nowhere/x.yaml");
  EXPECT_EQ(yaml.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(yaml.status().message()), HasSubstr("/nowhere/x.yaml"));
}

TEST(ClosestWord, IsGivenOnlyWhenItIsClose) {
  const std::vector<std::string> known = {"listen", "log_level", "id"};
  EXPECT_EQ(*ClosestWord("listne", known), "listen");
  EXPECT_EQ(*ClosestWord("loglevel", known), "log_level");
  EXPECT_EQ(ClosestWord("xy", known), nullptr);
  EXPECT_EQ(ClosestWord("", known), nullptr);
}

TEST(Yaml, ReportsAnErrorInAnAliasOnce) {
  auto yaml = YamlReader::Parse("a: &same {port: x}\nb: *same\n", "x.yaml");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  for (const char* key : {"a", "b"}) {
    uint16_t port = 0;
    yaml->Child(key).Field("port", &port);
  }
  EXPECT_THAT(std::string(yaml->Finish().message()),
              OneLineMentions("x.yaml:1:17", "'port'", "65535", "'x'"));
}

TEST(Yaml, SeveralDocumentsShareTheirErrors) {
  auto documents = YamlReader::ParseAll("a: x\n---\n---\na: 2\nb: 3\n", "x.yaml");
  ASSERT_TRUE(documents.ok()) << documents.status();
  ASSERT_EQ(documents->size(), 2u) << "the empty one is omitted";
  for (YamlReader& document : *documents) {
    int32_t a = 0;
    document.Field("a", &a);
  }
  EXPECT_EQ((*documents)[1].Place().line, 4);
  EXPECT_EQ((*documents)[0].Finish().message(),
            "x.yaml:1:4: 'a': expected an integer, found 'x'\n"
            "x.yaml:5:1: unknown key 'b'; known keys: a");
  EXPECT_EQ(YamlReader::ParseAll("a: 1\n---\n[b]\n", "x.yaml").status().message(),
            "x.yaml:3:1: expected 'key: value' lines, found a list");
  EXPECT_TRUE(YamlReader::ParseAll("", "x.yaml")->empty());
}

TEST(Yaml, PlacesAreKnownByPath) {
  const auto document = YamlReader::Parse("a: 1\nb:\n  c: [x, {d: y}]\n  e:\n    - z\n", "x.yaml");
  const auto places = document->Positions();
  const auto at = [&](const std::string& path) {
    const auto found = places.find(path);
    return found == places.end() ? std::pair(0, 0)
                                 : std::pair(found->second.line, found->second.column);
  };
  EXPECT_EQ(at("a"), std::pair(1, 4));
  EXPECT_EQ(at("b.c[1].d"), std::pair(3, 14));
  EXPECT_EQ(at("b.e[0]"), std::pair(5, 7));
  EXPECT_EQ(places.size(), 8u);
}

TEST(Yaml, CountsErrorsBeyondThoseThatItKeeps) {
  std::string text;
  for (int i = 0; i < 150'000; ++i) absl::StrAppend(&text, "k", i, ": \n");
  auto yaml = YamlReader::Parse(text, "x.yaml");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_THAT(std::string(yaml->Finish().message()), HasSubstr("\n(149990 more)"));
}

TEST(Yaml, ReturnsThePartUnderAKeyAsYaml) {
  auto document = YamlReader::Parse("a: {b: [1, '2'], c: \"x: y\"}  # why\n", "x.yaml");
  const std::string text = document->TextOf("a");
  EXPECT_TRUE(document->Finish().ok()) << "the field was read";
  auto again = YamlReader::Parse(text, "y.yaml");
  std::vector<std::string> b;
  std::string c;
  again->Field("b", &b);
  again->Field("c", &c);
  EXPECT_TRUE(again->Finish().ok());
  EXPECT_THAT(b, ElementsAre("1", "2"));
  EXPECT_EQ(c, "x: y");
}

TEST(Yaml, RecordListsTheKeysThatAReaderAsksFor) {
  std::vector<YamlKey> keys;
  YamlReader yaml = YamlReader::Record(&keys);
  std::string name;
  int32_t count = 3;
  uint64_t rate = 0;
  yaml.Field("name", &name, Need::kRequired);
  for (YamlReader& lane : yaml.Children("lanes")) {
    lane.Field("count", &count);
    if (lane.Has("rate")) lane.BitRate("rate", &rate);
  }
  std::ostringstream printed;
  PrintKeys("test", keys, &printed);
  EXPECT_EQ(printed.str(),
            "test\tname\tstring\trequired\t\n"
            "test\tlanes\tlist of mappings\toptional\t\n"
            "test\tlanes[].count\tinteger\toptional\t3\n"
            "test\tlanes[].rate\trate\toptional\t\n");
}

}  // namespace yaml_config_test
}  // namespace mccs

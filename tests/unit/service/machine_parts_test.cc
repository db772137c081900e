// Distances of NICs and GPUs, on machines described by hwloc files.
#include "service/machine_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/temporary_directory.h"
#include "topology/topology_reader.h"

namespace mccs {
namespace machine_parts_test {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;

// Writes the XML of a machine piece by piece, in hwloc's export format.
class Machine {
 public:
  struct Device {
    std::string bus_id, type,
        nic;  // `type` such as "0302 [10de:2330]"; nic: empty, or its interface
  };

  // A package with devices behind PCI switches of their own.
  void AddPackage(const std::vector<std::vector<Device>>& switches) {
    const int index = packages_++;
    absl::StrAppend(&body_, Open("Package", index), Open("NUMANode", index, "local_memory=\"1\""),
                    "</object>", Open("Core", index), Open("PU", index), "</object></object>");
    for (const std::vector<Device>& devices : switches) {
      ++buses_;
      absl::StrAppend(&body_, "<object type=\"Bridge\" gp_index=\"", ++last_,
                      "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-ff]\">");
      absl::StrAppend(&body_, "<object type=\"Bridge\" gp_index=\"", ++last_,
                      "\" bridge_type=\"1-1\" depth=\"1\" bridge_pci=\"0000:[00-ff]\" pci_busid=\"",
                      "0000:f", buses_,
                      ":00.0\" pci_type=\"0604 [8086:0001] [0000:0000] 00\" "
                      "pci_link_speed=\"0.0\">");
      for (const Device& device : devices) {
        absl::StrAppend(&body_, "<object type=\"PCIDev\" gp_index=\"", ++last_, "\" pci_busid=\"",
                        device.bus_id, "\" pci_type=\"", device.type,
                        " [0000:0000] 00\" pci_link_speed=\"0.0\">");
        if (!device.nic.empty()) {
          absl::StrAppend(&body_, "<object type=\"OSDev\" gp_index=\"", ++last_, "\" name=\"",
                          device.nic, "\" osdev_type=\"2\"/>");
        }
        absl::StrAppend(&body_, "</object>");
      }
      absl::StrAppend(&body_, "</object></object>");
    }
    absl::StrAppend(&body_, "</object>");
  }

  std::string Xml() const {
    const int all = (1 << packages_) - 1;
    return absl::StrCat(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" gp_index=\"1\" ",
        Sets(all), " allowed_cpuset=\"", Mask(all), "\" allowed_nodeset=\"", Mask(all), "\">",
        body_, "</object></topology>\n");
  }

 private:
  static std::string Mask(int bits) { return absl::StrCat("0x", absl::Hex(bits, absl::kZeroPad8)); }
  static std::string Sets(int bits) {
    std::string text;
    for (const char* set : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
      absl::StrAppend(&text, set, "=\"", Mask(bits), "\" ");
    }
    return text;
  }
  std::string Open(const char* type, int index, const std::string& more = "") {
    return absl::StrCat("<object type=\"", type, "\" os_index=\"", index, "\" gp_index=\"", ++last_,
                        "\" ", Sets(1 << index), more, ">");
  }

  std::string body_;
  int packages_ = 0;
  int buses_ = 0;
  int last_ = 1;
};

class MachinePartsTest : public testing::Test {
 protected:
  MachinePartsTest() { std::filesystem::create_directories(sysfs_ + "/class/net"); }

  MachineParts Look(const Machine& machine, const std::vector<std::string>& nics) {
    const std::string file = directory_.File("machine.xml");
    std::ofstream(file) << machine.Xml();
    MachineOptions options{.inventory = {}, .sysfs = sysfs_, .hwloc_xml = file};
    for (const std::string& name : nics) {
      options.inventory.nics.push_back({.name = name, .addresses = {"10.0.0.1"}});
    }
    options.inventory.nics.push_back({.name = "lo", .addresses = {"127.0.0.1"}, .loopback = true});
    const absl::StatusOr<MachineParts> parts = DiscoverMachine(options);
    EXPECT_TRUE(parts.ok()) << parts.status();
    return parts.value_or(MachineParts());
  }
  void MakeOf(const std::string& nic, const std::string& part) {
    std::filesystem::create_directories(sysfs_ + "/class/net/" + nic + "/lower_" + part);
  }
  static Machine::Device Gpu(const std::string& bus_id) { return {bus_id, "0302 [10de:2330]", ""}; }
  static Machine::Device Nic(const std::string& bus_id, const std::string& name) {
    return {bus_id, "0200 [15b3:101b]", name};
  }

  const TemporaryDirectory directory_;
  const std::string sysfs_ = directory_.File("sysfs");
};

TEST_F(MachinePartsTest, ANicIsNearTheGpusBehindItsSwitch) {
  Machine machine;
  machine.AddPackage({{Gpu("0000:11:00.0"), Nic("0000:12:00.0", "eth0")},
                      {Gpu("0000:21:00.0"), Nic("0000:22:00.0", "eth1")}});
  machine.AddPackage({{Gpu("0000:31:00.0")}, {Nic("0000:42:00.0", "eth2")}});
  const MachineParts parts = Look(machine, {"eth0", "eth1", "eth2"});
  ASSERT_EQ(parts.gpus.size(), 3u);
  EXPECT_EQ(parts.gpus[1].bus_id, "0000:21:00.0");
  EXPECT_THAT(InventoryGpus(parts),
              ElementsAre(FieldsAre(0, "0000:11:00.0"), FieldsAre(1, "0000:21:00.0"),
                          FieldsAre(2, "0000:31:00.0")));
  ASSERT_EQ(parts.nics.size(), 3u);
  EXPECT_TRUE(parts.has_distances);
  EXPECT_THAT(parts.nics[0].near_gpus, ElementsAre(0));
  EXPECT_THAT(parts.nics[1].near_gpus, ElementsAre(1));
  EXPECT_THAT(parts.nics[2].near_gpus, ElementsAre(2)) << "of the same package";
}

TEST_F(MachinePartsTest, OmitsEqualDistances) {
  Machine machine;
  machine.AddPackage(
      {{Gpu("0000:11:00.0"), Nic("0000:12:00.0", "eth0"), Nic("0000:12:00.1", "eth1")}});
  const MachineParts parts = Look(machine, {"eth0", "eth1"});
  EXPECT_FALSE(parts.has_distances);
  EXPECT_THAT(parts.nics[0].near_gpus, IsEmpty());
  EXPECT_TRUE(parts.nics[0].has_device);
}

TEST_F(MachinePartsTest, ABondIsAtItsPartsAndAnEmptyBridgeIsNowhere) {
  Machine machine;
  machine.AddPackage(
      {{Gpu("0000:11:00.0"), Nic("0000:12:00.0", "eth0"), Nic("0000:12:00.1", "eth1")},
       {Gpu("0000:21:00.0"), Nic("0000:22:00.0", "eth2")}});
  MakeOf("bond0", "eth0");
  MakeOf("bond0", "eth1");
  MakeOf("docker0", "veth12");
  const MachineParts parts = Look(machine, {"bond0", "docker0", "eth2"});
  ASSERT_EQ(parts.nics.size(), 3u);
  EXPECT_TRUE(parts.nics[0].has_device);
  EXPECT_THAT(parts.nics[0].near_gpus, ElementsAre(0));
  EXPECT_FALSE(parts.nics[1].has_device);
  EXPECT_THAT(parts.nics[1].near_gpus, IsEmpty());
  EXPECT_THAT(parts.nics[2].near_gpus, ElementsAre(1));
}

TEST_F(MachinePartsTest, OtherDisplaysAreNoGpus) {
  Machine machine;
  machine.AddPackage({{{"0000:01:00.0", "0300 [1a03:2000]", ""}, Gpu("0000:11:00.0")}});
  EXPECT_EQ(Look(machine, {}).gpus.size(), 1u);
}

TEST_F(MachinePartsTest, RejectsAnInvalidFile) {
  EXPECT_FALSE(DiscoverMachine({.inventory = {}, .hwloc_xml = "/no/such.xml"}).ok());
}

TEST_F(MachinePartsTest, ReadsThisMachine) {
  const auto inventory = DiscoverHost({});
  ASSERT_TRUE(inventory.ok()) << inventory.status();
  const auto parts = DiscoverMachine({.inventory = *inventory, .hwloc_xml = ""});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->nics.size() + 1, inventory->nics.size()) << "without loopback";
}

// ---- The host's entry of a Topology -------------------------------------------------------------

using testing::HasSubstr;
using testing::Not;

MachineParts TwoAndTwo() {
  MachineParts parts;
  parts.gpus = {{"0000:11:00.0"}, {"0000:21:00.0"}};
  parts.nics = {{"eth0", "10.0.0.1", 25'000'000'000, 9000, true, {0}},
                {"eth1", "10.0.1.1", 100'000'000, 9000, true, {1}},
                {"docker0", "172.17.0.1", 0, 1500, false, {}}};
  parts.has_distances = true;
  return parts;
}

// Parses the text in a Topology, as an operator would paste it, with a switch.
absl::StatusOr<Topology> Paste(const std::string& hosts) {
  return ParseTopology(
      absl::StrCat("apiVersion: mccs/v1\nkind: Topology\nmetadata: {name: t}\nspec:\n"
                   "  racks: [{name: r7}]\n  switches: [{name: leaf0}]\n  hosts:\n",
                   hosts),
      "t.yaml");
}

TEST(HostTopologyYaml, IsReadAsPartOfATopology) {
  const std::string text =
      HostTopologyYaml({.host = "node-17", .rack = "r7", .configured_gpus = 2}, TwoAndTwo());
  EXPECT_FALSE(Paste(text).ok()) << "the switch is a placeholder";
  const auto topology = Paste(absl::StrReplaceAll(text, {{"SWITCH", "leaf0"}}));
  ASSERT_TRUE(topology.ok()) << topology.status() << "\n" << text;
  const auto nic = topology->FindNic("node-17/eth0");
  ASSERT_TRUE(nic.has_value());
  EXPECT_EQ(topology->nic(*nic).address, "10.0.0.1");
  EXPECT_EQ(topology->nic(*nic).near_gpus.size(), 1u);
  EXPECT_EQ(topology->link(topology->nic(*nic).link).capacity_bps, 25'000'000'000u);
  EXPECT_EQ(topology->link(topology->nic(*topology->FindNic("node-17/eth1")).link).capacity_bps,
            100'000'000u);
  EXPECT_FALSE(topology->FindNic("node-17/docker0").has_value());
  EXPECT_EQ(topology->gpus().size(), 2u);
}

TEST(HostTopologyYaml, MarksWhatItCannotDetect) {
  MachineParts parts;
  parts.nics = {{"eth0", "10.0.0.1", 0, 0, false, {}}};
  const std::string text = HostTopologyYaml({.host = "h", .rack = "", .configured_gpus = 8}, parts);
  for (const char* expected :
       {"rack: RACK", "capacity: SPEED", "No NVIDIA GPU", "    gpus: 8\n", "switch: SWITCH"}) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
  EXPECT_THAT(text, Not(HasSubstr("near_gpus")));
  EXPECT_THAT(text, Not(HasSubstr("MTU")));
  const auto faults = Paste(text).status();
  EXPECT_THAT(std::string(faults.message()), HasSubstr("SPEED"));
}

TEST(HostTopologyYaml, OmitsUnknownDistances) {
  MachineParts parts = TwoAndTwo();
  parts.has_distances = false;
  const std::string text =
      HostTopologyYaml({.host = "h", .rack = "r7", .configured_gpus = 8}, parts);
  EXPECT_THAT(text, HasSubstr("near_gpus is unknown"));
  EXPECT_THAT(text, HasSubstr("configuration: 8"));
  EXPECT_TRUE(Paste(absl::StrReplaceAll(text, {{"SWITCH", "leaf0"}})).ok());
}

TEST(HostTopologyYaml, PrintsTheMtuIfAllNicsHaveIt) {
  MachineParts parts = TwoAndTwo();
  const auto text = [&] { return HostTopologyYaml({.host = "h", .rack = "r7"}, parts); };
  EXPECT_THAT(text(), HasSubstr("MTU of 9000"));
  parts.nics[1].mtu_bytes = 1500;
  EXPECT_THAT(text(), Not(HasSubstr("MTU")));
}

TEST(HostTopologyYaml, ReportsAHostWithoutANetwork) {
  EXPECT_THAT(HostTopologyYaml({.host = "h", .rack = "r7", .configured_gpus = 1}, {}),
              HasSubstr("No network interface except loopback"));
}

}  // namespace machine_parts_test
}  // namespace mccs

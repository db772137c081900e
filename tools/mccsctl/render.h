// Formats the controller's replies: tables for people, JSON and YAML for programs. Pure.
#ifndef MCCS_TOOLS_MCCSCTL_RENDER_H_
#define MCCS_TOOLS_MCCSCTL_RENDER_H_

#include <string>

#include "proto/operator.pb.h"

namespace mccs {

std::string RenderHosts(const control::v1::ListHostsReply& reply);
std::string RenderCommunicators(const control::v1::ListCommunicatorsReply& reply);
// `wide`: lists links by name instead of counting them.
std::string RenderTop(const control::v1::TopRates& top, bool wide);
std::string RenderCommunicator(const control::v1::CommunicatorDetail& detail);

// Protobuf's JSON mapping, with all fields under their original names; 64-bit integers are strings.
std::string RenderJson(const google::protobuf::Message& message);
// The same content as a YAML document.
std::string RenderYaml(const google::protobuf::Message& message);

std::string RenderExplanation(const control::v1::Explanation& explanation);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_RENDER_H_

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

// ---- Objects, their changes and the audit log (render_objects.cc) ----

// `what`: "tenants", used in the message for an empty list.
std::string RenderObjects(const control::v1::ListObjectsReply& reply, const std::string& what,
                          bool wide);
// One object in full.
std::string RenderObject(const control::v1::Object& object);
// YAML documents, one per object, that `mccsctl apply` accepts.
std::string RenderDocuments(const control::v1::ListObjectsReply& reply);
// The same as JSON: one object, or an array if there are several.
std::string RenderDocumentsAsJson(const control::v1::ListObjectsReply& reply);

std::string RenderChange(const control::v1::ChangeReply& reply);
// A unified diff per object that would change; empty: no object would change.
std::string RenderDifferences(const control::v1::ChangeReply& reply);

// Result of `drain` or `undrain` of a host or link.
std::string RenderDrain(const control::v1::DrainReply& reply, const std::string& what,
                        const std::string& name, bool undo);
std::string RenderAudit(const control::v1::ListAuditReply& reply);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_RENDER_H_

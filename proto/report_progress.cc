#include "proto/report_progress.h"

#include <google/protobuf/repeated_field.h>

#include "proto/same_message.h"

namespace mccs {
namespace {

using agent::v1::KindWork;
using agent::v1::Lane;
using google::protobuf::RepeatedField;
using google::protobuf::RepeatedPtrField;

// Appends get(item) of all items of `now`, if any differs from that of `before`.
template <typename Item, typename Number>
void AddColumn(const RepeatedPtrField<Item>& before, const RepeatedPtrField<Item>& now,
               Number (Item::*get)() const, RepeatedField<Number>* column) {
  bool same = true;
  for (int i = 0; i < now.size() && same; ++i) same = (before[i].*get)() == (now[i].*get)();
  if (same) return;
  column->Reserve(now.size());
  for (const Item& item : now) column->Add((item.*get)());
}

template <typename Item, typename Number>
void SetColumn(const RepeatedField<Number>& column, void (Item::*set)(Number),
               RepeatedPtrField<Item>* items) {
  for (int i = 0; i < column.size(); ++i) (items->at(i).*set)(column[i]);
}

bool Fits(const agent::v1::Progress& progress, const agent::v1::Report& report) {
  const auto fits = [](const auto& column, const auto& items) {
    return column.empty() || column.size() == items.size();
  };
  return fits(progress.kind_operations(), report.work()) &&
         fits(progress.kind_bytes(), report.work()) &&
         fits(progress.lane_payload_bytes(), report.lanes()) &&
         fits(progress.lane_waited_for_credit_ns(), report.lanes()) &&
         fits(progress.lane_waited_for_rate_ns(), report.lanes()) &&
         fits(progress.lane_waited_for_connection_ns(), report.lanes()) &&
         fits(progress.lane_round_trip_ns(), report.lanes());
}

}  // namespace

std::optional<agent::v1::Progress> ProgressBetween(const agent::v1::Report& before,
                                                   const agent::v1::Report& now) {
  if (before.work_size() != now.work_size() || before.lanes_size() != now.lanes_size())
    return std::nullopt;
  agent::v1::Progress progress;
  progress.set_comm_id(now.comm_id());
  progress.set_operations(now.operations());
  progress.set_bytes(now.bytes());
  AddColumn(before.work(), now.work(), &KindWork::operations, progress.mutable_kind_operations());
  AddColumn(before.work(), now.work(), &KindWork::bytes, progress.mutable_kind_bytes());
  AddColumn(before.lanes(), now.lanes(), &Lane::payload_bytes,
            progress.mutable_lane_payload_bytes());
  AddColumn(before.lanes(), now.lanes(), &Lane::waited_for_credit_ns,
            progress.mutable_lane_waited_for_credit_ns());
  AddColumn(before.lanes(), now.lanes(), &Lane::waited_for_rate_ns,
            progress.mutable_lane_waited_for_rate_ns());
  AddColumn(before.lanes(), now.lanes(), &Lane::waited_for_connection_ns,
            progress.mutable_lane_waited_for_connection_ns());
  AddColumn(before.lanes(), now.lanes(), &Lane::round_trip_ns,
            progress.mutable_lane_round_trip_ns());
  if (now.has_with_options()) *progress.mutable_with_options() = now.with_options();
  if (now.has_activity()) *progress.mutable_activity() = now.activity();
  progress.set_measured_ns(now.measured_ns());
  progress.set_sent_bps(now.sent_bps());
  progress.set_memory_bps(now.memory_bps());
  // Also finds fields that a later version of Report adds.
  agent::v1::Report after = before;
  return ApplyProgress(progress, &after) && IsSameMessage(after, now) ? std::optional(progress)
                                                                      : std::nullopt;
}

bool ApplyProgress(const agent::v1::Progress& progress, agent::v1::Report* report) {
  if (!Fits(progress, *report)) return false;
  report->set_operations(progress.operations());
  report->set_bytes(progress.bytes());
  SetColumn(progress.kind_operations(), &KindWork::set_operations, report->mutable_work());
  SetColumn(progress.kind_bytes(), &KindWork::set_bytes, report->mutable_work());
  SetColumn(progress.lane_payload_bytes(), &Lane::set_payload_bytes, report->mutable_lanes());
  SetColumn(progress.lane_waited_for_credit_ns(), &Lane::set_waited_for_credit_ns,
            report->mutable_lanes());
  SetColumn(progress.lane_waited_for_rate_ns(), &Lane::set_waited_for_rate_ns,
            report->mutable_lanes());
  SetColumn(progress.lane_waited_for_connection_ns(), &Lane::set_waited_for_connection_ns,
            report->mutable_lanes());
  SetColumn(progress.lane_round_trip_ns(), &Lane::set_round_trip_ns, report->mutable_lanes());
  if (progress.has_with_options()) *report->mutable_with_options() = progress.with_options();
  if (progress.has_activity()) *report->mutable_activity() = progress.activity();
  report->set_measured_ns(progress.measured_ns());
  report->set_sent_bps(progress.sent_bps());
  report->set_memory_bps(progress.memory_bps());
  return true;
}

}  // namespace mccs

#include "tests/sim/hostile_messages.h"

#include <limits>
#include <string>
#include <vector>

namespace mccs {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxElements = 4;
constexpr int kMaxDepth = 5;

constexpr uint64_t kLimits[] = {0,
                                1,
                                2,
                                7,
                                64,
                                4096,
                                4097,
                                65535,
                                65536,
                                1'000'000,
                                (1u << 31) - 1,
                                1u << 31,
                                ~uint32_t{0},
                                uint64_t{1} << 32,
                                uint64_t{1} << 56,
                                uint64_t{1} << 62,
                                uint64_t{1} << 63,
                                ~uint64_t{0}};

std::string RandomText(Dice& dice) {
  static const std::string texts[] = {
      "",         "h0",        "h1",         "10.0.0.1", "10.0.0.2",     "0.0.0.0",
      "uid 1000", "127.0.0.1", "two\nlines", "::1",      "no-such-host", std::string(5000, 'x')};
  return texts[dice() % std::size(texts)];
}

void Fill(Message& message, Dice& dice, int depth);

// Sets the field, or appends an element.
void Put(Message& message, const FieldDescriptor& field, Dice& dice, int depth) {
  const Reflection& reflection = *message.GetReflection();
  const auto put = [&](auto set, auto add, auto value) {
    if (field.is_repeated()) {
      (reflection.*add)(&message, &field, value);
    } else {
      (reflection.*set)(&message, &field, value);
    }
  };
  const uint64_t number = RandomBoundaryNumber(dice() % 8, dice);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return put(&Reflection::SetInt32, &Reflection::AddInt32, static_cast<int32_t>(number));
    case FieldDescriptor::CPPTYPE_INT64:
      return put(&Reflection::SetInt64, &Reflection::AddInt64, static_cast<int64_t>(number));
    case FieldDescriptor::CPPTYPE_UINT32:
      return put(&Reflection::SetUInt32, &Reflection::AddUInt32, static_cast<uint32_t>(number));
    case FieldDescriptor::CPPTYPE_UINT64:
      return put(&Reflection::SetUInt64, &Reflection::AddUInt64, number);
    case FieldDescriptor::CPPTYPE_BOOL:
      return put(&Reflection::SetBool, &Reflection::AddBool, number % 2 == 1);
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double values[] = {0,
                               1,
                               -1,
                               1e300,
                               std::numeric_limits<double>::infinity(),
                               1e-9,
                               std::numeric_limits<double>::quiet_NaN()};
      return put(&Reflection::SetDouble, &Reflection::AddDouble,
                 values[dice() % std::size(values)]);
    }
    case FieldDescriptor::CPPTYPE_FLOAT:
      return put(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(number));
    case FieldDescriptor::CPPTYPE_ENUM:
      return put(&Reflection::SetEnumValue, &Reflection::AddEnumValue, static_cast<int>(number));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = RandomText(dice);
      if (field.is_repeated()) {
        reflection.AddString(&message, &field, text);
      } else {
        reflection.SetString(&message, &field, text);
      }
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      Fill(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                               : *reflection.MutableMessage(&message, &field),
           dice, depth + 1);
  }
}

void Fill(Message& message, Dice& dice, int depth) {
  if (depth > kMaxDepth) return;
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool alternative = field.real_containing_oneof() != nullptr;
    if (!alternative && dice() % 8 == 0) continue;
    const uint64_t times = field.is_repeated() ? dice() % kMaxElements : 1;
    for (uint64_t n = 0; !alternative && n < times; ++n) Put(message, field, dice, depth);
  }
  for (int i = 0; i < type.oneof_decl_count(); ++i) {
    const auto& oneof = *type.oneof_decl(i);
    if (oneof.field(0)->real_containing_oneof() == nullptr) continue;  // an optional field
    const auto which = static_cast<int>(dice() % static_cast<uint64_t>(oneof.field_count()));
    Put(message, *oneof.field(which), dice, depth);
  }
}

}  // namespace

uint64_t RandomBoundaryNumber(uint64_t near, Dice& dice) {
  const uint64_t kind = dice() % 12;
  if (kind < 3) return near;
  if (kind < 5) return near + 1;
  if (kind < 6) return near - 1;
  if (kind < 7) return dice() % 20;
  if (kind < 8) return dice();
  return kLimits[dice() % std::size(kLimits)];
}

peer::Message RandomMessage(Dice& dice) {
  peer::Message message;
  Fill(message, dice, 0);
  return message;
}

void Corrupt(Message& message, Dice& dice) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  if (fields.empty()) return Fill(message, dice, kMaxDepth);
  const FieldDescriptor& field = *fields[dice() % fields.size()];
  const int elements = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
  const int some = elements > 0 ? static_cast<int>(dice() % static_cast<uint64_t>(elements)) : 0;
  const uint64_t how = dice() % 8;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && how < 6) {
    return Corrupt(field.is_repeated() ? *reflection.MutableRepeatedMessage(&message, &field, some)
                                       : *reflection.MutableMessage(&message, &field),
                   dice);
  }
  if (how == 6) return reflection.ClearField(&message, &field);
  if (field.is_repeated() && how % 3 == 0) return reflection.RemoveLast(&message, &field);
  if (field.is_repeated() && how % 3 == 1) {
    return reflection.SwapElements(&message, &field, some, elements - 1);
  }
  Put(message, field, dice, 0);
}

void Corrupt(MessageTag& tag, Dice& dice) {
  const auto rank = [&](Rank& value) {
    value = Rank(
        static_cast<int32_t>(RandomBoundaryNumber(static_cast<uint64_t>(value.value()), dice)));
  };
  switch (dice() % 8) {
    case 0:
      tag.kind = static_cast<MessageTag::Kind>(dice() % 8);
      break;
    case 1:
      tag.type = static_cast<DataType>(dice() % 16);
      break;
    case 2:
      rank(tag.pair.source);
      break;
    case 3:
      rank(tag.pair.destination);
      break;
    case 4:
      tag.signal = static_cast<uint32_t>(RandomBoundaryNumber(tag.signal, dice));
      break;
    case 5:
      tag.number = RandomBoundaryNumber(tag.number, dice);
      break;
    case 6:
      tag.stripes = static_cast<uint16_t>(RandomBoundaryNumber(tag.stripes, dice));
      break;
    default:
      tag.amount = RandomBoundaryNumber(tag.amount, dice);
  }
}

}  // namespace mccs

//===- PlanPlaces.h - positions of a plan's values in its text ------------===//
#pragma once

#include "support/text/Config.h"

namespace kiln {

/// A value of the document: `Place(root)["functions"][2]["arena"]`. An optional value that is absent has the place of
/// the value that would contain it.
class Place {
public:
  Place(const ConfigValue &value) : value(&value) {} // NOLINT(google-explicit-constructor)

  Place operator[](StringRef key) const {
    const ConfigValue *member = value->find(key);
    return member ? Place(*member, key) : Place(*value, key);
  }
  Place operator[](size_t index) const { return index < value->array.size() ? Place(value->array[index], key) : *this; }

  /// `LOC: error: KEY: MESSAGE`.
  Error fail(const Twine &message) const;

private:
  Place(const ConfigValue &value, StringRef key) : value(&value), key(key) {}

  const ConfigValue *value;
  StringRef key;
};

} // namespace kiln

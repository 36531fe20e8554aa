#include "plan/PlanPlaces.h"

#include "support/Diagnostic.h"

namespace kiln {

Error Place::fail(const Twine &message) const { return makeError(value->loc, key + ": " + message); }

} // namespace kiln

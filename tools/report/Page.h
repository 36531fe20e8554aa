//===- Page.h - an HTML page in a single file -----------------------------===//
#pragma once

#include "support/ADT.h"

namespace kiln {

/// Fills page/page.html with its style and script. `body` is HTML (Html.h), `title` is text.
std::string htmlPage(StringRef title, std::string body);

/// The text of a file of tools/report/page.
StringRef pageFile(StringRef name);

} // namespace kiln

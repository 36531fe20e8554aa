#include "tools/report/Page.h"

#include "report/PageFiles.h"
#include "support/Version.h"
#include "tools/report/Html.h"

namespace kiln {

StringRef pageFile(StringRef name) {
  for (const EmbeddedFile &file : pageFiles())
    if (file.name == name)
      return file.text;
  llvm::report_fatal_error("tools/report/page has no " + name);
}

std::string htmlPage(StringRef title, std::string body) {
  const std::map<StringRef, std::string> parts = {{"TITLE", escapeHtml(title)},
                                                  {"VERSION", compilerVersion},
                                                  {"STYLE", pageFile("style.css").str()},
                                                  {"SCRIPT", pageFile("script.js").str()},
                                                  {"BODY", std::move(body)}};
  std::string page;
  // A part's name stands between two @; the page contains no other @.
  bool isName = false;
  for (StringRef piece : llvm::split(pageFile("page.html"), "@")) {
    page += isName ? parts.at(piece) : piece.str();
    isName = !isName;
  }
  return page;
}

} // namespace kiln

#include "tools/kiln/Commands.h"

#include "support/files/File.h"
#include "support/process/Process.h"
#include "tools/report/Report.h"

namespace kiln {

Error run(const ReportCommand &command) {
  std::vector<ReportRequest> requests = {{command.plan, command.profile, command.batch, command.length}};
  if (!command.secondPlan.empty())
    requests.push_back({command.secondPlan, command.secondProfile, command.batch, command.length});
  std::vector<std::unique_ptr<ReportedPlan>> owned;
  std::vector<const ReportedPlan *> plans;
  for (ReportRequest &request : requests) {
    if (!owned.empty()) {
      // Only calls of the same dims can be compared.
      request.batch = owned.front()->batch;
      request.length = owned.front()->length;
    }
    auto reported = readReportedPlan(request);
    if (!reported)
      return reported.takeError();
    plans.push_back(reported->get());
    owned.push_back(std::move(*reported));
  }
  if (!command.picture.empty()) {
    Expected<std::string> picture = writeLayerPicture(*plans.front());
    if (!picture)
      return picture.takeError();
    if (Error error = writeFile(command.picture, *picture))
      return error;
  }
  if (command.output.empty())
    return Error::success();
  std::string page = writeReport(plans);
  if (command.output != "-")
    return writeFile(command.output, page);
  standardOutput() << page;
  return Error::success();
}

} // namespace kiln

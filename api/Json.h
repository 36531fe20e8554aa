//===- Json.h - plans and IR as JSON; docs/c-api.md has the formats ------------===//
#pragma once

#include "tools/report/ReportedPlan.h"

namespace kiln::api {

/// What LLVM's JSON takes as text: names and paths may contain bytes that are no UTF-8.
inline json::Value jsonText(StringRef text) { return json::fixUTF8(text); }

/// A dimension's extent, or an amount of bytes: a number, or a formula of dims.
json::Value jsonExpr(const Expr &expr);

void writeJson(json::OStream &out, const Module &module);
void writeJson(json::OStream &out, const ReportedPlan &reported);

} // namespace kiln::api

/* What the C programs of these tests share. */
#ifndef KILN_TESTS_API_SUPPORT_H
#define KILN_TESTS_API_SUPPORT_H

#include <kiln.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const KilnApi *kiln;

/* Requires success. */
#define CHECK(call) checkCall(call, #call, __LINE__)
/* Requires a condition. */
#define EXPECT(condition) expect(condition, #condition, __LINE__)
/* Requires an error of this code whose message contains the text. */
#define FAILS(code, text, call) expectError(code, text, call, #call, __LINE__)

static void expect(int holds, const char *what, int line) {
  if (holds)
    return;
  fprintf(stderr, "line %d: expected %s\n", line, what);
  exit(EXIT_FAILURE);
}

static void checkCall(KilnError *error, const char *call, int line) {
  if (error)
    fprintf(stderr, "line %d: %s: %s\n", line, call, kiln->errorMessage(error));
  expect(!error, "success", line);
}

static inline void expectError(int32_t code, const char *text, KilnError *error, const char *call, int line) {
  if (kiln->errorCode(error) != code || !strstr(kiln->errorMessage(error), text)) {
    fprintf(stderr, "line %d: %s: expected code %d and '%s', got %d: %s\n", line, call, (int)code, text,
            (int)kiln->errorCode(error), kiln->errorMessage(error));
    exit(EXIT_FAILURE);
  }
  kiln->releaseError(error);
}

static void openApi(void) {
  kiln = kilnGetApi(KILN_API_VERSION);
  expect(kiln != NULL, "a table", __LINE__);
}

#endif

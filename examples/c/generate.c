/* Continues a text with a GPT-2 model, and shows how probable the model thinks what it was given. Ctrl-C ends the text.
 *
 *   cc -std=c99 generate.c $(pkg-config --cflags --libs kiln) -o generate
 *   ./generate graphs/shakespeare-5m "ROMEO:"
 */
#include <kiln.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const KilnApi *kiln;
static KilnCancellation *interrupted;

/* Prints an error and ends the program; success goes on. */
static void check(KilnError *error) {
  if (!error)
    return;
  fprintf(stderr, "%s\n", kiln->errorMessage(error));
  kiln->releaseError(error);
  exit(EXIT_FAILURE);
}

static void onInterrupt(int number) {
  (void)number;
  kiln->cancel(interrupted);
}

static int32_t printToken(void *user, const KilnToken *token) {
  (void)user;
  fwrite(token->text, 1, token->textLength, stdout);
  return fflush(stdout);
}

/* The tokens of a text, in memory that the caller frees. */
static KilnTokens tokenize(const KilnModel *model, const char *text) {
  size_t count = 0;
  check(kiln->tokenize(model, text, strlen(text), 0, NULL, 0, &count));
  int32_t *ids = malloc((count + 1) * sizeof *ids);
  if (!ids)
    exit(EXIT_FAILURE);
  check(kiln->tokenize(model, text, strlen(text), 0, ids, count, &count));
  KilnTokens tokens = {ids, count};
  return tokens;
}

static void printScore(KilnSession *session, KilnTokens prompt) {
  if (prompt.count < 2)
    return;
  double sum = 0, *logProbabilities = malloc((prompt.count - 1) * sizeof *logProbabilities);
  if (!logProbabilities)
    exit(EXIT_FAILURE);
  check(kiln->score(session, prompt.ids, prompt.count, logProbabilities));
  for (size_t i = 0; i + 1 < prompt.count; ++i)
    sum += logProbabilities[i];
  fprintf(stderr, "log-probability of the prompt behind its first token: %.3f\n", sum);
  free(logProbabilities);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL PROMPT\n", argv[0]);
    return 2;
  }
  kiln = kilnGetApi(KILN_API_VERSION);
  if (!kiln) {
    fprintf(stderr, "libkiln is older than this program\n");
    return EXIT_FAILURE;
  }

  KilnModel *model;
  KilnSession *session;
  KilnSessionOptions sessionOptions = KILN_SESSION_OPTIONS;
  sessionOptions.canScore = 1;
  check(kiln->openModel(argv[1], NULL, &model));
  check(kiln->openSession(model, &sessionOptions, &session));
  check(kiln->createCancellation(&interrupted));
  signal(SIGINT, onInterrupt);

  KilnTokens prompt = tokenize(model, argv[2]);
  printScore(session, prompt);
  KilnGenerateOptions options = KILN_GENERATE_OPTIONS;
  options.maxNewTokens = 40;
  options.greedy = 1;
  options.onToken = printToken;
  options.cancellation = interrupted;
  KilnGenerations *generations;
  printf("%s", argv[2]);
  check(kiln->generate(session, &prompt, 1, &options, &generations));
  printf("\n");

  kiln->releaseGenerations(generations);
  free((void *)prompt.ids);
  signal(SIGINT, SIG_DFL);
  kiln->releaseCancellation(interrupted);
  kiln->releaseSession(session);
  kiln->releaseModel(model);
  return EXIT_SUCCESS;
}

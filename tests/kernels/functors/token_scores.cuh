struct Epilogue {
  const int *targets;
  float *log_prob;
  int *best;
  float *best_log_prob;
  KILN_DEVICE int target(int row) const { return targets[row]; }
  KILN_DEVICE void operator()(const TokenScores &scores, int row) const {
    log_prob[row] = scores.ofTarget;
    best[row] = scores.best;
    best_log_prob[row] = scores.ofBest;
  }
};

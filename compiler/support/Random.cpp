#include "support/Random.h"

#include <cmath>

namespace kiln {

/// The polynomial's value at x; coefficients begin with the constant term.
static double polynomial(double x, const double (&coefficients)[8]) {
  double value = coefficients[7];
  for (int i = 6; i >= 0; --i)
    value = value * x + coefficients[i];
  return value;
}

/// AS 241's rational approximation for |p - 1/2| <= 0.425.
static double centralQuantile(double offset) {
  static constexpr double numerator[8] = {3.3871328727963666080,   1.3314166789178437745e2, 1.9715909503065514427e3,
                                          1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                          3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double denominator[8] = {1.0,
                                            4.2313330701600911252e1,
                                            6.8718700749205790830e2,
                                            5.3941960214247511077e3,
                                            2.1213794301586595867e4,
                                            3.9307895800092710610e4,
                                            2.8729085735721942674e4,
                                            5.2264952788528545610e3};
  double r = 0.180625 - offset * offset;
  return offset * polynomial(r, numerator) / polynomial(r, denominator);
}

/// The absolute value of the quantile whose tail has probability `tail`, 0 < tail < 0.075.
static double tailQuantile(double tail) {
  static constexpr double nearNumerator[8] = {
      1.42343711074968357734, 4.63033784615654529590,    5.76949722146069140550,    3.64784832476320460504,
      1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double nearDenominator[8] = {1.0,
                                                2.05319162663775882187,
                                                1.67638483018380384940,
                                                6.89767334985100004550e-1,
                                                1.48103976427480074590e-1,
                                                1.51986665636164571966e-2,
                                                5.47593808499534494600e-4,
                                                1.05075007164441684324e-9};
  static constexpr double farNumerator[8] = {
      6.65790464350110377720,    5.46378491116411436990,    1.78482653991729133580,    2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double farDenominator[8] = {1.0,
                                               5.99832206555887937690e-1,
                                               1.36929880922735805310e-1,
                                               1.48753612908506148525e-2,
                                               7.86869131145613259100e-4,
                                               1.84631831751005468180e-5,
                                               1.42151175831644588870e-7,
                                               2.04426310338993978564e-15};
  double r = std::sqrt(-std::log(tail));
  if (r <= 5.0)
    return polynomial(r - 1.6, nearNumerator) / polynomial(r - 1.6, nearDenominator);
  return polynomial(r - 5.0, farNumerator) / polynomial(r - 5.0, farDenominator);
}

double normalQuantile(double p) {
  double offset = p - 0.5;
  if (std::abs(offset) <= 0.425)
    return centralQuantile(offset);
  return std::copysign(tailQuantile(offset < 0 ? p : 1 - p), offset);
}

void normalFloats(ArrayRef<uint32_t> words, MutableArrayRef<float> values) {
  constexpr double centralLimit = 0.425;
  auto offset = [&](size_t i) { return (words[i] + 0.5) * 0x1p-32 - 0.5; };
  // No branch, so that the compiler vectorises the loop; five of six values are then final.
  for (size_t i = 0; i < words.size(); ++i)
    values[i] = static_cast<float>(centralQuantile(offset(i)));
  for (size_t i = 0; i < words.size(); ++i)
    if (std::abs(offset(i)) > centralLimit)
      values[i] = normalFloat(words[i]);
}

} // namespace kiln

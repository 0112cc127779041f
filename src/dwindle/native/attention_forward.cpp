// The forward pass of attention, which op.py calls. A file of its own, because it compiles beside
// the backward pass.
#include "attention.h"
#include "forward.h"

namespace dwindle {
namespace {

// IO is the type in memory, C that of the arithmetic.
template <class IO, class C> void attention(const Arguments& given) {
  const Problem p = problem<C>(given);
  const auto code = []<Mode mode, Kind kind1, Kind kind2, Scope scope>() -> Diminish<C> {
    return diminish<C, mode, kind1, kind2, scope>;
  };
  Forward<IO, C>(p, by_strip(p, code))();
}

}  // namespace
}  // namespace dwindle

EXPORT(attention, float32, (dwindle::attention<float, float>))
EXPORT(attention, float64, (dwindle::attention<double, double>))
EXPORT(attention, bfloat16, (dwindle::attention<dwindle::Bfloat16, float>))
EXPORT(attention, float16, (dwindle::attention<dwindle::Half, float>))
